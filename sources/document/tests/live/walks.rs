//! From changed rows to documents, over a real Postgres.

use millstream_core::schema::*;
use millstream_document::PostgresDocuments;
use millstream_model::{ChangedRow, Fence, LinkValue, LinkValues, Operation, Position, RowKey, Text};

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, documents, key, keys, touches};

/// A root with a child, a grandchild, what it belongs to, tags through a table, and itself.
async fn shop() -> (Cluster, PostgresDocuments) {
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let items = has_many("items", path("order_items", &[("id", "order_id")]), vec![column("id")]);
    let tags = through("tags", &[("user_tags", &[("id", "user_id")])], &[("tag_id", "id")]);
    let schema = index(
        "users",
        vec![
            has_many("orders", path("orders", &[("id", "user_id")]), vec![items]),
            over("order_count", AggregateFunction::Count, path("orders", &[("id", "user_id")])),
            belongs_to("company", path("companies", &[("company_id", "id")]), vec![column("name")]),
            has_many("team", path("users", &[("id", "boss_id")]), vec![column("id")]),
            has_many("tags", tags, vec![column("name")]),
        ],
    );
    let documents = documents(&cluster, schema);
    (cluster, documents)
}

fn links(pairs: &[(&str, LinkValue)]) -> Option<LinkValues> {
    let columns: Vec<Text> = pairs.iter().map(|(column, _)| Text::from(*column)).collect();
    Some(LinkValues::new(columns.into(), pairs.iter().map(|(_, value)| value.clone())))
}

fn text(value: &str) -> LinkValue {
    LinkValue::Text(value.into())
}

fn row(name: &str, key: RowKey, operation: Operation) -> ChangedRow {
    ChangedRow::new(table(name), key, operation, Fence::NONE)
}

fn ids(ids: &[(usize, &str)]) -> Vec<(usize, String)> {
    ids.iter().map(|(row, id)| (*row, (*id).to_owned())).collect()
}

#[tokio::test]
async fn p5_a_moved_child_touches_both_parents() {
    let (_cluster, documents) = shop().await;
    let mut moved = row("orders", key("id", "10"), Operation::Upsert);
    moved.before = links(&[("user_id", text("7"))]);
    moved.after = links(&[("user_id", text("2"))]);
    let mut deleted = row("orders", key("id", "11"), Operation::Delete);
    deleted.before = links(&[("user_id", text("8"))]);
    let mut unlinked = row("orders", key("id", "12"), Operation::Upsert);
    unlinked.after = links(&[("user_id", LinkValue::Null)]);
    let (found, late) = touches(&documents, &[moved, deleted, unlinked]).await;
    assert_eq!(found, ids(&[(0, "2"), (0, "7"), (1, "8")]));
    assert!(late.is_empty());
}

#[tokio::test]
async fn a_link_that_was_not_told_is_asked_of_the_row_itself() {
    let (_cluster, documents) = shop().await;
    let mut absent = row("orders", key("id", "20"), Operation::Upsert);
    absent.after = links(&[("user_id", LinkValue::Absent)]);
    let silent = row("order_items", key("id", "102"), Operation::Upsert);
    let (found, _) = touches(&documents, &[absent, silent]).await;
    assert_eq!(found, ids(&[(0, "2"), (1, "1")]));
}

#[tokio::test]
async fn a_grandchild_and_a_far_row_touch_what_shows_them() {
    let (_cluster, documents) = shop().await;
    let mut item = row("order_items", key("id", "200"), Operation::Upsert);
    item.before = links(&[("order_id", text("10"))]);
    item.after = links(&[("order_id", text("20"))]);
    let company = row("companies", key("id", "2"), Operation::Upsert);
    let tag = row("tags", key("id", "2"), Operation::Upsert);
    let link = row("user_tags", keys(&[("user_id", "9"), ("tag_id", "2")]), Operation::Delete);
    let (found, _) = touches(&documents, &[item, company, tag, link]).await;
    assert_eq!(found, ids(&[(0, "1"), (0, "2"), (1, "2"), (2, "1"), (2, "2"), (3, "9")]));
}

#[tokio::test]
async fn p6_a_changed_key_touches_both_documents_and_every_path_of_a_related_row() {
    let (_cluster, documents) = shop().await;
    let mut root = row("users", key("id", "4"), Operation::Upsert);
    root.old_key = Some(key("id", "3"));
    root.after = links(&[("boss_id", text("1")), ("id", text("4"))]);
    let mut company = row("companies", key("id", "9"), Operation::Upsert);
    company.old_key = Some(key("id", "1"));
    let (found, _) = touches(&documents, &[root, company]).await;
    assert_eq!(found, ids(&[(0, "1"), (0, "3"), (0, "4"), (1, "1")]));
}

#[tokio::test]
async fn p7_a_truncated_related_table_touches_every_document() {
    let (cluster, documents) = shop().await;
    cluster.execute("insert into users (id) select generate_series(1000, 11999)").await;
    let truncated = row("orders", keys(&[]), Operation::Truncate);
    let (found, _) = touches(&documents, &[truncated]).await;
    assert_eq!(found.len(), 11_003);
    // Nothing of it hangs on a table that the index does not read.
    let (found, _) = touches(&documents, &[row("products", keys(&[]), Operation::Truncate)]).await;
    assert!(found.is_empty());
}

#[tokio::test]
async fn a_wide_fan_out_comes_in_pages() {
    let (cluster, documents) = shop().await;
    cluster.execute("insert into users (id, company_id) select n, 2 from generate_series(1000, 13999) n").await;
    let rows =
        [row("companies", key("id", "2"), Operation::Upsert), row("companies", key("id", "1"), Operation::Upsert)];
    let (found, late) = touches(&documents, &rows).await;
    assert_eq!(found.len(), 13_002);
    assert!(late.is_empty());
    // The connection is clean: the same again, and by a text that needs quoting.
    let (again, _) = touches(&documents, &rows).await;
    assert_eq!(again, found);
}

#[tokio::test]
async fn p3_a_row_whose_transaction_is_not_visible_is_not_yet_resolved() {
    let (_cluster, documents) = shop().await;
    let mut unseen = row("tags", key("id", "2"), Operation::Upsert);
    unseen.fence = Fence::new(1_000_000, Position(1));
    let seen = row("tags", key("id", "1"), Operation::Upsert);
    let (found, late) = touches(&documents, &[unseen, seen]).await;
    assert!(found.contains(&(1, "1".to_owned())));
    assert_eq!(late, [0]);
}
