//! From changed rows to documents.

use millstream_model::{LinkValue, Operation};
use millstream_polling::SqliteDocuments;

use crate::shop::TABLES;
use crate::store::*;

/// A root with a child, a grandchild, what it belongs to, tags through a table, and itself.
async fn shop() -> (Store, SqliteDocuments) {
    let store = Store::with(TABLES).await;
    let documents = store.documents(schema(
        r#"
table: users
fields:
  orders:
    has_many: orders
    join: { id: user_id }
    fields: { items: { has_many: order_items, join: { id: order_id }, fields: { id: long } } }
  order_count: { count: orders, join: { id: user_id } }
  company: { belongs_to: companies, join: { company_id: id }, fields: { name: text } }
  team: { has_many: users, join: { id: boss_id }, fields: { id: long } }
  tags: { has_many: tags, through: { table: user_tags, join: { id: user_id }, to: { tag_id: id } }, fields: { name: text } }
"#,
    ));
    (store, documents)
}

fn ids(ids: &[(usize, &str)]) -> Vec<(usize, String)> {
    ids.iter().map(|(row, id)| (*row, (*id).to_owned())).collect()
}

#[tokio::test]
async fn p5_a_moved_child_touches_both_parents() {
    let (_store, documents) = shop().await;
    let mut moved = row("orders", key("id", "10"), Operation::Upsert);
    moved.before = links(&[("user_id", text("7"))]);
    moved.after = links(&[("user_id", text("2"))]);
    let mut deleted = row("orders", key("id", "11"), Operation::Delete);
    deleted.before = links(&[("user_id", text("8"))]);
    let mut unlinked = row("orders", key("id", "12"), Operation::Upsert);
    unlinked.after = links(&[("user_id", LinkValue::Null)]);
    let mut item = row("order_items", key("id", "200"), Operation::Upsert);
    item.before = links(&[("order_id", text("10"))]);
    item.after = links(&[("order_id", text("20"))]);
    let found = touches(&documents, &[moved, deleted, unlinked, item]).await;
    assert_eq!(found, ids(&[(0, "2"), (0, "7"), (1, "8"), (3, "1"), (3, "2")]));
}

#[tokio::test]
async fn a_link_that_was_not_told_is_asked_of_the_row_itself() {
    let (_store, documents) = shop().await;
    let mut absent = row("orders", key("id", "20"), Operation::Upsert);
    absent.after = links(&[("user_id", LinkValue::Absent)]);
    let silent = row("order_items", key("id", "102"), Operation::Upsert);
    let link = row("user_tags", keys(&[("user_id", "1"), ("tag_id", "2")]), Operation::Upsert);
    assert_eq!(touches(&documents, &[absent, silent, link]).await, ids(&[(0, "2"), (1, "1"), (2, "1")]));
}

#[tokio::test]
async fn far_rows_and_changed_keys_touch_every_path() {
    let (_store, documents) = shop().await;
    let tag = row("tags", key("id", "2"), Operation::Upsert);
    let link = row("user_tags", keys(&[("user_id", "9"), ("tag_id", "2")]), Operation::Delete);
    let mut root = row("users", key("id", "4"), Operation::Upsert);
    root.old_key = Some(key("id", "3"));
    root.after = links(&[("boss_id", text("1")), ("id", text("4"))]);
    let mut company = row("companies", key("id", "9"), Operation::Upsert);
    company.old_key = Some(key("id", "1"));
    let found = touches(&documents, &[tag, link, root, company]).await;
    assert_eq!(found, ids(&[(0, "1"), (0, "2"), (1, "9"), (2, "1"), (2, "3"), (2, "4"), (3, "1")]));
}

#[tokio::test]
async fn p7_a_truncated_related_table_touches_every_document() {
    let (mut store, documents) = shop().await;
    store
        .execute("insert into users (id) with recursive n(i) as (select 1000 union all select i + 1 from n where i < 11999) select i from n")
        .await;
    let truncated = row("orders", keys(&[]), Operation::Truncate);
    assert_eq!(touches(&documents, &[truncated]).await.len(), 11_003);
    assert!(touches(&documents, &[row("products", keys(&[]), Operation::Truncate)]).await.is_empty());
}

#[tokio::test]
async fn a_wide_fan_out_comes_in_pages_and_holds_no_view_of_the_store() {
    use futures::StreamExt;
    use millstream_document::DocumentBuilder;
    let (mut store, documents) = shop().await;
    store
        .execute("insert into users (id, company_id) with recursive n(i) as (select 1000 union all select i + 1 from n where i < 13999) select i, 2 from n")
        .await;
    let rows =
        [row("companies", key("id", "2"), Operation::Upsert), row("companies", key("id", "1"), Operation::Upsert)];
    let found = touches(&documents, &rows).await;
    assert_eq!(found.len(), 13_002);
    assert_eq!(touches(&documents, &rows).await, found);
    // Between two pages the store can be written and its log brought in.
    let (index, rows) = (index(), [&rows[0]]);
    let mut pages = documents.resolve(&index, &rows);
    let first = pages.next().await.unwrap().unwrap();
    assert_eq!(first.touches.len(), 5_000);
    store.execute("update companies set name = 'Other' where id = 2").await;
    let (busy, log, moved): (i64, i64, i64) =
        sqlx::query_as("pragma wal_checkpoint(truncate)").fetch_one(&mut store.writer).await.unwrap();
    assert_eq!((busy, log, moved), (0, 0, 0));
    let rest: Vec<_> = pages.map(|page| page.unwrap().touches.len()).collect().await;
    assert_eq!(rest.iter().sum::<usize>(), 8_001);
}

#[tokio::test]
async fn a_read_sees_what_was_committed_before_it_began() {
    let (mut store, _) = shop().await;
    let documents = store.documents(schema("table: companies\nfields: { name: text }"));
    for name in 0..200 {
        store.execute(&format!("update companies set name = 'name {name}' where id = 1")).await;
        assert_eq!(document(&documents, key("id", "1")).await, format!(r#"{{"name":"name {name}"}}"#));
    }
}
