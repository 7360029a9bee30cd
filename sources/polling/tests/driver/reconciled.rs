//! Reconciled streams: corrections and removals, the brake, digests.

use millstream_polling::model::{
    KeySet, Payload, Reading, ReadingWindow, Record, RecordSet, Refusal, RefusedRow, StreamDescriptor, StreamFetch,
};
use serde_json::json;

use crate::stage::{Policy, Stage, ago, fields, now, settings};

fn window(values: &[(u64, f64)]) -> ReadingWindow {
    let readings = values.iter().map(|(seconds, value)| Reading::new(ago(*seconds), *value)).collect();
    ReadingWindow::new(ago(10_000), now(), readings)
}

fn answer(stage: &Stage, window: ReadingWindow) {
    stage.script.answers("a", move |_| StreamFetch::window("a", window.clone()));
}

async fn with_window(window: ReadingWindow) -> Stage {
    let stage = Stage::new(|script| {
        script.set_reconciled(true);
        script.streams([StreamDescriptor::readings("a")]);
        script.answers("a", move |_| StreamFetch::window("a", window.clone()));
    })
    .await;
    stage.acked().await;
    stage
}

const STORED: &str = "select cast(cast(value as integer) as text) from readings order by instant";

#[tokio::test]
async fn corrections_and_removals_are_applied_and_a_later_assertion_restores() {
    let mut stage = with_window(window(&[(30, 3.0), (20, 2.0), (10, 1.0)])).await;
    assert_eq!(stage.fetches()[0][0].since, None);
    answer(&stage, window(&[(30, 3.0), (20, 22.0)]));
    let report = stage.acked_cycle().await;
    assert_eq!((report.rows_unchanged, report.rows_changed, report.rows_withdrawn), (1, 1, 1));
    assert_eq!(stage.rows(STORED).await, ["3", "22"]);
    let told = stage.live.told_of("readings", 5).await;
    assert!(told[3].starts_with("+readings/") && told[4].starts_with("-readings/"), "{told:?}");
    answer(&stage, window(&[(30, 3.0), (20, 22.0), (10, 1.0)]));
    assert_eq!(stage.acked_cycle().await.rows_new, 1);
    assert_eq!(stage.rows(STORED).await, ["3", "22", "1"]);
    stage.cycle().await;
    assert!(stage.fetches().iter().all(|fetch| fetch[0].since.is_none()), "a reconciled stream is asked for all");
}

#[tokio::test]
async fn a_window_says_nothing_of_what_is_outside_of_it() {
    let mut stage = with_window(window(&[(30, 3.0), (20, 2.0), (10, 1.0)])).await;
    let narrow = ReadingWindow::new(ago(20), ago(10), vec![Reading::new(ago(20), 2.0), Reading::new(ago(10), 9.0)]);
    answer(&stage, narrow);
    let report = stage.cycle().await;
    assert_eq!((report.rows_withdrawn, report.rows_changed, report.rows_refused), (0, 0, 1), "{report:?}");
    answer(&stage, ReadingWindow { to: ago(30), ..window(&[]) });
    assert_eq!(stage.cycle().await.rows_withdrawn, 0);
}

#[tokio::test]
async fn a_window_of_1500_rows_is_landed_in_one_piece() {
    let values: Vec<(u64, f64)> = (0..1500).map(|at| (at + 1, 1.0)).collect();
    let mut stage = with_window(window(&values[..1])).await;
    stage.sql("create trigger full before insert on readings when new.value = 7 begin select raise(abort, 'disk full'); end").await;
    let mut bad = values.clone();
    bad[1499].1 = 7.0;
    answer(&stage, window(&bad));
    let report = stage.cycle().await;
    assert!(report.errors[0].contains("disk full"), "{report:?}");
    assert_eq!(stage.rows("select cast(count(*) as text) from readings").await, ["1"], "all of it or nothing");
    answer(&stage, window(&values));
    assert_eq!(stage.acked_cycle().await.rows_new, 1499);
    stage.live.told_of("readings", 1500).await;
}

#[tokio::test]
async fn what_claims_too_little_is_not_believed() {
    let mut stage = with_window(window(&[(30, 3.0), (20, 2.0)])).await;
    answer(&stage, window(&[]));
    let report = stage.cycle().await;
    assert!(report.errors[0].contains("claims to have no rows where 2 are stored"), "{report:?}");
    answer(&stage, ReadingWindow { rows_read: 17, ..window(&[]) });
    let report = stage.cycle().await;
    assert!(report.errors[0].contains("of 17 rows that were read none was delivered"), "{report:?}");
    assert_eq!(stage.rows(STORED).await, ["3", "2"]);
}

#[tokio::test]
async fn a_refused_row_is_not_withdrawn() {
    let mut stage = with_window(window(&[(30, 3.0), (20, 2.0), (10, 1.0)])).await;
    let mut odd = window(&[(30, 3.0)]);
    odd.readings.push(Reading::new(ago(20), f64::NAN));
    answer(&stage, odd);
    let report = stage.cycle().await;
    assert_eq!((report.rows_withdrawn, report.rows_refused), (1, 1));
    assert_eq!(stage.rows(STORED).await, ["3", "2"]);
    stage.script.answers("a", |_| {
        let refusal = Refusal { row: RefusedRow::Unknown, reason: "line 7: no comma".to_owned() };
        StreamFetch::window("a", window(&[(30, 3.0)])).with_refused(vec![refusal])
    });
    let report = stage.cycle().await;
    assert!(report.errors[0].contains("line 7: no comma"));
    assert_eq!(stage.rows(STORED).await, ["3", "2"], "nobody knows which row that was");
}

#[tokio::test]
async fn the_brake_holds_all_but_new_rows_until_it_is_released_once() {
    let all: Vec<(u64, f64)> = (1..=20).map(|at| (at * 10, 1.0)).collect();
    let mut stage = with_window(window(&all)).await;
    let fewer: Vec<(u64, f64)> = all[..15].iter().copied().chain([(5, 9.0)]).collect();
    answer(&stage, window(&fewer));
    let report = stage.cycle().await;
    assert_eq!((report.rows_new, report.rows_withdrawn), (1, 0));
    assert!(report.errors[0].contains("5 of 20 stored rows would change or go"), "{report:?}");
    // Sticky: a pass that touches little is held, too.
    let one_less: Vec<(u64, f64)> = all[1..].iter().copied().chain([(5, 9.0)]).collect();
    answer(&stage, window(&one_less));
    let report = stage.cycle().await;
    assert_eq!((report.rows_withdrawn, report.errors.len()), (0, 1), "{report:?}");
    assert!(stage.handle.streams().await.unwrap()[0].brake.is_some());
    let outcome = stage.command("release_brake", json!({ "streams": ["a"] })).await;
    assert_eq!(outcome.result, json!({ "released": ["a"] }));
    answer(&stage, window(&fewer));
    assert_eq!(stage.acked_cycle().await.rows_withdrawn, 5);
    // Once: the next pass is judged again.
    answer(&stage, window(&fewer[..10]));
    assert_eq!(stage.cycle().await.rows_withdrawn, 0);
    assert!(stage.handle.streams().await.unwrap()[0].brake.is_some());
}

#[tokio::test]
async fn an_unchanged_payload_is_skipped_in_any_order_once_its_pass_is_acked() {
    let skipped =
        |report: &millstream_polling::CycleReport| report.log.iter().any(|line| line.contains("nothing changed"));
    let first = window(&[(30, 3.0), (20, 2.0)]);
    let mut stage = Stage::with(settings(), Policy::Hold, Default::default(), |script| {
        script.set_reconciled(true);
        script.streams([StreamDescriptor::readings("a")]);
        script.answers("a", move |_| StreamFetch::window("a", first.clone()));
    })
    .await;
    assert!(!skipped(&stage.cycle().await), "the pass before is not acked");
    stage.live.told_of("readings", 2).await;
    stage.live.confirm(None);
    stage.live.set_policy(Policy::Confirm);
    stage.acked().await;
    let mut shuffled = window(&[(20, 2.0), (30, 3.0)]);
    shuffled.rows_read = 99;
    answer(&stage, shuffled);
    let report = stage.cycle().await;
    assert!(skipped(&report) && report.rows_unchanged == 2, "{report:?}");
    answer(&stage, window(&[(30, 3.0), (20, 2.5)]));
    assert!(!skipped(&stage.acked_cycle().await));
    answer(&stage, window(&[(30, 3.0), (20, 2.0)]));
    assert_eq!(stage.cycle().await.rows_changed, 1, "a digest of long ago is forgotten");
}

#[tokio::test]
async fn a_set_of_records_and_a_set_of_keys_withdraw_what_is_gone() {
    let record = |id: &str| Record::new(id, fields(json!({ "name": format!("n{id}") })));
    let all = move |ids: &[&str]| Payload::RecordSet(RecordSet::new(ids.iter().map(|id| record(id)).collect()));
    let mut stage = Stage::new(|script| {
        script.set_reconciled(true);
        script.streams([StreamDescriptor::records("items", ["id"]).with_column("name", Default::default())]);
        let payload = all(&["1", "2", "3", "4"]);
        script.answers("items", move |_| StreamFetch::new("items", payload.clone()));
    })
    .await;
    let payload = all(&["1", "2", "4"]);
    stage.script.answers("items", move |_| StreamFetch::new("items", payload.clone()));
    assert_eq!(stage.cycle().await.rows_withdrawn, 1);
    let keys = || KeySet { keys: vec![vec!["1".to_owned()], vec!["9".to_owned()], vec!["4".to_owned()]] };
    stage.script.answers("items", move |_| StreamFetch::all_keys("items", keys()));
    let report = stage.cycle().await;
    assert_eq!((report.rows_withdrawn, report.rows_new), (1, 0));
    assert_eq!(stage.rows("select name from items order by id").await, ["n1", "n4"]);
    assert_eq!(stage.live.told_of("items", 6).await[4..], ["-items/3", "-items/2"]);
}

#[tokio::test]
async fn an_audit_compares_and_changes_nothing() {
    let mut stage = with_window(window(&[(30, 3.0), (20, 2.0), (10, 1.0)])).await;
    answer(&stage, window(&[(30, 3.0), (20, 22.0), (5, 1.0)]));
    let (state, report) = stage.cycle_of("audit", crate::stage::nothing()).await;
    assert_eq!((state.as_str(), report.rows_new, report.rows_changed, report.rows_withdrawn), ("completed", 1, 1, 1));
    assert_eq!(stage.rows(STORED).await, ["3", "2", "1"]);
}

#[tokio::test]
async fn a_mark_of_a_reconciled_stream_is_handed_back_only_while_it_is_true_of_what_is_stored() {
    let many: Vec<(u64, f64)> = (1..=10).map(|second| (second * 10, 1.0)).collect();
    let mut stage = with_window(window(&many)).await;
    let marked = |stage: &Stage, values: &[(u64, f64)], mark: &'static str| {
        let window = window(values);
        stage.script.answers("a", move |_| StreamFetch::window("a", window.clone()).with_checkpoint(mark));
    };
    let handed = async |stage: &mut Stage| {
        stage.script.forget();
        stage.acked_cycle().await;
        stage.fetches()[0][0].checkpoint.as_ref().map(|mark| mark.0.clone())
    };
    marked(&stage, &many, "one");
    assert_eq!(handed(&mut stage).await, None, "none was given before");
    assert_eq!(handed(&mut stage).await.as_deref(), Some("one"));
    // Half of it goes: the brake holds, and what was not taken in is no place to skip from.
    marked(&stage, &many[..5], "two");
    assert_eq!(handed(&mut stage).await.as_deref(), Some("one"));
    assert_eq!(handed(&mut stage).await, None);
    stage.command("release_brake", json!({ "streams": ["a"] })).await;
    assert_eq!(handed(&mut stage).await, None);
    assert_eq!(handed(&mut stage).await.as_deref(), Some("two"), "once it is taken in");
    let (_, report) = stage.cycle_of("full", json!({})).await;
    assert_eq!(report.rows_unchanged, 5);
    assert_eq!(stage.fetches().last().unwrap()[0].checkpoint, None, "none when everything is asked for");
}
