//! Every aggregate, over a real Postgres.

use millstream_core::schema::*;

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, document, documents, key};

use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value};

fn changed(name: &str, function: AggregateFunction, path: Path, change: impl FnOnce(&mut Aggregate)) -> Field {
    let mut aggregate = aggregate(function, path);
    change(&mut aggregate);
    field(name, FieldKind::Aggregate(aggregate))
}

#[tokio::test]
async fn aggregates_over_columns_and_sql_of_many_and_of_none() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let orders = || path("orders", &[("id", "user_id")]);
    let items = || through("order_items", &[("orders", &[("id", "user_id")])], &[("id", "order_id")]);
    let products = || {
        through(
            "products",
            &[("orders", &[("id", "user_id")]), ("order_items", &[("id", "order_id")])],
            &[("product_id", "id")],
        )
    };
    let spent = || Operand::Sql(Sql("quantity * unit_price -- each".to_owned()));
    let fields = vec![
        changed("paid", Count, orders(), |aggregate| aggregate.path.filter = Some(Sql("status <> 'void'".to_owned()))),
        over("sum", Sum(of("total")), orders()),
        over("avg", Avg(of("total")), orders()),
        over("min", Min(of("created_at")), orders()),
        over("max", Max(of("status")), orders()),
        over("spent", Sum(spent()), items()),
        over("weight", Sum(of("weight")), items()),
        over("products", Count, products()),
        changed("kinds", Count, products(), |aggregate| aggregate.path.distinct = true),
        over("names", Collect(of("name")), products()),
        changed("kind_names", Collect(of("name")), products(), |aggregate| {
            aggregate.path.distinct = true;
            aggregate.transforms = vec![Transform::Uppercase];
            aggregate.order_by = vec![order("name", true)];
        }),
        changed("dates", Collect(of("created_at")), orders(), |aggregate| {
            aggregate.order_by = vec![order("created_at", true)];
            aggregate.limit = Some(2);
        }),
        changed("states", Collect(of("status")), orders(), |aggregate| {
            aggregate.path.distinct = true;
            aggregate.limit = Some(1);
        }),
        over("company", Value(of("name")), path("companies", &[("company_id", "id")])),
        changed("last", Value(spent()), items(), |aggregate| aggregate.order_by = vec![order("id", true)]),
    ];
    let documents = documents(&cluster, index("users", fields));
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"paid":2,"sum":12.75,"avg":4.2500000000000000,"min":"2024-01-02T00:00:00+00:00","max":"void","spent":11.75,"weight":0.6000000000000001,"products":3,"kinds":2,"names":["pen","pen","ink"],"kind_names":["PEN","INK"],"dates":[null,"2024-01-03T00:00:00+00:00"],"states":["paid"],"company":"Acme","last":2.25}"#
    );
    assert_eq!(
        document(&documents, key("id", "3")).await,
        r#"{"paid":0,"sum":null,"avg":null,"min":null,"max":null,"spent":null,"weight":null,"products":0,"kinds":0,"names":[],"kind_names":[],"dates":[],"states":[],"company":null,"last":null}"#
    );
}

#[tokio::test]
async fn extremes_of_types_without_such_an_aggregate() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create table r (id int primary key); insert into r values (1); \
             create table c (id int primary key, r int, u uuid, b bool, j json); \
             insert into c values (1, 1, null, null, null), (2, 1, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', false, '1'), \
             (3, 1, 'b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', true, '[1]')",
        )
        .await;
    let rows = || path("c", &[("id", "r")]);
    let fields =
        vec![over("u", Max(of("u")), rows()), over("b", Min(of("b")), rows()), over("j", Collect(of("j")), rows())];
    let documents = documents(&cluster, index("r", fields));
    let expected = r#"{"u":"b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11","b":false,"j":[null,1,[1]]}"#;
    assert_eq!(document(&documents, key("id", "1")).await, expected);
}
