//! What is gone.

use std::time::Duration;

use millstream_polling::backends::{CursorSettings, DeleteLog, TableSettings};
use millstream_polling::model::FetchReason;

use crate::source::Source;

pub async fn a_soft_delete_removes_and_its_undoing_restores(source: &Source) {
    let table = source.table("t");
    let moment = source.moment();
    source.run(&format!("create table {table} (id bigint primary key, at {moment}, gone {moment}, off int)")).await;
    let put = async |id: i64, ago: i64, gone: &str, off: &str| {
        let at = source.ago(ago);
        source
            .run(&format!(
                "delete from {table} where id = {id}; insert into {table} values ({id}, {at}, {gone}, {off})"
            ))
            .await;
    };
    put(1, 600, "null", "null").await;
    put(2, 500, "'2026-01-31 12:00:00'", "1").await;
    put(3, 400, "null", "0").await;
    let by = |column: &str| TableSettings::cursor("t", "at").with(|table| table.soft_delete = Some(column.to_owned()));
    for column in ["gone", "off"] {
        let told = source.open([by(column)]).pass("t", &mut None).await;
        assert_eq!((told.present, told.removed), (vec!["1".to_owned(), "3".to_owned()], vec!["2".to_owned()]));
    }
    let reader = source.open([by("gone")]);
    let mut mark = None;
    reader.pass("t", &mut mark).await;
    put(2, 300, "null", "0").await;
    put(1, 200, "'2026-01-31 12:00:00'", "1").await;
    let told = reader.pass("t", &mut mark).await;
    assert_eq!((told.present, told.removed), (vec!["2".to_owned()], vec!["1".to_owned()]));
}

pub async fn a_row_that_leaves_the_filter_is_gone(source: &Source) {
    source.make("t").await;
    source.put("t", 1, &source.ago(600), "open").await;
    source.put("t", 2, &source.ago(600), "open").await;
    let filter = |table: &mut TableSettings| table.filter = Some("name = 'open' -- only those".to_owned());
    let reader = source.open([TableSettings::cursor("t", "at").with(filter)]);
    let mut mark = None;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["1", "2"]);
    source.put("t", 2, &source.ago(300), "closed").await;
    let told = reader.pass_for("t", &mut mark, FetchReason::Resync).await;
    assert_eq!((told.removed, told.keys), (vec!["2".to_owned()], Some(vec!["1".to_owned()])));
    let whole = source.open([TableSettings::reconciled("t").with(filter)]).whole("t").await;
    assert_eq!(whole.len(), 1);
}

pub async fn a_delete_log_removes_what_is_not_there_again(source: &Source) {
    source.make("t").await;
    let log = source.table("gone");
    source.run(&format!("create table {log} (row_id bigint, deleted {})", source.moment())).await;
    for id in 1..=3 {
        source.put("t", id, &source.ago(600), "x").await;
    }
    let delete_log = DeleteLog::new("gone", CursorSettings::new("deleted")).with_key(["row_id"]);
    let mut delete_log = delete_log;
    delete_log.schema = source.schema();
    let reader = source.open([TableSettings::cursor("t", "at").with_delete_log(delete_log)]);
    let mut mark = None;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["1", "2", "3"]);
    let table = source.table("t");
    for id in 1..=2 {
        source
            .run(&format!("delete from {table} where id = {id}; insert into {log} values ({id}, {})", source.ago(100)))
            .await;
    }
    source.put("t", 2, &source.ago(50), "again").await;
    let told = reader.pass("t", &mut mark).await;
    assert_eq!((told.present, told.removed), (vec!["2".to_owned()], vec!["1".to_owned()]));
    let told = reader.pass("t", &mut mark).await;
    assert!(told.present.is_empty() && told.removed.is_empty(), "each removal is told once: {told:?}");
}

pub async fn all_keys_are_compared_when_that_is_due(source: &Source) {
    source.make("t").await;
    for id in 1..=2 {
        source.put("t", id, &source.ago(600), "x").await;
    }
    let seldom = source.open([TableSettings::cursor("t", "at").with_reconcile_keys(Duration::from_secs(86_400))]);
    let often = source.open([TableSettings::cursor("t", "at").with_reconcile_keys(Duration::ZERO)]);
    let never = source.open([TableSettings::cursor("t", "at")]);
    let mut mark = None;
    let keys = |keys: &[&str]| Some(keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
    assert_eq!(seldom.pass("t", &mut mark).await.keys, keys(&["1", "2"]), "never compared is long ago");
    source.run(&format!("delete from {} where id = 1", source.table("t"))).await;
    assert_eq!(seldom.pass("t", &mut mark).await.keys, None);
    assert_eq!(often.pass("t", &mut mark).await.keys, keys(&["2"]));
    assert_eq!(never.pass("t", &mut mark).await.keys, None);
    assert_eq!(
        never.pass_for("t", &mut None, FetchReason::Resync).await.keys,
        keys(&["2"]),
        "everything was asked for"
    );
}

pub async fn a_reconciled_table_is_the_whole_truth(source: &Source) {
    source.make("t").await;
    source.put("t", 2, "null", "y").await;
    source.put("t", 1, "null", "x").await;
    let reader = source.open([TableSettings::reconciled("t")]);
    let records = reader.whole("t").await;
    assert_eq!(records.iter().map(|record| record.key[0].as_str()).collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(records[1].fields["name"], "y");
    assert!(records[1].fields["at"].is_null() && !records[1].fields.contains_key("id"));
    let only = TableSettings::reconciled("t").with(|table| table.only = Some(vec!["name".to_owned()]));
    assert_eq!(source.open([only]).whole("t").await[0].fields.len(), 1);
}
