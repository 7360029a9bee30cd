//! What SQLite makes of the queries: one look-up a key and level.

use sqlx::{AssertSqlSafe, Row};

use crate::shop::TABLES;
use crate::store::*;

async fn plan_of(yaml: &str) -> (String, String) {
    let mut store = Store::with(TABLES).await;
    let documents = store.documents(schema(yaml));
    let sql = documents.document_sql(&index()).await.unwrap();
    let rows = sqlx::query(AssertSqlSafe(format!("explain query plan {sql}")))
        .bind(r#"["1"]"#)
        .fetch_all(&mut store.writer)
        .await
        .unwrap();
    let plan: Vec<String> = rows.iter().map(|row| row.get::<String, _>(3)).collect();
    (sql, plan.join("\n"))
}

#[tokio::test]
async fn a_document_is_one_sub_query_of_text_over_its_key() {
    let (sql, _) = plan_of("table: companies\nfields: { id: long, 'it''s': { type: text, column: name } }").await;
    assert_eq!(
        sql,
        "select k.key, (select ('{\"id\":' || json_quote(t0.\"id\") || ',\"it''s\":' || json_quote(t0.\"name\") || '}') \
         from main.\"companies\" as t0 where t0.\"id\" = k.value) as doc, null as own\nfrom json_each(?1) as k"
    );
}

#[tokio::test]
async fn no_level_is_read_through() {
    let (sql, plan) = plan_of(
        r#"
table: users
where: not archived
fields:
  id: long
  orders:
    has_many: orders
    join: { id: user_id }
    where: status <> 'void'
    limit: 5
    fields:
      twice: { type: double, sql: total * 2 }
      items: { has_many: order_items, join: { id: order_id }, order_by: [-id], fields: { id: long } }
  sum: { sum: total, of: orders, type: decimal, join: { id: user_id } }
  bought:
    has_many: products
    through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]
    key_by: name
    fields: { id: long }
  kinds:
    count: products
    through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]
    distinct: true
  tags:
    has_many: tags
    through: { table: user_tags, join: { id: user_id }, to: { tag_id: id }, where: tag_id > 0 }
    distinct: true
    where: name <> 'x'
    fields: { name: { type: text, sql: upper(name) } }
"#,
    )
    .await;
    for table in ["users", "orders", "order_items", "products", "tags", "user_tags"] {
        assert!(!plan.lines().any(|line| line.starts_with(&format!("SCAN {table}"))), "{plan}\n{sql}");
    }
    let scans: Vec<&str> = plan.lines().filter(|line| line.starts_with("SCAN t")).collect();
    assert!(scans.is_empty(), "{plan}\n{sql}");
    assert!(!plan.contains("AUTOMATIC"), "{plan}\n{sql}");
}
