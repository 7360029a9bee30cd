//! Random changes: every document that differs after a change was touched by it.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::SourceSpec;
use millstream_core::schema::*;
use millstream_document::{Built, PostgresDocuments};
use millstream_model::{ChangedRow, Fence, KeyColumns, LinkValue, LinkValues, Operation, RowKey, Text};

use crate::cluster::Cluster;
use crate::schema::*;
use crate::shop::{TABLES, built, documents, index as name, key, touches};

/// Users of a company, with a boss and a team, orders with items and what was bought, tags: three levels, two ways to some.
fn users() -> IndexSchema {
    let product = belongs_to("product", path("products", &[("product_id", "id")]), vec![column("name")]);
    let items =
        has_many("items", path("order_items", &[("id", "order_id")]), vec![column("id"), column("quantity"), product]);
    let tags = through("tags", &[("user_tags", &[("id", "user_id")])], &[("tag_id", "id")]);
    let mut bought = through(
        "products",
        &[("orders", &[("id", "user_id")]), ("order_items", &[("id", "order_id")])],
        &[("product_id", "id")],
    );
    bought.distinct = true;
    let boss_orders = has_many("orders", path("orders", &[("id", "user_id")]), vec![column("total")]);
    let mut paid = path("orders", &[("id", "user_id")]);
    paid.filter = Some(Sql("status = 'paid'".to_owned()));
    index(
        "users",
        vec![
            column("id"),
            column("name"),
            has_many("orders", path("orders", &[("id", "user_id")]), vec![column("id"), column("total"), items]),
            over("paid", AggregateFunction::Sum(of("total")), paid),
            belongs_to("company", path("companies", &[("company_id", "id")]), vec![column("name")]),
            belongs_to("boss", path("users", &[("boss_id", "id")]), vec![column("name"), boss_orders]),
            has_many("team", path("users", &[("id", "boss_id")]), vec![column("id"), column("name")]),
            has_many("tags", tags, vec![column("name")]),
            over("bought", AggregateFunction::Count, bought),
        ],
    )
}

/// Table, its key and the columns that a change picks from, each with how many values it has.
type Changes = (&'static str, &'static [&'static str], &'static [(&'static str, u64)]);

const CHANGES: [Changes; 7] = [
    ("users", &["id"], &[("id", 6), ("name", 9), ("company_id", 4), ("boss_id", 6)]),
    ("orders", &["id"], &[("id", 9), ("user_id", 6), ("total", 9), ("status", 2)]),
    ("order_items", &["id"], &[("id", 12), ("order_id", 9), ("product_id", 4), ("quantity", 9)]),
    ("products", &["id"], &[("id", 4), ("name", 9)]),
    ("companies", &["id"], &[("id", 4), ("name", 9)]),
    ("tags", &["id"], &[("id", 4), ("name", 9)]),
    ("user_tags", &["user_id", "tag_id"], &[("user_id", 6), ("tag_id", 4)]),
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn value(&mut self, column: &str, values: u64, is_key: bool) -> String {
        match self.below(values + 1) {
            // Of the name of a product and its like there is no NULL.
            0 if !is_key && column != "name" => "null".to_owned(),
            value if column == "status" => format!("'{}'", if value == 0 { "paid" } else { "void" }),
            value if column == "name" => format!("'name {value}'"),
            value => value.to_string(),
        }
    }
}

/// A row as the log would tell it: its key, and its link columns.
type Told = (RowKey, LinkValues);

async fn tell(cluster: &Cluster, spec: &SourceSpec, name: &str, key: &[&str], condition: &str) -> Option<Told> {
    let links = spec.link_columns(&table(name));
    let all: Vec<&str> = key.iter().copied().chain(links.iter().map(Text::as_str)).collect();
    let texts = all.iter().map(|column| format!("'{column}', {column}::text")).collect::<Vec<_>>().join(", ");
    let sql = format!("select (select json_build_object({texts})::text from {name} where {condition})");
    let row: BTreeMap<String, Option<String>> = serde_json::from_str(&cluster.text(&sql).await?).unwrap();
    let columns: KeyColumns = key.iter().map(|column| Text::from(*column)).collect();
    let values = key.iter().map(|column| Text::from(row[*column].as_deref().unwrap()));
    let told = links.iter().map(|column| match &row[column.as_str()] {
        Some(text) => LinkValue::Text(text.into()),
        None => LinkValue::Null,
    });
    let told = told.collect::<Vec<_>>();
    Some((RowKey::new(columns, values), LinkValues::new(links.into(), told)))
}

/// Applies one random change; `None` when it changed nothing or was refused.
async fn change(cluster: &Cluster, spec: &SourceSpec, random: &mut Random) -> Option<ChangedRow> {
    let (name, key, columns) = CHANGES[random.below(CHANGES.len() as u64) as usize];
    let is_key = |column: &str| key.contains(&column);
    let values: Vec<(&str, String)> =
        columns.iter().map(|(column, values)| (*column, random.value(column, *values, is_key(column)))).collect();
    let chosen: Vec<String> = values
        .iter()
        .filter(|(column, _)| is_key(column))
        .map(|(column, value)| format!("{column} = {value}"))
        .collect();
    let condition = chosen.join(" and ");
    let before = tell(cluster, spec, name, key, &condition).await;
    let (sql, after) = match (&before, random.below(3)) {
        (None, _) => {
            let names: Vec<&str> = values.iter().map(|(column, _)| *column).collect();
            let texts: Vec<&str> = values.iter().map(|(_, value)| value.as_str()).collect();
            (format!("insert into {name} ({}) values ({})", names.join(", "), texts.join(", ")), condition)
        }
        (Some(_), 0) => (format!("delete from {name} where {condition}"), condition),
        (Some(_), _) => {
            let (column, bound) = columns[random.below(columns.len() as u64) as usize];
            let value = random.value(column, bound, is_key(column));
            let now = chosen.iter().map(|one| match one.starts_with(&format!("{column} = ")) {
                true => format!("{column} = {value}"),
                false => one.clone(),
            });
            let after = now.collect::<Vec<_>>().join(" and ");
            (format!("update {name} set {column} = {value} where {condition}"), after)
        }
    };
    // A key that is taken is refused, and nothing has changed.
    let refused = format!(
        "do $$ begin {sql}; exception when unique_violation then perform set_config('my.refused', 'yes', false); end $$"
    );
    cluster.execute(&refused).await;
    let after = tell(cluster, spec, name, key, &after).await;
    told(name, before, after)
}

fn told(name: &str, before: Option<Told>, after: Option<Told>) -> Option<ChangedRow> {
    match (before, after) {
        (None, None) => None,
        (Some((key, links)), None) => {
            let mut row = ChangedRow::new(table(name), key, Operation::Delete, Fence::NONE);
            row.before = Some(links);
            Some(row)
        }
        (before, Some((key, links))) => {
            let mut row = ChangedRow::new(table(name), key, Operation::Upsert, Fence::NONE);
            if let Some((old, old_links)) = before {
                row.old_key = (old != row.key).then_some(old);
                row.before = (old_links != links).then_some(old_links);
            }
            row.after = Some(links);
            Some(row)
        }
    }
}

async fn all(documents: &PostgresDocuments) -> BTreeMap<String, Built> {
    assert!(
        documents.page_sql(&name()).await.unwrap().is_some_and(|sql| sql.contains("group by")),
        "nothing is grouped"
    );
    let keys: Vec<RowKey> = (0..8).map(|id| key("id", &id.to_string())).collect();
    keys.iter().map(RowKey::to_id).zip(built(documents, &keys).await).collect()
}

#[tokio::test]
async fn every_document_that_differs_after_a_change_was_touched_by_it() {
    let seed = 20_240_601;
    println!("seed {seed}");
    let mut random = Random(seed);
    let cluster = Cluster::start();
    cluster.execute(TABLES).await;
    let spec = SourceSpec::new([(name(), users())]);
    let documents = documents(&cluster, users());
    let mut before = all(&documents).await;
    let mut differing = 0;
    for step in 0..400 {
        let Some(row) = change(&cluster, &spec, &mut random).await else { continue };
        let after = all(&documents).await;
        let touched: BTreeSet<String> =
            touches(&documents, std::slice::from_ref(&row)).await.0.into_iter().map(|(_, id)| id).collect();
        for (id, document) in &after {
            if before[id] != *document {
                differing += 1;
                assert!(touched.contains(id), "step {step}: {row:?} changed {id} and touched only {touched:?}");
            }
        }
        before = after;
    }
    assert!(differing > 200, "only {differing} documents changed: the test is worth little");
}
