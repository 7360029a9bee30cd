//! Every kind of field, relation and aggregate.

use millstream_document::{Built, DocumentBuilder};

use crate::shop::TABLES;
use crate::store::*;

#[tokio::test]
async fn relations_are_objects_and_arrays_in_order() {
    let store = Store::with(TABLES).await;
    let documents = store.documents(schema(
        r#"
table: users
where: "not archived -- ever"
delete_when: "deleted_at is not null"
fields:
  id: long
  kind: { constant: "user" }
  upper: { type: text, sql: "upper(name) -- shouted", nullable: true }
  is_boss: { type: boolean, sql: "id in (1)" }
  o:
    object:
      name: { type: text, nullable: true }
      owner_type: { type: text, default: "none" }
  orders:
    has_many: orders
    join: { id: user_id }
    where: "status <> 'void' -- not these"
    order_by: [-created_at]
    limit: 50
    fields:
      id: long
      total: { type: decimal, nullable: true }
      items: { has_many: order_items, join: { id: order_id }, fields: { id: long, quantity: { type: long, nullable: true } } }
  company: { belongs_to: companies, join: { company_id: id }, when: "owner_type = 'Company'", fields: { name: text } }
  profile: { has_one: profiles, join: { id: user_id }, fields: { bio: { type: text, nullable: true } } }
  boss: { belongs_to: users, join: { boss_id: id }, fields: { name: { type: text, nullable: true } } }
  team: { has_many: users, join: { id: boss_id }, limit: 9, order_by: [-id], fields: { id: long } }
  tags: { has_many: tags, through: { table: user_tags, join: { id: user_id }, to: { tag_id: id } }, fields: { name: { type: keyword, nullable: true } } }
  bought:
    has_many: products
    through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]
    distinct: true
    fields: { name: { type: text, nullable: true } }
  bought_each:
    has_many: products
    through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]
    fields: { name: { type: text, nullable: true } }
  texts: { has_many: user_texts, join: { id: user_id }, key_by: lang, fields: { text: { type: text, nullable: true } } }
  three_texts: { has_many: user_texts, join: { id: user_id }, key_by: lang, order_by: [-n], limit: 2, fields: { n: long } }
  inline:
    belongs_to: companies
    join: { company_id: id }
    inline: true
    fields:
      firm: { type: text, column: name }
      staff: { has_many: users, join: { id: company_id }, fields: { id: long } }
"#,
    ));
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"id":1,"kind":"user","upper":"AL","is_boss":true,"o":{"name":"Al","owner_type":"Company"},"orders":[{"id":12,"total":2.25,"items":[{"id":102,"quantity":1}]},{"id":10,"total":9.50,"items":[{"id":100,"quantity":2},{"id":101,"quantity":1}]}],"company":{"name":"Acme"},"profile":{"bio":"first"},"boss":null,"team":[{"id":3},{"id":2}],"tags":[{"name":"new"},{"name":"vip"}],"bought":[{"name":"pen"},{"name":"ink"}],"bought_each":[{"name":"pen"},{"name":"pen"},{"name":"ink"}],"texts":{"de":{"text":"hallo"},"en":{"text":"hello"}},"three_texts":{"en":{"n":3}},"firm":"Acme","staff":[{"id":1}]}"#
    );
    assert_eq!(
        document(&documents, key("id", "3")).await,
        r#"{"id":3,"kind":"user","upper":null,"is_boss":false,"o":{"name":null,"owner_type":"none"},"orders":[],"company":null,"profile":null,"boss":{"name":"Al"},"team":[],"tags":[],"bought":[],"bought_each":[],"texts":{},"three_texts":{},"firm":null,"staff":null}"#
    );
    let found = documents.inspect(&index()).await.unwrap();
    let errors: Vec<_> = found.iter().filter(|found| found.is_error()).map(ToString::to_string).collect();
    assert!(errors.is_empty(), "{errors:?}");
}

#[tokio::test]
async fn aggregates_over_columns_and_sql_of_many_and_of_none() {
    let store = Store::with(TABLES).await;
    let through = "through: { table: orders, join: { id: user_id }, to: { id: order_id } }";
    let bought = "through: [ { table: orders, join: { id: user_id } }, { table: order_items, join: { id: order_id }, to: { product_id: id } } ]";
    let documents = store.documents(schema(&format!(
        r#"
table: users
fields:
  paid: {{ count: orders, join: {{ id: user_id }}, where: "status <> 'void'" }}
  sum: {{ sum: total, of: orders, type: decimal, join: {{ id: user_id }} }}
  avg: {{ avg: total, of: orders, type: double, join: {{ id: user_id }} }}
  min: {{ min: created_at, of: orders, type: timestamp, join: {{ id: user_id }} }}
  max: {{ max: status, of: orders, type: keyword, join: {{ id: user_id }} }}
  dear: {{ max: total, of: orders, type: decimal, join: {{ id: user_id }} }}
  cheap: {{ min: total, of: orders, type: decimal, join: {{ id: user_id }}, where: "id > 0" }}
  spent: {{ sum: {{ sql: "quantity * unit_price -- each" }}, of: order_items, type: double, {through} }}
  pieces: {{ sum: quantity, of: order_items, type: long, {through} }}
  weight: {{ max: weight, of: order_items, type: double, {through} }}
  products: {{ count: products, {bought} }}
  kinds: {{ count: products, {bought}, distinct: true }}
  names: {{ collect: name, of: products, type: text, {bought} }}
  kind_names: {{ collect: name, of: products, type: text, {bought}, distinct: true, transforms: [uppercase], order_by: [-name] }}
  dates: {{ collect: created_at, of: orders, type: timestamp, join: {{ id: user_id }}, order_by: [-created_at], limit: 2 }}
  states: {{ collect: status, of: orders, type: keyword, join: {{ id: user_id }}, limit: 3 }}
  company: {{ value: name, of: companies, type: keyword, join: {{ company_id: id }} }}
  last: {{ value: {{ sql: "quantity * 2" }}, of: order_items, type: long, {through}, order_by: [-id] }}
"#
    )));
    assert_eq!(
        document(&documents, key("id", "1")).await,
        r#"{"paid":2,"sum":12.75,"avg":4.25,"min":"2024-01-02T00:00:00+00:00","max":"void","dear":9.50,"cheap":1.00,"spent":11.75,"pieces":4,"weight":0.3,"products":3,"kinds":2,"names":["pen","pen","ink"],"kind_names":["PEN","INK"],"dates":[null,"2024-01-03T00:00:00+00:00"],"states":["paid","void","paid"],"company":"Acme","last":2}"#
    );
    assert_eq!(
        document(&documents, key("id", "3")).await,
        r#"{"paid":0,"sum":null,"avg":null,"min":null,"max":null,"dear":null,"cheap":null,"spent":null,"pieces":null,"weight":null,"products":0,"kinds":0,"names":[],"kind_names":[],"dates":[],"states":[],"company":null,"last":null}"#
    );
}

#[tokio::test]
async fn rows_outside_of_the_filters_have_no_document() {
    let mut store = Store::with(TABLES).await;
    let documents = store.documents(schema(
        "table: users\nwhere: not archived\ndelete_when: deleted_at is not null\nfields: { id: long }",
    ));
    let asked: Vec<_> = ["1", "2", "99", "x", "3"].iter().map(|id| key("id", id)).collect();
    // No text but its own finds a row.
    store.execute("insert into users (id, name) values (0, 'nobody')").await;
    store.execute("update users set archived = 1 where id = 1; update users set deleted_at = '2024-01-01T00:00:00.000000Z' where id = 2").await;
    let absent = Built::Absent;
    assert_eq!(
        build(&documents, &asked).await,
        [absent.clone(), absent.clone(), absent.clone(), absent, Built::Document(r#"{"id":3}"#.to_owned())]
    );
    assert!(build(&documents, &[]).await.is_empty());
}

#[tokio::test]
async fn relations_nest_ten_deep() {
    let mut sql = String::new();
    for level in 0..=10 {
        sql.push_str(&format!("create table t{level} (id integer primary key, up integer); insert into t{level} values (1, 1), (2, 1); create index i{level} on t{level} (up);"));
    }
    let store = Store::with(&sql).await;
    let mut fields = "fields: { id: long }".to_owned();
    for level in (1..=10).rev() {
        fields = format!(
            "fields: {{ id: long, down: {{ has_many: t{level}, join: {{ id: up }}, where: \"up = 1\", {fields} }} }}"
        );
    }
    let documents = store.documents(schema(&format!("table: t0\n{fields}")));
    let shown = document(&documents, key("id", "1")).await;
    // Each of ten levels has two rows, and the first of them has all below.
    assert_eq!(shown.matches("\"id\"").count(), 21);
}
