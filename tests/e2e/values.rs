//! D: values are exact. Every type is asserted twice: through the filling and through live changes.

use std::fmt::Write as _;

use millstream_tests::Stage;

/// One column: its Postgres type, the schema's type, and values of it.
struct Kind {
    native: &'static str,
    declared: &'static str,
    values: &'static [&'static str],
}

const fn kind(native: &'static str, declared: &'static str, values: &'static [&'static str]) -> Kind {
    Kind { native, declared, values }
}

/// The value table. `custom` stands for a custom type that accepts just this one.
const KINDS: &[Kind] = &[
    kind("smallint", "short", &["-32768", "32767"]),
    kind("integer", "integer", &["-2147483648", "2147483647"]),
    kind("bigint", "long", &["9007199254740993", "-9223372036854775808"]),
    kind("numeric", "decimal", &["1234567890123456789012345678901234567890.0123456789", "1e-32", "NaN", "1.10"]),
    kind("numeric(12,4)", "decimal", &["12345678.9000", "-0.0001"]),
    kind("real", "float", &["1.1", "-Infinity", "3.4e38"]),
    kind("double precision", "double", &["0.1", "NaN", "Infinity", "-0", "1e300", "5e-324"]),
    kind("boolean", "boolean", &["true", "false"]),
    kind("text", "text", &["", "line\nbreak \"quoted\" \\ back\ttab", "snø ☃ 𝄞", "null", "\u{1}\u{1f}\u{7f}"]),
    kind("varchar(20)", "keyword", &["  spaces  "]),
    kind("char(5)", "keyword", &["ab", ""]),
    kind("name", "keyword", &["a name"]),
    kind("uuid", "uuid", &["6ecd8c99-4036-403d-bf84-cf8400f67836"]),
    kind("date", "date", &["2024-02-29", "infinity", "-infinity", "0044-03-15 BC", "10000-01-01"]),
    kind("timestamp", "timestamp", &["2024-02-29 23:59:59.123456", "infinity", "0044-03-15 12:00:00 BC"]),
    kind("timestamptz", "timestamp", &["2024-02-29 23:59:59.1+05:30", "-infinity"]),
    kind("time", "time", &["23:59:59.999999", "24:00:00"]),
    kind("timetz", "time", &["12:00:00+05:30"]),
    kind("interval", "custom", &["1 year 2 months 3 days 04:05:06.789", "-1 day", "0"]),
    kind("money", "custom", &["1234.50"]),
    kind("inet", "custom", &["10.0.0.1", "10.0.0.0/8", "::1"]),
    kind("cidr", "custom", &["10.0.0.0/8"]),
    kind("macaddr", "custom", &["08:00:2b:01:02:03"]),
    kind("bit(4)", "custom", &["1010"]),
    kind("varbit", "custom", &["101"]),
    kind("point", "custom", &["(1.5,-2)"]),
    kind("box", "custom", &["((1,2),(0,0))"]),
    kind("xml", "custom", &["<a b=\"1\">t</a>"]),
    kind("tsvector", "custom", &["'a':1 'b':2"]),
    kind("tsquery", "custom", &["'a' & 'b'"]),
    kind("int4range", "custom", &["[1,5)", "empty", "(,3)"]),
    kind("tstzrange", "custom", &["[\"2024-01-01 00:00:00+00\",infinity)"]),
    kind(
        "json",
        "json",
        &["{\"a\": 1.10,\n \"b\": [null, true]}", "\"\\u0000 and \\\\u0000\"", "null", "9007199254740993"],
    ),
    kind("jsonb", "json", &["{\"big\": 9007199254740993, \"n\": 1.10}", "\"\\\\u0000\"", "null", "[1e-32]"]),
    kind(
        "bytea",
        "binary",
        &[
            "\\x",
            "\\x00ff10",
            "\\x0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000",
        ],
    ),
    kind("mood", "enum", &["sad", "very happy"]),
    kind("citext", "keyword", &["BoB"]),
    kind("hstore", "custom", &["a=>1, b=>NULL"]),
    kind("small_positive", "short", &["7"]),
    kind("pair", "custom", &["(1,\"a b\")", "(,)"]),
];

/// Types that the table above leans on.
const TYPES: &str = "
    create extension if not exists citext;
    create extension if not exists hstore;
    create type mood as enum ('sad', 'very happy');
    create domain positive as smallint check (value > 0);
    create domain small_positive as positive check (value < 100);
    create type pair as (number int, word text);
";

/// What shows one column: `to_json` as it is, but binary as base64 without line breaks.
fn shown(kind: &Kind, column: &str, array: bool) -> String {
    match (kind.native, array) {
        ("bytea", false) => format!("replace(encode({column}, 'base64'), E'\\n', '')"),
        ("bytea", true) => format!(
            "case when {column} is not null then coalesce((select json_agg(replace(encode(x, 'base64'), E'\\n', '') order by n) from unnest({column}) with ordinality u(x, n)), '[]'::json) end"
        ),
        _ => column.to_owned(),
    }
}

fn declared(kind: &Kind) -> String {
    match kind.declared {
        "custom" => {
            let base = kind.native.split('(').next().unwrap_or(kind.native);
            format!("{{ type: custom, source: [{base:?}], mapping: {{ type: keyword }}")
        }
        other => format!("{{ type: {other}"),
    }
}

/// A stage with one column for each kind, once plain and once as an array.
async fn table_of_values(test: &str) -> (Stage, Vec<&'static Kind>) {
    let mut stage = Stage::new(test).await;
    stage.run(TYPES).await;
    // Some servers are built without XML.
    let xml = stage.sql.try_run("select '<a/>'::xml").await.is_ok();
    let kinds: Vec<&Kind> = KINDS.iter().filter(|kind| xml || kind.native != "xml").collect();
    let (mut columns, mut fields, mut pairs) = (String::new(), String::new(), Vec::new());
    for (at, kind) in kinds.iter().enumerate() {
        let declared = declared(kind);
        let _ = write!(columns, ", c{at} {native}, a{at} {native}[]", native = kind.native);
        let _ = write!(
            fields,
            "\n  c{at}: {declared}, nullable: true }}\n  a{at}: {declared}, array: true, nullable: true }}"
        );
        for (name, array) in [(format!("c{at}"), false), (format!("a{at}"), true)] {
            pairs.push(format!(r#"',"{name}":' || coalesce(to_json({})::text, 'null')"#, shown(kind, &name, array)));
        }
    }
    stage.run(&format!("create table vals (id int primary key{columns})")).await;
    // Put together as text: the json functions take a hundred arguments at most, and json_each trips over \u0000.
    let oracle = format!(r#"select id, '{{"id":' || id || {} || '}}' from vals"#, pairs.join(" || "));
    stage.index("vals", &format!("table: vals\nfields:\n  id: integer{fields}\n"), &oracle);
    (stage, kinds)
}

/// Sets every column of a row to its value number `at` (of those it has), and every array to all values and a NULL.
fn assignments(kinds: &[&Kind], at: usize) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let each = kinds.iter().enumerate().map(|(number, kind)| {
        let value = kind.values[at % kind.values.len()];
        let all: Vec<String> = kind.values.iter().map(|value| format!("{}::{}", quoted(value), kind.native)).collect();
        let array = if at.is_multiple_of(3) {
            "'{}'".to_owned()
        } else {
            format!("array[null, {}]::{}[]", all.join(", "), kind.native)
        };
        format!("c{number} = {}::{}, a{number} = {array}", quoted(value), kind.native)
    });
    each.collect::<Vec<_>>().join(", ")
}

const MOST_VALUES: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn case_d_every_type_is_exact_through_the_filling() {
    let (mut stage, kinds) = table_of_values("d_filling").await;
    stage.run(&format!("insert into vals (id) select generate_series(0, {MOST_VALUES})")).await;
    for at in 0..MOST_VALUES {
        stage.run(&format!("update vals set {} where id = {at}", assignments(&kinds, at))).await;
    }
    stage.start().await;
    stage.settled().await;
    assert!(stage.dead_letters().is_empty(), "nothing is dropped");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d_every_type_is_exact_through_live_changes() {
    let (mut stage, kinds) = table_of_values("d_live").await;
    stage.start().await;
    stage.run(&format!("insert into vals (id) select generate_series(0, {MOST_VALUES})")).await;
    stage.settled().await;
    for at in 0..MOST_VALUES {
        stage.run(&format!("update vals set {} where id = {at}", assignments(&kinds, at))).await;
    }
    stage.settled().await;
    assert!(stage.dead_letters().is_empty(), "nothing is dropped");
    stage.close().await;
}

/// The role's own settings must not show.
#[tokio::test(flavor = "multi_thread")]
async fn case_d10_p12_a_role_with_odd_settings_gives_the_same_text() {
    let (mut stage, kinds) = table_of_values("d10").await;
    let role = format!("odd_{}", stage.database().name());
    stage.run(&format!("create role {role} superuser login")).await;
    for setting in [
        "datestyle = 'SQL, DMY'",
        "intervalstyle = 'postgres_verbose'",
        "timezone = 'Asia/Kathmandu'",
        "bytea_output = 'escape'",
        "extra_float_digits = -5",
        "xmlbinary = 'hex'",
        "search_path = 'pg_catalog'",
        "standard_conforming_strings = off",
    ] {
        stage.run(&format!("alter role {role} set {setting}")).await;
    }
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}"));
    stage.run(&format!("insert into vals (id) select generate_series(0, {MOST_VALUES})")).await;
    for at in 0..MOST_VALUES {
        stage.run(&format!("update vals set {} where id = {at}", assignments(&kinds, at))).await;
    }
    stage.start().await;
    stage.settled().await;
    stage.run(&format!("update vals set {} where id = 0", assignments(&kinds, 1))).await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d1_digits_survive_as_key_link_column_and_inside_json() {
    let mut stage = Stage::new("d1").await;
    stage.run("create table roots (id bigint primary key, amount numeric, extra jsonb); create table leaves (id numeric primary key, root_id bigint, n numeric); create index on leaves (root_id)").await;
    stage.index(
        "roots",
        "{ table: roots, fields: { id: long, amount: decimal, extra: json, leaves: { has_many: leaves, join: { id: root_id }, fields: { id: decimal, n: decimal } }, total: { sum: n, of: leaves, type: decimal, join: { id: root_id } } } }",
        "select r.id, json_build_object('id', r.id, 'amount', r.amount, 'extra', r.extra, 'leaves', coalesce((select json_agg(json_build_object('id', l.id, 'n', l.n) order by l.id) from leaves l where l.root_id = r.id), '[]'::json), 'total', (select sum(n) from leaves l where l.root_id = r.id)) from roots r",
    );
    let rows = |from: i64| {
        format!(
            "insert into roots values ({from}, 1234567890123456789012345678901234567890, '{{\"n\": 9007199254740993}}'), ({from} + 2, 1e-32, '[1.10]'); \
             insert into leaves values ({from}.5, {from}, 1e-32), ({from}.25, {from}, 9007199254740993.10)"
        )
    };
    stage.run(&rows(9_007_199_254_740_993)).await;
    stage.start().await;
    stage.settled().await;
    stage.run(&rows(9_223_372_036_854_775_805)).await;
    stage.settled().await;
    assert!(stage.document("roots", "9007199254740993").is_some());
    stage.run("update leaves set root_id = root_id + 2; update roots set amount = amount + 1").await;
    stage.settled().await;
    stage.close().await;
}
