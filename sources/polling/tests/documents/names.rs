//! Odd names and odd keys.

use millstream_document::{Built, DocumentBuilder};
use millstream_model::Operation;

use crate::store::*;

#[tokio::test]
async fn p13_any_name_works_for_tables_columns_and_fields() {
    let store = Store::with(
        r#"create table "or""der ""t" ("select" text not null, "it's" integer not null, "a.b" text, "Größe" decimal_text, primary key ("select", "it's"));
           create table "from" ("group" integer primary key, "order by" text, "values" integer, "sql 0" text);
           insert into "or""der ""t" values ('a:b', 1, '1''s', '1.50'), ('%', 2, 'x', null);
           insert into "from" values (1, 'a:b', 1, 'one'), (2, 'a:b', 1, 'two'), (3, '%', 2, 'three');
           create index f on "from" ("order by", "values")"#,
    )
    .await;
    let documents = store.documents(schema(
        r#"
table: 'or"der "t'
key: ["it's", select]
where: '"select" <> ''q'''
fields:
  'na"me': { type: text, column: a.b, nullable: true }
  "Größe\n": { type: decimal, column: "Größe", nullable: true }
  loud: { type: text, sql: 'upper("a.b")', nullable: true }
  rows:
    has_many: from
    join: { select: "order by", "it's": values }
    where: '"sql 0" <> ''two'''
    fields: { text: { type: text, column: "sql 0", nullable: true }, twice: { type: text, sql: '"sql 0" || "sql 0"', nullable: true } }
"#,
    ));
    let found = documents.inspect(&index()).await.unwrap();
    assert!(!found.iter().any(millstream_core::Diagnostic::is_error), "{found:?}");
    let first = keys(&[("it's", "1"), ("select", "a:b")]);
    assert_eq!(first.to_id(), "1:a%3Ab");
    assert_eq!(documents.key_from_id(&index(), "1:a%3Ab").await.unwrap(), first);
    assert_eq!(
        document(&documents, first).await,
        r#"{"na\"me":"1's","Größe\n":1.50,"loud":"1'S","rows":[{"text":"one","twice":"oneone"}]}"#
    );
    // The key of a change is in the table's own order.
    let changed = row("or\"der \"t", keys(&[("select", "%"), ("it's", "2")]), Operation::Upsert);
    let mut child = row("from", key("group", "1"), Operation::Upsert);
    child.after = links(&[("order by", text("a:b")), ("values", text("1"))]);
    let silent = row("from", key("group", "3"), Operation::Upsert);
    let expected = [(0, "2:%25"), (1, "1:a%3Ab"), (2, "2:%25")].map(|(row, id)| (row, id.to_owned()));
    assert_eq!(touches(&documents, &[changed, child, silent]).await, expected);
}

#[tokio::test]
async fn a_path_of_composite_keys_shows_each_far_row_once_or_each_time() {
    let store = Store::with(
        "create table r (a integer not null, b text not null, primary key (a, b)) without rowid; insert into r values (1, 'x'), (2, 'x');
         create table l (id integer primary key, ra integer, rb text, fa integer, fb text); create index lr on l (ra, rb);
         insert into l values (1, 1, 'x', 7, '7'), (2, 1, 'x', 7, '7'), (3, 1, 'x', 7, 'y'), (4, 2, 'y', 7, '7'), (5, 1, 'x', null, '7');
         create table f (a integer not null, b text not null, n integer, primary key (a, b)); insert into f values (7, '7', 1), (7, 'y', 2), (8, '7', 3)",
    )
    .await;
    let path = "through: { table: l, join: { a: ra, b: rb }, to: { fa: a, fb: b } }";
    let documents = store.documents(schema(&format!(
        "table: r\nfields:\n  each: {{ collect: n, of: f, type: long, {path} }}\n  once: {{ has_many: f, distinct: true, {path}, fields: {{ n: {{ type: long, nullable: true }} }} }}\n  \
         kinds: {{ count: f, distinct: true, {path} }}"
    )));
    assert_eq!(
        document(&documents, keys(&[("a", "1"), ("b", "x")])).await,
        r#"{"each":[1,1,2],"once":[{"n":1},{"n":2}],"kinds":2}"#
    );
    assert_eq!(document(&documents, keys(&[("a", "2"), ("b", "x")])).await, r#"{"each":[],"once":[],"kinds":0}"#);
    let far = row("f", keys(&[("a", "7"), ("b", "y")]), Operation::Upsert);
    assert_eq!(touches(&documents, &[far]).await, [(0, "1:x".to_owned())]);
}

#[tokio::test]
async fn keys_of_every_allowed_type_find_their_rows() {
    for (declared, value, text) in [
        ("integer", "9007199254740993", "9007199254740993"),
        ("integer", "-9223372036854775808", "-9223372036854775808"),
        ("bigint", "5", "5"),
        ("text", "'12'", "12"),
        ("text", "'it''s \"é\" \\ '", "it's \"é\" \\ "),
        ("text", "''", ""),
        ("boolean", "1", "1"),
        ("timestamp_text", "'2026-01-31T12:00:00.000000Z'", "2026-01-31T12:00:00.000000Z"),
        ("date_text", "'2026-01-31'", "2026-01-31"),
    ] {
        let store = Store::with(&format!(
            "create table r (k {declared} not null primary key, n integer); insert into r values ({value}, 1);
             create table c (id integer primary key, k {declared}); insert into c values (7, {value}); create index ck on c (k)"
        ))
        .await;
        let documents = store.documents(schema(
            "table: r\nfields: { n: { type: long, nullable: true }, c: { has_many: c, join: { k: k }, fields: { id: long } } }",
        ));
        let shown = document(&documents, key("k", text)).await;
        assert_eq!(shown, r#"{"n":1,"c":[{"id":7}]}"#, "{declared} {value}");
        let silent = row("c", key("id", "7"), Operation::Upsert);
        assert_eq!(touches(&documents, &[silent]).await, [(0, text.to_owned())], "{declared}");
        let all = row("c", keys(&[]), Operation::Truncate);
        assert_eq!(touches(&documents, &[all]).await, [(0, text.to_owned())], "{declared}");
    }
}

#[tokio::test]
async fn a_key_that_is_spelled_otherwise_is_the_rows_own() {
    let store = Store::with(
        "create table r (k text collate nocase not null primary key); insert into r values ('Ab');
         create table c (id integer primary key, k text); insert into c values (1, 'aB'), (2, 'Ab')",
    )
    .await;
    let documents = store
        .documents(schema("table: r\nfields: { k: text, c: { has_many: c, join: { k: k }, fields: { id: long } } }"));
    let asked = [key("k", "aB"), key("k", "Ab"), key("k", "x")];
    let built = build(&documents, &asked).await;
    assert_eq!(built[0], Built::Respelled(key("k", "Ab")));
    assert!(matches!(built[1], Built::Document(_)));
    assert_eq!(built[2], Built::Absent);
    // A child names its parent by asking it.
    let mut child = row("c", key("id", "1"), Operation::Upsert);
    child.after = links(&[("k", text("aB"))]);
    assert_eq!(touches(&documents, &[child]).await, [(0, "Ab".to_owned())]);
}

#[tokio::test]
async fn a_table_that_comes_later_is_planned_when_it_is_there() {
    let mut store = Store::with("create table other (id integer primary key)").await;
    let documents = store.documents(schema("table: late\nfields: { id: long }"));
    let error = documents.build_many(&index(), &[key("id", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), millstream_core::SourceErrorKind::UnknownColumn);
    store.execute("create table late (id integer primary key); insert into late values (1)").await;
    assert_eq!(document(&documents, key("id", "1")).await, r#"{"id":1}"#);
    store.execute("drop table late").await;
    let error = documents.build_many(&index(), &[key("id", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), millstream_core::SourceErrorKind::UnknownColumn);
}
