//! D: names are anything, and keys are of any type.

use std::fmt::Write as _;

use millstream_tests::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn case_d11_p13_any_identifier_works_everywhere() {
    let mut stage = Stage::new("d11").await;
    let long = "x".repeat(63);
    stage.run(&format!(r#"
        create schema "Sales-2";
        create table "Sales-2"."Order" (
          "user" int primary key, "Mixed Case" text, "quo""te" text, "do.t" text, "select" text, "it's" text, {long} text, "back\slash" text);
        create table "Sales-2"."a.b" ("key" int primary key, "Order.user" int, "from" text);
        create index on "Sales-2"."a.b" ("Order.user");
        insert into "Sales-2"."Order" values (1, 'a', 'b', 'c', 'd', 'e', 'f', 'g');
        insert into "Sales-2"."a.b" values (1, 1, 'x')"#)).await;
    let schema = format!(
        r#"
table: {{ schema: "Sales-2", table: "Order" }}
where: '"Mixed Case" is distinct from ''gone'''
fields:
  user: integer
  mixed: {{ type: text, column: "Mixed Case", nullable: true }}
  "quo\"te": {{ type: text, nullable: true }}
  "do.t": {{ type: text, nullable: true }}
  select: {{ type: text, nullable: true }}
  "it's": {{ type: text, nullable: true }}
  {long}: {{ type: text, nullable: true }}
  "back\\slash": {{ type: text, nullable: true }}
  lines:
    has_many: {{ schema: "Sales-2", table: "a.b" }}
    join: {{ user: "Order.user" }}
    fields: {{ key: integer, from: {{ type: text, nullable: true }} }}
"#
    );
    let oracle = format!(
        r#"
select o."user", json_build_object('user', o."user", 'mixed', o."Mixed Case", 'quo"te', o."quo""te", 'do.t', o."do.t", 'select', o."select",
  'it''s', o."it's", '{long}', o.{long}, E'back\\slash', o."back\slash",
  'lines', coalesce((select json_agg(json_build_object('key', l."key", 'from', l."from") order by l."key") from "Sales-2"."a.b" l where l."Order.user" = o."user"), '[]'::json))
from "Sales-2"."Order" o where o."Mixed Case" is distinct from 'gone'"#
    );
    stage.index("orders", &schema, &oracle);
    stage.start().await;
    stage.settled().await;
    stage.run(r#"insert into "Sales-2"."Order" ("user", "it's") values (2, 'x'); update "Sales-2"."a.b" set "Order.user" = 2, "from" = 'y'; update "Sales-2"."Order" set "user" = 3, "select" = 'z' where "user" = 1"#).await;
    stage.settled().await;
    stage.run(r#"update "Sales-2"."Order" set "Mixed Case" = 'gone' where "user" = 3; truncate "Sales-2"."a.b""#).await;
    stage.settled().await;
    stage.close().await;
}

/// A key's type, four values of it in the spelling of its output function.
const KEYS: &[(&str, &str, [&str; 4])] = &[
    (
        "uuid",
        "uuid",
        [
            "6ecd8c99-4036-403d-bf84-cf8400f67836",
            "00000000-0000-0000-0000-000000000001",
            "00000000-0000-0000-0000-000000000002",
            "00000000-0000-0000-0000-000000000003",
        ],
    ),
    ("text", "keyword", ["a:b", "50%", "", "snø ☃"]),
    ("char(5)", "keyword", ["a", "ab", "abc", "abcde"]),
    ("citext", "keyword", ["Bob", "eve", "x y", "z"]),
    ("numeric", "decimal", ["1.0", "2.50", "1e-20", "12345678901234567890.1"]),
    ("date", "date", ["2024-02-29", "infinity", "0044-03-15 BC", "1999-12-31"]),
    (
        "timestamptz",
        "timestamp",
        ["2024-02-29 12:00:00.5+00", "infinity", "0044-03-15 12:00:00+00 BC", "1999-12-31 23:59:59+00"],
    ),
    (
        "timestamp",
        "timestamp",
        ["2024-02-29 12:00:00", "-infinity", "2024-01-01 00:00:00.000001", "1999-12-31 23:59:59"],
    ),
    ("bytea", "binary", ["\\x00ff", "\\x", "\\x01", "\\x5c"]),
    ("mood", "enum", ["sad", "ok", "very: happy", "100%"]),
    ("positive", "integer", ["1", "2", "3", "4"]),
    ("boolean", "boolean", ["true", "false", "true", "false"]),
    ("double precision", "double", ["0.1", "1e300", "-5", "2"]),
    ("inet", "{ type: custom, source: [inet], mapping: { type: ip } }", ["10.0.0.1", "10.0.0.0/8", "::1", "1.1.1.1"]),
    ("interval", "{ type: custom, source: [interval], mapping: { type: keyword } }", ["P1D", "PT1H", "P1Y2M", "PT0S"]),
];

#[tokio::test(flavor = "multi_thread")]
async fn case_d_keys_of_every_type_land_on_the_same_document() {
    let mut stage = Stage::new("d_keys").await;
    stage.run("create extension citext; create type mood as enum ('sad', 'ok', 'very: happy', '100%'); create domain positive as int check (value > 0)").await;
    let (mut fill, mut live, mut moves) = (String::new(), String::new(), String::new());
    for (at, (native, declared, values)) in KEYS.iter().enumerate() {
        stage.run(&format!("create table r{at} (id {native} primary key, note text); create table s{at} (id int primary key, r {native}); create index on s{at} (r)")).await;
        let declared_field =
            if declared.starts_with('{') { (*declared).to_owned() } else { format!("{{ type: {declared} }}") };
        let shown = if *native == "bytea" { "encode(r.id, 'base64')" } else { "r.id" };
        stage.index(
            &format!("r{at}"),
            &format!("{{ table: r{at}, fields: {{ id: {declared_field}, note: {{ type: text, nullable: true }}, s: {{ collect: id, of: s{at}, type: integer, join: {{ id: r }} }} }} }}"),
            &format!("select format('%s', r.id), json_build_object('id', {shown}, 'note', r.note, 's', coalesce((select json_agg(s.id order by s.id) from s{at} s where s.r = r.id), '[]'::json)) from r{at} r"),
        );
        let _ =
            write!(fill, "insert into r{at} values ('{}', 'filled'); insert into s{at} values (1, '{0}');", values[0]);
        let second = if *native == "boolean" { &values[1] } else { &values[2] };
        let _ = write!(
            live,
            "insert into r{at} values ('{second}', 'live'); insert into s{at} values (2, '{second}'); update r{at} set note = 'changed' where id = '{}';",
            values[0]
        );
        let _ = write!(moves, "update s{at} set r = '{second}'; delete from r{at} where id = '{}';", values[0]);
        if *native != "boolean" {
            let _ = write!(
                moves,
                "update r{at} set id = '{}' where id = '{second}'; update s{at} set r = '{0}' where id = 2;",
                values[3]
            );
        }
    }
    for change in [fill, String::new(), live, moves] {
        if change.is_empty() {
            stage.start().await;
        } else {
            stage.run(&change).await;
        }
        if stage.is_running() {
            stage.settled().await;
        }
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d_keys_of_three_columns_keep_their_order_and_their_colons() {
    let mut stage = Stage::new("d_keys_three").await;
    stage.run("create table parts (c text, b int, a date, note text, primary key (a, b, c)); create table bits (id int primary key, a date, b int, c text); create index on bits (a, b, c)").await;
    let text = "replace(replace(p.c, '%', '%25'), ':', '%3A')";
    stage.index(
        "parts",
        "{ table: parts, key: [c, a, b], fields: { c: keyword, note: text, bits: { collect: id, of: bits, type: integer, join: { a: a, b: b, c: c } } } }",
        &format!("select {text} || ':' || format('%s', p.a) || ':' || format('%s', p.b), json_build_object('c', p.c, 'note', p.note, 'bits', coalesce((select json_agg(x.id order by x.id) from bits x where (x.a, x.b, x.c) = (p.a, p.b, p.c)), '[]'::json)) from parts p"),
    );
    stage.run("insert into parts select case n % 3 when 0 then 'x:' || n when 1 then '50%' else '' end, n, '2024-01-01', 'n' from generate_series(1, 2500) n; insert into bits select n, p.a, p.b, p.c from generate_series(1, 30) n join parts p on p.b = n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("update bits set b = b + 3 where id % 2 = 0; update parts set note = 'live' where b < 50; delete from parts where b between 100 and 120; update parts set a = 'infinity' where b = 7; insert into parts values ('%3A', 1, '2020-01-01', 'tricky')").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d14_three_hundred_columns() {
    let mut stage = Stage::new("d14_wide").await;
    let names: Vec<String> = (0..300).map(|at| format!("column_{at}")).collect();
    stage
        .run(&format!(
            "create table wide (id int primary key, {})",
            names.iter().map(|name| format!("{name} int")).collect::<Vec<_>>().join(", ")
        ))
        .await;
    let fields: String = names.iter().map(|name| format!("  {name}: {{ type: integer, nullable: true }}\n")).collect();
    stage.index(
        "wide",
        &format!("table: wide\nfields:\n  id: integer\n{fields}"),
        "select id, row_to_json(wide) from wide",
    );
    stage.run("insert into wide (id, column_299) values (1, 5), (2, 6)").await;
    stage.start().await;
    stage.settled().await;
    stage.run("update wide set column_150 = 1; insert into wide (id) values (3)").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_d14_two_hundred_thousand_children_of_one_root() {
    let mut stage = crate::words::family("d14_children").await;
    stage.run("insert into parents values (1, 'many'), (2, 'few'); insert into children select n, 1, 'c' from generate_series(1, 200000) n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("update children set name = 'changed' where id = 77777; insert into children values (0, 2, 'c'); update children set parent_id = 2 where id = 99999").await;
    stage.settled().await;
    stage.close().await;
}
