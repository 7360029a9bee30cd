//! Streams of records: tables, types, link values.

use millstream_core::{IndexSchema, SourceSpec};
use millstream_model::{IndexName, LinkValue};
use millstream_polling::model::{ColumnType, Record, RecordChange, StreamDescriptor, StreamFetch};
use serde_json::json;

use crate::stage::{Policy, Stage, fields, settings};

fn items() -> StreamDescriptor {
    StreamDescriptor::records("items", ["id"])
        .with_column("id", ColumnType::Integer)
        .with_column("price", ColumnType::Decimal)
        .with_column("shop", ColumnType::Text)
}

fn record(id: &str, json: serde_json::Value) -> RecordChange {
    Record::new(id, fields(json)).into()
}

fn answer(stage: &Stage, changes: Vec<RecordChange>) {
    stage.script.answers("items", move |_| StreamFetch::records("items", changes.clone()));
}

#[tokio::test]
async fn a_stream_of_records_is_a_table_with_types_and_a_key() {
    let mut stage = Stage::new(|script| script.streams([items()])).await;
    answer(
        &stage,
        vec![record("007", json!({"price": "12345678901234567890.50", "shop": "a", "note": [1, {"b": 1, "a": 2}]}))],
    );
    let report = stage.cycle().await;
    assert!(report.errors.is_empty() && report.log.iter().any(|line| line.contains("columns=note")), "{report:?}");
    let types =
        stage.rows("select name || ' ' || lower(type) || ' ' || pk from pragma_table_info('items') order by cid").await;
    assert_eq!(
        types,
        ["id integer 1", "price decimal_text 0", "shop text 0", "millstream_digest text 0", "note text 0"]
    );
    let row = stage.rows("select id || '|' || price || '|' || note from items").await;
    assert_eq!(row, [r#"7|12345678901234567890.50|[1,{"a":2,"b":1}]"#]);
    assert_eq!(stage.live.told_of("items", 1).await, ["+items/7"]);
    assert_eq!(stage.cycle().await.rows_unchanged, 1);
    answer(&stage, vec![record("7", json!({"price": "12345678901234567890.50", "shop": "a"}))]);
    assert_eq!(stage.cycle().await.rows_changed, 1);
    assert_eq!(stage.rows("select coalesce(note, 'null') from items").await, ["null"]);
}

#[tokio::test]
async fn a_row_that_does_not_fit_is_named_and_the_others_are_stored() {
    let mut stage = Stage::new(|script| script.streams([items()])).await;
    answer(
        &stage,
        vec![record("1", json!({"price": "dear"})), record("x", json!({})), record("2", json!({"price": 2}))],
    );
    let report = stage.cycle().await;
    assert_eq!((report.rows_new, report.rows_refused), (1, 2));
    assert!(report.errors[0].contains(r#"record ["1"]: column price: "dear" is no decimal number"#), "{report:?}");
    assert!(report.errors[1].contains(r#"record ["x"]: key column id"#), "{report:?}");
}

#[tokio::test]
async fn removals_are_told_one_by_one() {
    let mut stage = Stage::new(|script| script.streams([items()])).await;
    answer(&stage, vec![record("1", json!({})), record("2", json!({}))]);
    stage.cycle().await;
    answer(&stage, vec![RecordChange::Removed(vec!["2".to_owned()]), RecordChange::Removed(vec!["3".to_owned()])]);
    assert_eq!(stage.cycle().await.rows_withdrawn, 1);
    assert_eq!(stage.live.told_of("items", 3).await[2], "-items/2");
}

#[tokio::test]
async fn p5_a_moved_or_removed_child_tells_its_old_parent() {
    let schema = "table: shops\nkey: [id]\nfields:\n  id: text\n  items: { has_many: items, join: { id: shop }, fields: { id: long } }\n";
    let schema = IndexSchema::from_yaml(schema, "shops.schema.yaml").unwrap();
    let spec = SourceSpec::new([(IndexName::new("shops"), schema)]);
    let mut stage = Stage::with(settings(), Policy::Confirm, spec, |script| script.streams([items()])).await;
    let shop = |told: &millstream_model::ChangedRow| {
        let of = |links: &Option<millstream_model::LinkValues>| links.as_ref().map(|links| links.get("shop").clone());
        (of(&told.before), of(&told.after))
    };
    let text = |text: &str| Some(LinkValue::Text(text.into()));
    answer(&stage, vec![record("1", json!({"shop": "a"}))]);
    stage.cycle().await;
    answer(&stage, vec![record("1", json!({"shop": null}))]);
    stage.cycle().await;
    answer(&stage, vec![record("1", json!({"shop": "b"}))]);
    stage.cycle().await;
    answer(&stage, vec![record("1", json!({"shop": "b", "price": 1}))]);
    stage.cycle().await;
    answer(&stage, vec![RecordChange::Removed(vec!["1".to_owned()])]);
    stage.cycle().await;
    stage.live.told_of("items", 5).await;
    let told = stage.live.told();
    let links: Vec<_> =
        told.iter().filter(|told| told.row.table.table() == "items").map(|told| shop(&told.row)).collect();
    assert_eq!(
        links,
        [
            (None, text("a")),
            (text("a"), Some(LinkValue::Null)),
            (Some(LinkValue::Null), text("b")),
            (None, text("b")),
            (text("b"), None),
        ]
    );
}

#[tokio::test]
async fn what_a_stream_can_not_become_is_refused() {
    let mut stage = Stage::new(|script| script.streams([items()])).await;
    for (stream, why) in [
        (items().with_column("shop2", ColumnType::Text), None),
        (StreamDescriptor::records("items", ["id"]).with_column("id", ColumnType::Text), Some("another type")),
        (StreamDescriptor::records("items", ["shop"]), Some("the key has other columns")),
        (StreamDescriptor::readings("items"), Some("readings where it carried records")),
        (StreamDescriptor::records("Streams", ["id"]), Some("store's own")),
        (StreamDescriptor::records("x", ["id"]).with_column("ID", ColumnType::Text), Some("named twice")),
        (StreamDescriptor::records("x", Vec::<String>::new()), Some("no key column")),
        (StreamDescriptor::records("x".repeat(64), ["id"]), Some("1 to 63 bytes")),
        (StreamDescriptor::records("x", ["id"]).with_column("id", ColumnType::Double), Some("can't be of this type")),
    ] {
        stage.script.streams([stream]);
        let (_, report) = stage.cycle_of("full", crate::stage::nothing()).await;
        match why {
            None => assert!(report.errors.is_empty(), "{report:?}"),
            Some(why) => assert!(report.errors.iter().any(|error| error.contains(why)), "{why}: {report:?}"),
        }
    }
}

#[tokio::test]
async fn p13_any_name_works() {
    let odd = r#"O"dd.näme; drop"#;
    let mut stage = Stage::new(|script| script.streams([StreamDescriptor::records(odd, [r#"k"ey"#])])).await;
    stage.script.answers(odd, move |_| {
        let fields = fields(json!({ r#"co"l 'x'"#: "v" }));
        StreamFetch::records(odd, [Record::new("1", fields)])
    });
    assert_eq!(stage.cycle().await.rows_new, 1);
    assert_eq!(stage.live.told_of(odd, 1).await.len(), 1);
}
