//! Random changes: every document is what plain loops over the rows make of them, and each that differs was touched.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::SourceSpec;
use millstream_document::Built;
use millstream_model::{ChangedRow, KeyColumns, LinkValue, LinkValues, Operation, RowKey, Text};

use crate::store::*;

/// Users of a company, with a boss and a team, orders with items and what was bought, tags: three levels, two ways to some.
const SCHEMA: &str = r#"
table: users
fields:
  id: long
  name: { type: text, nullable: true }
  orders:
    has_many: orders
    join: { id: user_id }
    order_by: [-total]
    fields:
      id: long
      total: { type: decimal, nullable: true }
      items:
        has_many: order_items
        join: { id: order_id }
        fields: { id: long, product: { belongs_to: products, join: { product_id: id }, fields: { name: text } } }
  paid: { sum: total, of: orders, type: decimal, join: { id: user_id }, where: "status = 'paid'" }
  company: { belongs_to: companies, join: { company_id: id }, fields: { name: text } }
  boss: { belongs_to: users, join: { boss_id: id }, fields: { id: long, orders: { count: orders, join: { id: user_id } } } }
  team: { collect: name, of: users, type: text, join: { id: boss_id } }
  tags: { has_many: tags, through: { table: user_tags, join: { id: user_id }, to: { tag_id: id } }, fields: { name: text } }
  bought:
    has_many: products
    through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]
    distinct: true
    fields: { id: long }
"#;

/// Table, how many of its columns are its key, and its columns, each with how many values it has.
type Table = (&'static str, usize, &'static [(&'static str, u64)]);

const TABLES: [Table; 7] = [
    ("users", 1, &[("id", 6), ("name", 9), ("company_id", 4), ("boss_id", 6)]),
    ("orders", 1, &[("id", 9), ("user_id", 6), ("total", 40), ("status", 2)]),
    ("order_items", 1, &[("id", 12), ("order_id", 9), ("product_id", 4)]),
    ("products", 1, &[("id", 4), ("name", 9)]),
    ("companies", 1, &[("id", 4), ("name", 9)]),
    ("tags", 1, &[("id", 4), ("name", 9)]),
    ("user_tags", 2, &[("user_id", 6), ("tag_id", 4)]),
];

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn value(&mut self, column: &str, values: u64, is_key: bool) -> Option<String> {
        match self.below(values + 1) {
            0 if !is_key && column != "name" => None,
            value if column == "status" => Some(if value == 0 { "paid" } else { "void" }.to_owned()),
            value if column == "name" => Some(format!("name \"{value}\"")),
            value if column == "total" => Some(cents(value as i64 * 37 - 500)),
            value => Some(value.to_string()),
        }
    }
}

fn cents(cents: i64) -> String {
    format!("{}{}.{:02}", if cents < 0 { "-" } else { "" }, cents.abs() / 100, cents.abs() % 100)
}

/// The rows of each table by their keys, all as texts.
#[derive(Default)]
struct Rows(BTreeMap<&'static str, BTreeMap<Vec<i64>, Vec<Option<String>>>>);

impl Rows {
    /// A table's rows, in the order of their keys.
    fn all(&self, table: &'static str) -> impl Iterator<Item = Row<'_>> {
        let columns = TABLES.iter().find(|(name, ..)| *name == table).unwrap().2;
        self.0.get(table).into_iter().flat_map(BTreeMap::values).map(move |values| Row { columns, values })
    }

    fn first(&self, table: &'static str, column: &str, value: Option<&str>) -> Option<Row<'_>> {
        self.all(table).find(|row| value.is_some() && row.get(column) == value)
    }
}

#[derive(Clone, Copy)]
struct Row<'a> {
    columns: &'static [(&'static str, u64)],
    values: &'a [Option<String>],
}

impl<'a> Row<'a> {
    fn get(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|(name, _)| *name == column).unwrap();
        self.values[at].as_deref()
    }

    fn json(&self, column: &str) -> String {
        match self.get(column) {
            None => "null".to_owned(),
            Some(text) if column == "name" => serde_json::Value::from(text).to_string(),
            Some(text) => text.to_owned(),
        }
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

/// A user's document by plain loops.
fn oracle(rows: &Rows, user: Row<'_>) -> String {
    let id = user.get("id");
    let mut orders: Vec<Row<'_>> = rows.all("orders").filter(|order| order.get("user_id") == id).collect();
    let money = |order: &Row<'_>| order.get("total").map(|total| total.replace('.', "").parse::<i64>().unwrap());
    // Descending, NULLs first; then by key, which is the order they have.
    orders.sort_by_key(|order| (money(order).is_some(), -money(order).unwrap_or(0)));
    let items = |order: Row<'_>| {
        let items: Vec<Row<'_>> =
            rows.all("order_items").filter(|item| item.get("order_id") == order.get("id")).collect();
        items
    };
    let product = |item: &Row<'_>| rows.first("products", "id", item.get("product_id"));
    let shown = orders.iter().map(|order| {
        let items = items(*order).into_iter().map(|item| {
            let product = product(&item).map_or("null".to_owned(), |it| format!(r#"{{"name":{}}}"#, it.json("name")));
            format!(r#"{{"id":{},"product":{product}}}"#, item.json("id"))
        });
        format!(r#"{{"id":{},"total":{},"items":{}}}"#, order.json("id"), order.json("total"), list(items))
    });
    let shown = list(shown.collect::<Vec<_>>());
    let paid: Vec<i64> = orders.iter().filter(|it| it.get("status") == Some("paid")).filter_map(money).collect();
    let paid = if paid.is_empty() { "null".to_owned() } else { cents(paid.iter().sum()) };
    let company = rows.first("companies", "id", user.get("company_id"));
    let company = company.map_or("null".to_owned(), |it| format!(r#"{{"name":{}}}"#, it.json("name")));
    let boss = rows.first("users", "id", user.get("boss_id")).map_or("null".to_owned(), |boss| {
        let orders = rows.all("orders").filter(|order| order.get("user_id") == boss.get("id")).count();
        format!(r#"{{"id":{},"orders":{orders}}}"#, boss.json("id"))
    });
    let team = list(rows.all("users").filter(|it| it.get("boss_id") == id).map(|it| it.json("name")));
    let links: Vec<Row<'_>> = rows.all("user_tags").filter(|link| link.get("user_id") == id).collect();
    let tags = links.iter().filter_map(|link| rows.first("tags", "id", link.get("tag_id")));
    let tags = list(tags.map(|tag| format!(r#"{{"name":{}}}"#, tag.json("name"))));
    let bought: BTreeSet<i64> = orders
        .iter()
        .flat_map(|order| items(*order))
        .filter_map(|item| product(&item))
        .map(|it| it.get("id").unwrap().parse().unwrap())
        .collect();
    let bought = list(bought.iter().map(|id| format!(r#"{{"id":{id}}}"#)));
    format!(
        r#"{{"id":{},"name":{},"orders":{shown},"paid":{paid},"company":{company},"boss":{boss},"team":{team},"tags":{tags},"bought":{bought}}}"#,
        user.json("id"),
        user.json("name")
    )
}

fn literal(value: &Option<String>) -> String {
    value.as_ref().map_or("null".to_owned(), |text| format!("'{}'", text.replace('\'', "''")))
}

fn number(key: &[Option<String>]) -> Vec<i64> {
    key.iter().map(|text| text.as_deref().unwrap().parse().unwrap()).collect()
}

/// Applies one random change to the store and to the rows, and tells of it as a capture does.
async fn change(store: &mut Store, rows: &mut Rows, spec: &SourceSpec, random: &mut Random) -> Option<ChangedRow> {
    let (name, width, columns) = TABLES[random.below(TABLES.len() as u64) as usize];
    let values: Vec<Option<String>> =
        columns.iter().enumerate().map(|(at, (column, bound))| random.value(column, *bound, at < width)).collect();
    let key = number(&values[..width]);
    let table_rows = rows.0.entry(name).or_default();
    let before = table_rows.get(&key).cloned();
    let mut after = match (&before, random.below(4)) {
        (Some(_), 0) => None,
        (Some(row), 1) => {
            // Another key.
            let mut row = row.clone();
            row[0] = random.value(columns[0].0, columns[0].1, true);
            Some(row)
        }
        _ => Some(values),
    };
    if after.as_ref().is_some_and(|row| number(&row[..width]) != key && table_rows.contains_key(&number(&row[..width])))
    {
        after = before.clone();
    }
    if before == after {
        return None;
    }
    table_rows.remove(&key);
    let mut sql = String::new();
    if before.is_some() {
        let found: Vec<String> =
            columns[..width].iter().zip(&key).map(|((column, _), value)| format!("{column} = {value}")).collect();
        sql.push_str(&format!("delete from {name} where {};", found.join(" and ")));
    }
    if let Some(row) = &after {
        table_rows.insert(number(&row[..width]), row.clone());
        sql.push_str(&format!(
            "insert into {name} values ({});",
            row.iter().map(literal).collect::<Vec<_>>().join(", ")
        ));
    }
    store.execute(&format!("begin; {sql} commit")).await;
    Some(told(name, width, columns, spec, before.as_deref(), after.as_deref()))
}

fn told(
    name: &str,
    width: usize,
    columns: &'static [(&'static str, u64)],
    spec: &SourceSpec,
    before: Option<&[Option<String>]>,
    after: Option<&[Option<String>]>,
) -> ChangedRow {
    let key = |row: &[Option<String>]| {
        let names: KeyColumns = columns[..width].iter().map(|(column, _)| Text::from(*column)).collect();
        RowKey::new(names, row[..width].iter().map(|text| Text::from(text.as_deref().unwrap())))
    };
    let links = |values: &[Option<String>]| {
        let names = spec.link_columns(&table(name));
        let row = Row { columns, values };
        let texts: Vec<LinkValue> = names.iter().map(|name| row.get(name).map_or(LinkValue::Null, text)).collect();
        LinkValues::new(names.into(), texts)
    };
    let operation = if after.is_some() { Operation::Upsert } else { Operation::Delete };
    let mut told = row(name, key(after.or(before).unwrap()), operation);
    told.old_key = before.map(key).filter(|old| *old != told.key);
    told.after = after.map(links);
    told.before = before.map(links).filter(|before| told.after.as_ref() != Some(before));
    told
}

#[tokio::test]
async fn every_document_is_what_plain_loops_make_and_was_touched_when_it_changed() {
    let seed = 20_261_130;
    println!("seed {seed}");
    let mut random = Random(seed);
    let mut sql = String::new();
    for (name, width, columns) in TABLES {
        let of = |column: &str| match column {
            "name" | "status" => "text",
            "total" => "decimal_text",
            _ => "integer",
        };
        let list: Vec<String> = columns.iter().map(|(column, _)| format!("{column} {}", of(column))).collect();
        let key: Vec<&str> = columns[..width].iter().map(|(column, _)| *column).collect();
        sql.push_str(&format!("create table {name} ({}, primary key ({}));", list.join(", "), key.join(", ")));
    }
    let mut store = Store::with(&sql).await;
    let spec = SourceSpec::new([(index(), schema(SCHEMA))]);
    let documents = store.documents(schema(SCHEMA));
    let asked: Vec<RowKey> = (0..8).map(|id| key("id", &id.to_string())).collect();
    let mut rows = Rows::default();
    let mut before: Vec<Built> = vec![Built::Absent; asked.len()];
    let mut differing = 0;
    for step in 0..1500 {
        let Some(changed) = change(&mut store, &mut rows, &spec, &mut random).await else { continue };
        let after = build(&documents, &asked).await;
        let touched: BTreeSet<String> =
            touches(&documents, std::slice::from_ref(&changed)).await.into_iter().map(|(_, id)| id).collect();
        for (at, key) in asked.iter().enumerate() {
            let id = key.to_id();
            let expected = match rows.first("users", "id", Some(&id)) {
                Some(user) => Built::Document(oracle(&rows, user)),
                None => Built::Absent,
            };
            assert_eq!(after[at], expected, "step {step}: {changed:?}");
            if before[at] != after[at] {
                differing += 1;
                assert!(touched.contains(&id), "step {step}: {changed:?} changed {id} and touched only {touched:?}");
            }
        }
        before = after;
    }
    assert!(differing > 1000, "only {differing} documents changed: the test is worth little");
}
