//! What a read could see: on a primary, on a standby, under odd settings and names.

use std::sync::Arc;

use millstream_core::SourceSpec;
use millstream_core::schema::*;
use millstream_document::{Built, DocumentBuilder, PostgresDocuments};
use millstream_model::{Fence, Position, QualifiedTable};
use millstream_postgres::sqlx;

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{document, documents, index as name, key};

#[tokio::test]
async fn p3_an_absent_row_of_an_open_transaction_is_not_settled() {
    let cluster = Cluster::start();
    cluster.execute("create table n (id int primary key)").await;
    let documents = documents(&cluster, index("n", vec![column("id")]));
    let mut open = cluster.connections().get().await.unwrap();
    sqlx::raw_sql("begin; insert into n values (1)").execute(&mut *open).await.unwrap();
    let transaction: i64 =
        sqlx::query_scalar("select pg_current_xact_id()::text::int8").fetch_one(&mut *open).await.unwrap();
    let fence = Fence::new(transaction.unsigned_abs(), Position(1));
    let before = documents.build_many(&name(), &[key("id", "1")]).await.unwrap();
    assert_eq!(before.built, [Built::Absent]);
    assert!(!before.sight.covers(&fence));
    // Nor does a read of nothing, by which a build that fails is judged.
    assert!(!documents.build_many(&name(), &[]).await.unwrap().sight.covers(&fence));
    sqlx::raw_sql("commit").execute(&mut *open).await.unwrap();
    let after = documents.build_many(&name(), &[key("id", "2"), key("id", "1")]).await.unwrap();
    assert_eq!(after.built, [Built::Absent, Built::Document(r#"{"id":1}"#.to_owned())]);
    assert!(after.sight.covers(&fence));
}

#[tokio::test]
async fn case_g5_a_standby_is_recognised_and_covers_by_position() {
    let primary = Cluster::start();
    primary.execute("create table n (id int primary key); insert into n values (1)").await;
    let standby = primary.standby();
    let wanted = primary.text("select pg_current_wal_lsn()::text").await.unwrap();
    standby.wait_for(&format!("select pg_last_wal_replay_lsn() >= '{wanted}'")).await;
    let documents =
        documents(&standby, index("n", vec![column("id"), has_many("all", path("n", &[("id", "id")]), vec![])]));
    for _ in 0..2 {
        let read = documents.build_many(&name(), &[key("id", "1")]).await.unwrap();
        assert_eq!(read.built, [Built::Document(r#"{"id":1,"all":[{}]}"#.to_owned())]);
        assert!(read.sight.covers(&Fence::new(3, Position(1))));
        assert!(!read.sight.covers(&Fence::new(3, Position(u64::MAX))));
    }
    // Promoted, it is a primary like any.
    standby.execute("select pg_promote()").await;
    let read = documents.build_many(&name(), &[key("id", "1")]).await.unwrap();
    assert!(read.sight.covers(&Fence::new(3, Position(u64::MAX))));
}

#[tokio::test]
async fn case_d10_a_roles_odd_settings_change_nothing() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create table n (id int primary key, a timestamptz, b interval, c bytea, d float8, e money); \
             insert into n values (1, '2024-01-02 03:04:05+00', '1 day', '\\xff', 0.1, 5); \
             alter role postgres set \"DateStyle\" = 'German'; alter role postgres set \"IntervalStyle\" = 'sql_standard'; \
             alter role postgres set \"TimeZone\" = 'Asia/Tokyo'; alter role postgres set bytea_output = 'escape'; \
             alter role postgres set extra_float_digits = -5; alter role postgres set row_security = on",
        )
        .await;
    // On connections that were made since.
    let spec = SourceSpec::new([(name(), index("n", ["a", "b", "c", "d", "e"].map(column).to_vec()))]);
    let documents = PostgresDocuments::new(cluster.connections_as("postgres"), Arc::new(spec));
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"a":"2024-01-02T03:04:05+00:00","b":"P1D","c":"\\xff","d":0.1,"e":"$5.00"}"#
    );
}

#[tokio::test]
async fn case_d11_any_name_works() {
    let cluster = Cluster::start();
    let long = "é".repeat(31);
    cluster
        .execute(&format!(
            r#"create schema "Sales-2"; create table "Sales-2"."Order" ("user" int primary key, "a.b" text, "sql 0" int, "{long}" int, "it's \" int);
               create table "Sales-2"."t0" ("k" int primary key, "select" int);
               insert into "Sales-2"."Order" values (1, 'x', 2, 3, 4); insert into "Sales-2"."t0" values (7, 1)"#
        ))
        .await;
    let sales = |table: &str| QualifiedTable::new("Sales-2", table);
    let mut children = path("t0", &[("user", "select")]);
    children.table = sales("t0");
    children.filter = Some(Sql(r#"t0.k > 0 and "t0"."select" is not null"#.to_owned()));
    let fields = vec![
        column("a.b"),
        column("sql 0"),
        column(&long),
        column("it's \\"),
        sql("plus", r#""Order"."sql 0" + "user" -- no"#),
        has_many("t0", children, vec![column("k")]),
    ];
    let documents = documents(&cluster, IndexSchema { table: sales("Order"), ..index("", fields) });
    assert_eq!(
        document(&documents, key("user", "1")).await,
        format!(r#"{{"a.b":"x","sql 0":2,"{long}":3,"it's \\":4,"plus":3,"t0":[{{"k":7}}]}}"#)
    );
}

#[tokio::test]
async fn case_d14_three_hundred_columns_and_a_root_of_two_hundred_thousand_children() {
    let cluster = Cluster::start();
    let columns: Vec<String> = (0..300).map(|at| format!("c{at}")).collect();
    let list = columns.iter().map(|name| format!(", {name} int default 7")).collect::<String>();
    cluster
        .execute(&format!(
            "create table n (id int primary key{list}); insert into n values (1); \
             create table c (id int primary key, n int); insert into c select i, 1 from generate_series(1, 200000) i; create index on c (n)"
        ))
        .await;
    let mut fields: Vec<Field> = columns.iter().map(|name| column(name)).collect();
    fields.insert(150, has_many("children", path("c", &[("id", "n")]), vec![column("id")]));
    let documents = documents(&cluster, index("n", fields));
    let text = document(&documents, key("id", "1")).await;
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read.as_object().unwrap().len(), 301);
    assert_eq!(read["children"].as_array().unwrap().len(), 200_000);
    assert_eq!(read["children"][199_999]["id"], 200_000);
}
