//! Values and names arrive as they are.

use millstream_polling::backends::TableSettings;
use millstream_polling::model::{Carries, ColumnType};
use serde_json::json;

use crate::source::{Kind, Source};

pub async fn p12_values_arrive_with_all_their_digits(source: &Source) {
    let table = source.table("t");
    let types = match source.kind {
        Kind::Postgres => "n numeric, d double precision, f real, b boolean, j jsonb, m timestamptz, x bytea, s text",
        Kind::MySql => "n decimal(40, 10), d double, f float, b boolean, j json, m timestamp(6) null, x blob, s text",
        Kind::Sqlite => "n text, d double, f real, b boolean, j text, m text, x blob, s text",
    };
    let bytes = if source.kind == Kind::Postgres { "'\\x00ff'" } else { "x'00ff'" };
    source
        .run(&format!(
            "create table {table} (id bigint primary key, {types}); insert into {table} values \
             (9223372036854775807, '123456789012345678901234567890.0123456789', 0.1, 1.5, {}, '{{\"a\": [1, null]}}', \
             '2026-01-31 12:00:00.123456', {bytes}, 'Zürich \"x\" 🦀'), (-1, null, null, null, null, null, null, null, null)",
            if source.kind == Kind::Postgres { "true" } else { "1" }
        ))
        .await;
    // SQLite's types tell little; what is meant is said.
    let told = |table: &mut TableSettings| {
        for (name, kind) in [("n", ColumnType::Decimal), ("j", ColumnType::Json), ("m", ColumnType::Timestamp)] {
            table.columns.push((name.to_owned(), kind));
        }
    };
    let reader = source.open([TableSettings::reconciled("t").with(told)]);
    let streams = reader.streams().await;
    let Carries::Records(shape) = &streams[0].carries else { panic!("records") };
    let kinds: Vec<_> = ["id", "n", "d", "f", "b", "j", "m", "x", "s"].iter().map(|name| shape.kind(name)).collect();
    use ColumnType::{Boolean, Decimal, Double, Integer, Json, Text, Timestamp};
    assert_eq!(kinds, [Integer, Decimal, Double, Double, Boolean, Json, Timestamp, Text, Text]);
    let records = reader.whole("t").await;
    assert_eq!(records[0].key, ["-1"]);
    assert!(records[0].fields.values().all(serde_json::Value::is_null), "{:?}", records[0].fields);
    let fields = &records[1].fields;
    assert_eq!(records[1].key, ["9223372036854775807"]);
    let text = |name: &str| fields[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(text("n"), "123456789012345678901234567890.0123456789");
    assert_eq!((text("d").as_str(), text("f").parse::<f64>().unwrap()), ("0.1", 1.5));
    assert!(matches!(text("b").as_str(), "t" | "1"));
    assert_eq!(fields["j"], json!({"a": [1, null]}));
    assert!(text("m").starts_with("2026-01-31 12:00:00.123456"), "{}", text("m"));
    assert_eq!((text("x").as_str(), text("s").as_str()), ("00ff", "Zürich \"x\" 🦀"));
}

pub async fn p13_any_name_works(source: &Source) {
    let (name, key, at) = ("Order \"x\"`.y", "Id\"`", "select");
    let table = source.table(name);
    let columns = format!("{} varchar(20) primary key, {} {}", source.ident(key), source.ident(at), source.moment());
    source
        .run(&format!("create table {table} ({columns}); insert into {table} values ('a:%b''c', {})", source.ago(60)))
        .await;
    let settings = TableSettings::cursor("orders", at).with(|table| table.table = name.to_owned());
    let reader = source.open([settings]);
    let mut mark = None;
    assert_eq!(reader.pass("orders", &mut mark).await.present, ["a:%b'c"]);
    source.run(&format!("insert into {table} values ('b', {})", source.ago(50))).await;
    assert_eq!(reader.pass("orders", &mut mark).await.present, ["b"]);
}

pub async fn moments_without_a_zone_get_the_one_that_was_said(source: &Source) {
    let table = source.table("t");
    let local = match source.kind {
        Kind::Postgres => "timestamp",
        Kind::MySql => "datetime",
        Kind::Sqlite => "text",
    };
    source.run(&format!("create table {table} (id bigint primary key, m {local})")).await;
    source.run(&format!("insert into {table} values (1, '2026-01-31 12:00:00')")).await;
    let settings = TableSettings::reconciled("t").with(|table| {
        table.zone_minutes = 90;
        table.columns.push(("m".to_owned(), ColumnType::Timestamp));
    });
    assert_eq!(source.open([settings]).whole("t").await[0].fields["m"], "2026-01-31 12:00:00+01:30");
}
