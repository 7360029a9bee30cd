//! Pages: what a query over a range of keys gives is letter by letter what single keys give.

use millstream_core::schema::*;
use millstream_document::{Built, DocumentBuilder};
use millstream_model::RowKey;

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, built, documents, index as name, key, keys};

use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value};

/// More rows for the shop: of every sort of child many, few and none, links that are NULL or lead nowhere, rows soft deleted and left out.
const MORE: &str = "
insert into users select n, case when n % 3 > 0 then 'U' || n end, case when n % 4 > 0 then n % 6 end, case when n % 5 > 0 then n % 30 end,
    case n % 3 when 0 then 'Company' when 1 then 'Person' end, case when n % 11 = 0 then now() end, n % 13 = 0 from generate_series(4, 120) n;
insert into orders select 100 + n, case when n % 7 > 0 then n % 140 end, case when n % 6 > 0 then n * 1.10 end,
    case n % 3 when 0 then 'void' when 1 then 'paid' end, case when n % 4 > 0 then timestamptz '2024-01-01' + n % 5 * interval '1 day' end
    from generate_series(1, 400) n;
insert into order_items select 1000 + n, case when n % 9 > 0 then 100 + n % 450 end, n % 4, n % 5, n * 0.25, n * 0.1 from generate_series(1, 1500) n;
insert into user_tags select n, t from generate_series(4, 120) n, generate_series(1, 2) t where (n + t) % 3 > 0;
insert into profiles select 10 + n, n % 100, 'Bio ' || n from generate_series(1, 150) n;
insert into user_texts select n, t, case when t < 3 then 'l' || t end, 'text ' || n from generate_series(4, 120) n, generate_series(1, 3) t where n % 2 = 0;
";

/// Everything that a schema can say of other tables, grouped or not, nested both ways.
fn all_of_it() -> IndexSchema {
    let orders = || path("orders", &[("id", "user_id")]);
    let paid = || Path { filter: Some(Sql("status <> 'void' -- not these".to_owned())), ..orders() };
    let items = || path("order_items", &[("id", "order_id")]);
    let tags = || through("tags", &[("user_tags", &[("id", "user_id")])], &[("tag_id", "id")]);
    let bought = || {
        through(
            "products",
            &[("orders", &[("id", "user_id")]), ("order_items", &[("id", "order_id")])],
            &[("product_id", "id")],
        )
    };
    let product = || {
        let sellers = has_many("in", path("order_items", &[("id", "product_id")]), vec![column("id")]);
        belongs_to("product", path("products", &[("product_id", "id")]), vec![column("name"), sellers])
    };
    let lines = || has_many("items", items(), vec![column("id"), column("quantity"), product()]);
    let nested = || {
        vec![
            column("id"),
            column("total"),
            lines(),
            over("lines", Count, items()),
            over("weight", Sum(of("weight")), items()),
        ]
    };
    let changed = |name: &str, path: Path, fields, change: &dyn Fn(&mut Relation)| {
        let mut relation = relation(Cardinality::HasMany, path, fields);
        change(&mut relation);
        field(name, FieldKind::Relation(relation))
    };
    let with_order = |function, path, change: &dyn Fn(&mut Aggregate)| {
        let mut aggregate = aggregate(function, path);
        change(&mut aggregate);
        FieldKind::Aggregate(aggregate)
    };
    let mut inline = relation(
        Cardinality::BelongsTo,
        path("companies", &[("company_id", "id")]),
        vec![
            sql("company", "name || '!'"),
            has_many("staff", path("users", &[("id", "company_id")]), vec![column("id")]),
        ],
    );
    inline.inline = true;
    let mut guarded = inline.clone();
    guarded.inline = false;
    guarded.when = Some(Sql("owner_type = 'Company'".to_owned()));
    let fields = vec![
        column("id"),
        with("name", of_type(FieldType::Text), &[Transform::Uppercase], Some("\"none\"")),
        changed("orders", paid(), nested(), &|relation| relation.order_by = vec![order("created_at", true)]),
        changed("guarded", paid(), vec![column("id")], &|relation| relation.when = Some(Sql("id % 2 = 0".to_owned()))),
        changed("two", orders(), nested(), &|relation| relation.limit = Some(2)),
        changed("by_status", orders(), nested(), &|relation| relation.key_by = Some("status".into())),
        over("count", Count, paid()),
        over("all", Count, orders()),
        over("sum", Sum(of("total")), orders()),
        over("avg", Avg(of("total")), paid()),
        over("first", Min(of("created_at")), paid()),
        over("last", Max(of("created_at")), orders()),
        over("most", Max(of("total")), orders()),
        field("spent", with_order(Sum(Operand::Sql(Sql("total * 2 -- twice".to_owned()))), paid(), &|_| {})),
        field(
            "totals",
            with_order(Collect(of("total")), paid(), &|aggregate| aggregate.order_by = vec![order("total", true)]),
        ),
        field(
            "one",
            with_order(Value(of("status")), orders(), &|aggregate| aggregate.order_by = vec![order("id", true)]),
        ),
        has_many("tags", tags(), vec![column("name")]),
        over("tag_names", Collect(of("name")), tags()),
        has_many("bought", bought(), vec![column("name")]),
        over(
            "weights",
            Sum(of("weight")),
            through("order_items", &[("orders", &[("id", "user_id")])], &[("id", "order_id")]),
        ),
        changed("bought_once", Path { distinct: true, ..bought() }, vec![column("name")], &|_| {}),
        has_one("profile", path("profiles", &[("id", "user_id")]), vec![column("bio")]),
        belongs_to(
            "boss",
            path("users", &[("boss_id", "id")]),
            vec![column("name"), has_many("orders", orders(), nested())],
        ),
        has_many(
            "team",
            path("users", &[("id", "boss_id")]),
            vec![column("id"), has_many("orders", orders(), nested())],
        ),
        has_many("colleagues", path("users", &[("company_id", "company_id")]), vec![column("id")]),
        over("siblings", Count, path("users", &[("boss_id", "boss_id")])),
        field("company", FieldKind::Relation(guarded)),
        field("inline", FieldKind::Relation(inline)),
        field(
            "o",
            FieldKind::Object(vec![has_many("again", orders(), vec![column("status")]), over("n", Count, orders())]),
        ),
    ];
    let mut schema = index("users", fields);
    schema.filter = Some(Sql("not archived -- ever".to_owned()));
    schema.delete_when = Some(Sql("deleted_at is not null".to_owned()));
    schema
}

fn ids(ids: impl IntoIterator<Item = u32>) -> Vec<RowKey> {
    ids.into_iter().map(|id| key("id", &id.to_string())).collect()
}

#[tokio::test]
async fn a_page_is_letter_by_letter_what_single_keys_give() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    cluster.execute(MORE).await;
    let documents = documents(&cluster, all_of_it());
    let sql = documents.page_sql(&name()).await.unwrap().unwrap();
    let groups = sql.matches("left join (select ").count();
    assert!(groups >= 11, "only {groups} groups of rows are joined:\n{sql}");
    for stated in ["", "analyze"] {
        // A server that knows nothing of the tables plans otherwise than one that does.
        if !stated.is_empty() {
            cluster.execute(stated).await;
        }
        let whole = built(&documents, &ids(1..=125)).await;
        let there = whole.iter().filter(|built| matches!(built, Built::Document(_))).count();
        assert!((80..120).contains(&there), "{there} of 125 have a document");
        // Holes in the page, and rows before and behind it.
        built(&documents, &ids((20..60).filter(|id| id % 3 > 0))).await;
        built(&documents, &ids([64])).await;
    }
}

#[tokio::test]
async fn a_page_without_a_row_still_tells_what_it_could_see() {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let documents = documents(&cluster, all_of_it());
    let reading = documents.build_page(&name(), &ids(200..203)).await.unwrap();
    assert_eq!(reading.built, [Built::Absent, Built::Absent, Built::Absent]);
    let reading = documents.build_page(&name(), &[]).await.unwrap();
    assert!(reading.built.is_empty());
}

#[tokio::test]
async fn composite_keys_in_another_order_than_the_indexs_and_keys_of_text() {
    let cluster = Cluster::start();
    cluster
        .execute(
            "create table n (a int, b text, primary key (a, b)); \
             insert into n select a, chr(64 + b) from generate_series(1, 9) a, generate_series(1, 9) b; \
             create table m (id int primary key, a int, b text, up int); \
             insert into m select n, n % 12, chr(64 + n % 11), n % 50 from generate_series(1, 900) n; \
             create table w (word text collate \"C\" primary key, code numeric); \
             insert into w select case when n % 2 = 0 then 'word ' else 'Word ' end || n, n::numeric / 4 from generate_series(1, 60) n; \
             create table v (id int primary key, word text, code numeric); \
             insert into v select n, case when n % 2 = 0 then 'word ' else 'Word ' end || n % 70, (n % 40)::numeric(9, 3) / 4 from generate_series(1, 300) n",
        )
        .await;
    let both = || path("m", &[("b", "b"), ("a", "a")]);
    let inner =
        has_many("ups", path("m", &[("id", "up")]), vec![column("id"), over("n", Count, path("m", &[("id", "up")]))]);
    let one = path("m", &[("a", "a")]);
    let fields = vec![
        column("a"),
        has_many("m", both(), vec![column("id"), inner]),
        over("n", Count, both()),
        over("half", Count, one),
    ];
    let mut schema = index("n", fields);
    schema.key = Some(vec!["b".into(), "a".into()]);
    let pairs = documents(&cluster, schema);
    let all: Vec<RowKey> =
        (2..=8).flat_map(|a| ('A'..='J').map(move |b| keys(&[("b", &b.to_string()), ("a", &a.to_string())]))).collect();
    let found = built(&pairs, &all[3..65]).await;
    assert_eq!(found.iter().filter(|built| **built != Built::Absent).count(), 56);
    let of = |column: &str| path("v", &[(column, column)]);
    let fields = vec![
        column("word"),
        has_many("v", of("word"), vec![column("id")]),
        over("same", Collect(crate::schema::of("id")), of("code")),
    ];
    let words = documents(&cluster, index("w", fields));
    let mut spelled: Vec<String> =
        (1..=60).map(|n| format!("{} {n}", if n % 2 == 0 { "word" } else { "Word" })).collect();
    spelled.sort();
    let found = built(&words, &spelled[5..50].iter().map(|word| key("word", word)).collect::<Vec<_>>()).await;
    assert!(found.iter().all(|built| matches!(built, Built::Document(_))));
}
