//! What can't be done right is refused, with its place and what to write instead.

use millstream_core::Diagnostic;
use millstream_document::DocumentBuilder;

use crate::store::*;

const TABLES: &str = "
create table r (id integer primary key, name text, price decimal_text, at timestamp_text, day date_text, x real, b blob, j json_text, loose, flag boolean);
create table c (id integer primary key, r integer, name text, price decimal_text, day date_text, x real, b blob, loose);
create table by_real (x real not null primary key);
create table millstream_streams (key text not null primary key);
create view v as select * from r;
create table no_key (id integer);
create index cr on c (r); create index cn on c (name); create index rn on r (name);
";

async fn inspect(yaml: &str) -> Vec<Diagnostic> {
    let store = Store::with(TABLES).await;
    let documents = store.documents(schema(yaml));
    let found = documents.inspect(&index()).await.unwrap();
    // Asked again it is the same, and whatever was made on the way is gone.
    assert_eq!(documents.inspect(&index()).await.unwrap(), found);
    found
}

async fn refused(yaml: &str, code: &str, path: &str, words: &str) {
    let found = inspect(yaml).await;
    let said = found.iter().find(|found| found.code == code && found.path == path);
    let Some(said) = said else { panic!("not refused: {yaml}\n{found:?}") };
    assert!(said.to_string().contains(words), "{said}");
    assert!(!said.remedy.is_empty(), "{said}");
}

#[tokio::test]
async fn tables_that_are_none_are_named() {
    refused("table: v\nfields: { id: long }", "unsupported-table", "table", "a view").await;
    refused("table: millstream_streams\nfields: { key: text }", "unsupported-table", "table", "driver's own").await;
    refused("table: other.r\nfields: { id: long }", "missing-table", "table", "public.r").await;
    refused("table: R\nfields: { id: long }", "missing-table", "table", "`public.r`").await;
    refused("table: no_key\nfields: { id: long }", "no-primary-key", "table", "primary key").await;
}

#[tokio::test]
async fn keys_and_joins_without_an_exact_text_are_refused() {
    refused("table: by_real\nfields: { x: double }", "key-type", "table", "`real`").await;
    for (left, right, code, words) in [
        ("x", "x", "key-type", "real"),
        ("b", "b", "key-type", "blob"),
        ("loose", "loose", "key-type", "of no declared type"),
        ("price", "price", "join-types", "letter by letter"),
        ("at", "day", "join-types", "letter by letter"),
        ("id", "name", "join-types", "can't be compared"),
    ] {
        let yaml = format!(
            "table: r\nfields: {{ c: {{ has_many: c, join: {{ {left}: {right} }}, fields: {{ id: long }} }} }}"
        );
        refused(&yaml, code, "fields.c.join", words).await;
    }
    let yaml = "table: r\nfields: { c: { has_many: c, join: { id: r }, key_by: b, fields: { id: long } } }";
    refused(yaml, "key-type", "fields.c.key_by", "blob").await;
}

#[tokio::test]
async fn types_that_do_not_agree_are_refused() {
    refused("table: r\nfields: { id: integer }", "type", "fields.id", "type: long").await;
    refused("table: r\nfields: { price: text }", "type", "fields.price", "type: decimal").await;
    refused("table: r\nfields: { name: { type: text, array: true } }", "array", "fields.name", "array").await;
    refused("table: r\nfields: { p: { geo_point: { point: name } } }", "type", "fields.p", "not a point").await;
    refused("table: r\nfields: { nam: text }", "missing-column", "fields.nam", "`name`").await;
}

#[tokio::test]
async fn sql_that_sees_more_than_its_row_is_refused() {
    for (sql, code, words) in [
        ("nope + 1", "sql", "no such column: nope"),
        ("\\\"nope\\\" || 'a'", "sql", "has no column `nope`"),
        ("(select 1)", "sql", "subqueries"),
        ("random()", "sql-volatile", "changes with no event"),
        ("date('now')", "sql-volatile", "changes with no event"),
        ("case when id > 0 then 1 else current_date end", "sql-volatile", "changes with no event"),
        ("count(*)", "sql", "aggregate"),
        ("row_number() over ()", "sql", "window"),
        ("id = ?1", "sql", "parameters"),
        ("1) or (1", "sql", "bracket"),
        ("1; drop table r", "sql", "`;`"),
        ("id +", "sql", "syntax error"),
        ("no_such(id)", "sql", "no such function"),
    ] {
        refused(&format!("table: r\nfields: {{ f: {{ type: text, sql: \"{sql}\" }} }}"), code, "fields.f.sql", words)
            .await;
        let yaml = format!("table: r\nfields: {{ c: {{ count: c, join: {{ id: r }}, where: \"{sql}\" }} }}");
        refused(&yaml, code, "fields.c.where", words.trim_start_matches("has ")).await;
    }
    refused("table: r\nwhere: r.id > 0\nfields: { id: long }", "sql", "where", "without their table").await;
    let sound = "table: r\nwhere: \"\\\"flag\\\" and id > 0 -- so\"\nfields: { f: { type: text, sql: \"name || '\\\"x\\\"' || substr('a;)', 1) -- it's\" } }";
    let found = inspect(sound).await;
    assert!(!found.iter().any(Diagnostic::is_error), "{found:?}");
}

#[tokio::test]
async fn what_is_done_otherwise_is_a_warning() {
    let found = inspect(
        "table: r\nfields:\n  name: { type: text, nullable: true, transforms: [lowercase] }\n  a: { avg: price, of: c, type: double, join: { id: r } }\n  \
         d: { count: c, join: { day: day } }",
    )
    .await;
    let said: Vec<(&str, &str)> = found.iter().map(|found| (found.code, found.path.as_str())).collect();
    for expected in [
        ("ascii-case", "fields.name.transforms"),
        ("decimal-average", "fields.a.avg"),
        ("unindexed-link", "fields.d.join"),
    ] {
        assert!(said.contains(&expected), "{found:?}");
    }
    assert!(!found.iter().any(Diagnostic::is_error), "{found:?}");
    let statement = &found.iter().find(|found| found.code == "unindexed-link").unwrap().remedy;
    assert_eq!(statement, r#"CREATE INDEX "c_day" ON "c" ("day")"#);
}
