//! What can't be read is said, and harms nothing else.

use millstream_polling::backends::{CursorSettings, LookBack, TableSettings};
use millstream_polling::model::FetchReason;
use millstream_polling::{BackendErrorKind, SourceBackend};

use crate::source::Source;

pub async fn what_is_not_set_up_is_said_by_name(source: &Source) {
    source.make("good").await;
    source.put("good", 1, &source.ago(60), "x").await;
    let loose = source.table("loose");
    source.run(&format!("create table {loose} (id bigint, at {})", source.moment())).await;
    let alone = async |table: TableSettings| {
        let error = source.open([table]).backend.discover_streams().await.unwrap_err();
        assert_eq!(error.kind(), BackendErrorKind::Configuration, "{error}");
        error.to_string()
    };
    let key = |table: &mut TableSettings| table.key = vec!["id".to_owned()];
    let nameless = alone(TableSettings::cursor("loose", "at")).await;
    assert_eq!(nameless, "stream loose: the table has no primary key: name the columns of one");
    let loosely = alone(TableSettings::cursor("loose", "at").with(key)).await;
    assert_eq!(loosely, "stream loose: no unique index says that two rows can't share the key (key=id)");
    let column = alone(TableSettings::cursor("good", "updated")).await;
    assert_eq!(column, "stream good: there is no such column (column=updated, columns=id, at, name)");
    let all = source.open([TableSettings::cursor("loose", "at"), TableSettings::cursor("good", "at")]);
    assert_eq!(all.streams().await.len(), 1, "one bad table is no other's");
    let back =
        CursorSettings::new("id").with(|cursor| cursor.look_back = LookBack::Time(std::time::Duration::from_secs(1)));
    let reader = source.open([TableSettings::by("good", back)]);
    let error = reader.page("good", None, FetchReason::Cycle).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::Configuration);
    assert!(error.to_string().contains("`look_back` must be a number"), "{error}");
    source.run(&format!("create unique index u on {loose} (id)")).await;
    let told = source.open([TableSettings::cursor("loose", "at").with(key)]).pass("loose", &mut None).await;
    assert!(told.present.is_empty());
}

pub async fn a_table_that_is_dropped_and_made_anew_is_found_again(source: &Source) {
    source.make("t").await;
    source.make("other").await;
    source.put("t", 1, &source.ago(60), "x").await;
    let reader = source.open([TableSettings::cursor("t", "at"), TableSettings::reconciled("other")]);
    let mut mark = None;
    assert_eq!(reader.pass("t", &mut mark).await.present, ["1"]);
    source.run(&format!("drop table {}", source.table("t"))).await;
    let error = reader.page("t", mark.as_ref(), FetchReason::Cycle).await.unwrap().unwrap_err();
    assert!(!error.is_retryable(), "{error}");
    let error = reader.page("t", mark.as_ref(), FetchReason::Cycle).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), BackendErrorKind::StreamGone, "{error}");
    assert_eq!(reader.streams().await.len(), 1);
    source.make("t").await;
    source.put("t", 2, &source.ago(50), "x").await;
    assert_eq!(reader.streams().await.len(), 2);
    assert_eq!(reader.pass("t", &mut mark).await.present, ["2"]);
}

pub async fn more_rows_than_fit_in_one_piece_are_refused(source: &Source) {
    source.make("t").await;
    for id in 1..=3 {
        source.put("t", id, "null", "x").await;
    }
    let most = |rows| source.open_with([TableSettings::reconciled("t")], |settings| settings.with_rows_max(rows));
    assert_eq!(most(3).whole("t").await.len(), 3);
    let error = most(2).page("t", None, FetchReason::Cycle).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("(rows_max=2)"), "{error}");
}
