#![allow(clippy::unwrap_used, dead_code, missing_docs)]
#[path = "../tests/live/schema.rs"]
mod schema;
use futures::StreamExt;
use millstream_core::SourceSpec;
use millstream_core::schema::*;
use millstream_document::{DocumentBuilder, PostgresDocuments};
use millstream_model::*;
use millstream_postgres::{Connections, PostgresSettings};
use schema::*;
use std::sync::Arc;
use std::time::Instant;
fn key(column: &str, value: String) -> RowKey {
    RowKey::new(vec![Text::from(column)].into(), [Text::from(value)])
}
#[tokio::main]
async fn main() {
    let mut s: PostgresSettings = "postgres://postgres@localhost:27431/postgres".parse().unwrap();
    s.host = "/tmp/sqlpg".into();
    let conns = Connections::new(s, 4);
    let items = has_many(
        "items",
        path("order_items", &[("id", "order_id")]),
        vec![
            typed("id", FieldType::Long),
            column("sku"),
            column("quantity"),
            column("unit_price"),
            belongs_to("product", path("products", &[("product_id", "id")]), vec![column("name")]),
        ],
    );
    let mut orders = relation(
        Cardinality::HasMany,
        path("orders", &[("id", "user_id")]),
        vec![column("id"), column("total"), column("status"), items],
    );
    orders.order_by = vec![order("created_at", true)];
    let bought = {
        let mut p = through(
            "products",
            &[("orders", &[("id", "user_id")]), ("order_items", &[("id", "order_id")])],
            &[("product_id", "id")],
        );
        p.distinct = true;
        p
    };
    let mut schema = index(
        "users",
        vec![
            column("id"),
            column("name"),
            column("email"),
            column("created_at"),
            field("orders", FieldKind::Relation(orders)),
            belongs_to("company", path("companies", &[("company_id", "id")]), vec![column("name")]),
            over("n", AggregateFunction::Count, path("orders", &[("id", "user_id")])),
        ],
    );
    if std::env::args().any(|a| a == "bought") {
        schema.fields.push(has_many("bought", bought, vec![column("name")]));
    }
    schema.filter = Some(Sql("not archived".into()));
    let index: IndexName = "users".into();
    let d = PostgresDocuments::new(conns, Arc::new(SourceSpec::new([(index.clone(), schema)])));
    let mut x: u64 = 7;
    let mut rnd = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    for round in 0..12 {
        let keys: Vec<_> = (0..1000).map(|_| key("id", (1 + rnd() % 100000).to_string())).collect();
        let t = Instant::now();
        let r = d.build_many(&index, &keys).await.unwrap();
        let b: usize = r
            .built
            .iter()
            .map(|b| match b {
                millstream_document::Built::Document(t) => t.len(),
                _ => 0,
            })
            .sum();
        println!("{round} build 1000: {:?} {:.0}/s {b} bytes", t.elapsed(), 1000.0 / t.elapsed().as_secs_f64());
    }
    for (t, n, m) in [
        ("order_items", 1000, 1200000u64),
        ("order_items", 1000, 1200000),
        ("products", 100, 5000),
        ("products", 3, 5000),
        ("products", 1, 5000),
        ("companies", 1, 1000),
        ("companies", 500, 1000),
        ("orders", 1000, 400000),
    ] {
        let rows: Vec<ChangedRow> = (0..n)
            .map(|_| ChangedRow::new(table(t), key("id", (1 + rnd() % m).to_string()), Operation::Upsert, Fence::NONE))
            .collect();
        let rows: Vec<_> = rows.iter().collect();
        for _ in 0..7 {
            let start = Instant::now();
            let pages: Vec<_> = d.resolve(&index, &rows).collect().await;
            let touches: usize = pages.iter().map(|p| p.as_ref().unwrap().touches.len()).sum();
            println!("resolve {n} {t}: {:?} touches {touches} pages {}", start.elapsed(), pages.len());
        }
    }
}
