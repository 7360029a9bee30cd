//! Append streams: batches, cursors, refusals, retries.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use millstream_polling::model::{
    Checkpoint, Reading, SourceInstant, StatusEvent, StreamDescriptor, StreamFetch, StreamFetchRequest, Timestamp,
};
use millstream_polling::{BackendError, ReportState};

use crate::stage::{Stage, ago, now, readings, settings};

fn many(count: u64) -> Vec<Reading> {
    (0..count).map(|at| Reading::new(ago(count - at), at as f64)).collect()
}

async fn with_one(answer: impl Fn(&StreamFetchRequest) -> StreamFetch + Send + Sync + 'static) -> Stage {
    Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a")]);
        script.answers("a", answer);
    })
    .await
}

#[tokio::test]
async fn the_cursor_is_passed_exactly_and_follows_acks() {
    let at = Timestamp::parse("2026-06-01T11:59:59.123456Z").unwrap();
    let mut stage = with_one(readings("a", vec![Reading::new(at, 1.0), Reading::new(ago(60), 2.0)])).await;
    assert_eq!(stage.fetches()[0][0].since, None);
    stage.acked().await;
    stage.script.forget();
    stage.cycle().await;
    assert_eq!(stage.fetches()[0][0].since, Some(at));
    assert_eq!(stage.live.texts("readings").len(), 2, "an overlap changes nothing");
}

#[tokio::test]
async fn a_batch_that_fails_stops_its_stream_and_defers_the_rest() {
    let mut stage = Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
    })
    .await;
    stage.sql("create trigger full before insert on readings when new.value = 1500 begin select raise(abort, 'disk full'); end").await;
    stage.script.answers("a", readings("a", many(2500)));
    stage.script.answers("b", readings("b", many(3)));
    let report = stage.acked_cycle().await;
    assert_eq!((report.rows_new, report.rows_deferred, report.streams_fetched), (1003, 1500, 1));
    let error = report.errors.iter().find(|error| error.starts_with("stream a")).unwrap();
    assert!(error.contains("batch 2 of 3") && error.contains("disk full"), "{error}");
    assert_eq!(stage.rows("select cast(count(*) as text) from readings where stream = 'a'").await, ["1000"]);
    assert_eq!(stage.since("a").await, Some(ago(1501)), "of the batch that is stored");
    stage.sql("drop trigger full").await;
    let report = stage.acked_cycle().await;
    assert_eq!((report.rows_new, report.rows_deferred), (1500, 0));
    assert_eq!(stage.since("a").await, Some(ago(1)));
}

#[tokio::test]
async fn a_failing_fetch_is_tried_again_then_reported_in_the_sources_words() {
    let mut stage = with_one(readings("a", many(1))).await;
    stage.script.fail("fetch_readings", BackendError::transient("connection reset"));
    let report = stage.cycle().await;
    assert_eq!((report.errors.len(), report.streams_fetched), (0, 1));
    assert!(report.log.iter().any(|line| line.contains("connection reset")), "{report:?}");
    (0..3).for_each(|_| stage.script.fail("fetch_readings", BackendError::transient("the pump is off")));
    stage.script.forget();
    let report = stage.cycle().await;
    assert_eq!(report.errors, ["readings could not be fetched: the pump is off"]);
    assert_eq!(stage.fetches().len(), 3, "attempts are capped");
    // Then it is probed: once a cycle.
    stage.script.fail("fetch_readings", BackendError::transient("the pump is off"));
    stage.script.forget();
    stage.cycle().await;
    assert_eq!(stage.fetches().len(), 1);
    assert!(stage.cycle().await.errors.is_empty());
    stage.script.fail("fetch_readings", BackendError::configuration("no such tag"));
    stage.script.forget();
    stage.cycle().await;
    assert_eq!(stage.fetches().len(), 1, "asking again does not mend it");
}

#[tokio::test]
async fn one_bad_stream_does_not_fail_the_others() {
    static TRIES: AtomicUsize = AtomicUsize::new(0);
    let mut stage = Stage::new(|script| {
        script.streams(["a", "b", "c"].map(StreamDescriptor::readings));
        script.answers("a", readings("a", many(1)));
        script.answers("b", |_| StreamFetch::failed("b", BackendError::undecodable("no JSON: <html>")));
        script.answers("c", |_| match TRIES.fetch_add(1, Ordering::Relaxed) {
            0 => StreamFetch::failed("c", BackendError::transient("busy")),
            _ => StreamFetch::readings("c", many(1)),
        });
    })
    .await;
    let fetched: Vec<usize> = stage.fetches().iter().map(Vec::len).collect();
    assert_eq!(fetched[..2], [3, 1], "only the one that may pass is asked again");
    assert_eq!(stage.rows("select stream from readings order by 1").await, ["a", "c"]);
    let (state, report) = stage.cycle_of("trigger", crate::stage::nothing()).await;
    assert_eq!((state.as_str(), report.streams_failed, report.streams_fetched), (ReportState::Partial.as_str(), 1, 2));
    assert!(report.errors[0].contains("no JSON: <html>"));
}

#[tokio::test]
async fn answers_that_nobody_asked_for_or_that_come_twice_are_refused() {
    let mut stage = Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
    })
    .await;
    stage.script.answers("a", readings("a", many(1)));
    stage.script.answers("b", readings("b", many(1)));
    stage.script.stray(StreamFetch::readings("b", many(2)));
    stage.script.stray(StreamFetch::readings("who", many(2)));
    let report = stage.cycle().await;
    assert_eq!(stage.rows("select stream from readings").await, ["a"]);
    assert!(report.errors.iter().any(|error| error.contains("stream b: it was answered twice")), "{report:?}");
    assert!(report.errors.iter().any(|error| error.contains("stream who: an answer came")), "{report:?}");
    assert_eq!(stage.cycle().await.rows_new, 1, "the next cycle takes it");
}

#[tokio::test]
async fn late_equal_future_and_garbage_instants() {
    let mut stage = with_one(readings("a", vec![Reading::new(ago(100), 1.0)])).await;
    stage.acked().await;
    let garbage: [SourceInstant; 3] = ["soon".into(), f64::NAN.into(), "2026-06-01T11:00:00".into()];
    let mut rows = vec![
        Reading::new(ago(200), 2.0),
        Reading::new(ago(100), 3.0),
        Reading::new(now().plus(Duration::from_secs(86_401)), 4.0),
        Reading::new(ago(86_400 * 3700), 5.0),
        Reading::new(ago(50), f64::INFINITY),
    ];
    rows.extend(garbage.map(|at| Reading::new(at, 6.0)));
    stage.script.answers("a", readings("a", rows));
    let report = stage.acked_cycle().await;
    assert_eq!((report.rows_new, report.rows_changed, report.rows_refused), (1, 1, 6));
    assert!(report.errors.iter().any(|error| error.contains("soon")), "{report:?}");
    assert_eq!(stage.since("a").await, Some(ago(100)), "none of them moves the cursor");
    assert_eq!(
        stage.rows("select cast(cast(value as integer) as text) from readings order by instant").await,
        ["2", "3"]
    );
}

#[tokio::test]
async fn pages_are_asked_for_until_there_are_no_more_and_the_cursor_waits_for_the_last() {
    let mut stage = with_one(|request| match request.checkpoint.as_ref().map(|checkpoint| checkpoint.0.as_str()) {
        None => StreamFetch::readings("a", vec![Reading::new(ago(10), 1.0)]).with_more("page 2"),
        Some("page 2") => StreamFetch::readings("a", vec![Reading::new(ago(90), 2.0)]).with_more("page 3"),
        Some("page 3") => StreamFetch::readings("a", Vec::new()).with_checkpoint("end"),
        Some(_) => StreamFetch::failed("a", BackendError::transient("later")),
    })
    .await;
    stage.acked().await;
    assert_eq!(stage.since("a").await, Some(ago(10)));
    let marks: Vec<Option<Checkpoint>> = stage.fetches().iter().map(|asked| asked[0].checkpoint.clone()).collect();
    let of = |mark: &str| Some(Checkpoint(mark.to_owned()));
    assert_eq!(marks[..3], [None, of("page 2"), of("page 3")]);
    stage.script.forget();
    stage.cycle().await;
    assert_eq!(stage.fetches()[0][0].checkpoint, of("end"), "the next cycle begins where the last ended");
}

#[tokio::test]
async fn a_page_that_leads_nowhere_is_reported() {
    let mut stage = with_one(|_| StreamFetch::readings("a", Vec::new()).with_more("again")).await;
    let report = stage.cycle().await;
    assert!(report.errors[0].contains("not from where on"), "{report:?}");
}

#[tokio::test]
async fn status_events_are_stored_as_transitions_also_when_readings_failed() {
    let mut stage = with_one(|_| StreamFetch::failed("a", BackendError::undecodable("no"))).await;
    let event = |seconds, status: &str| StatusEvent::new("a", ago(seconds), status);
    stage.script.status([event(30, "running"), event(40, "running"), event(20, "alarm"), event(10, "alarm")]);
    assert_eq!(stage.cycle().await.status_events, 2);
    stage.script.status([event(40, "running"), event(20, "alarm"), event(5, "running")]);
    assert_eq!(stage.cycle().await.status_events, 1);
    assert_eq!(stage.rows("select status from status_events order by instant").await, ["running", "alarm", "running"]);
    assert_eq!(stage.live.told_of("status_events", 3).await.len(), 3);
}

#[test]
fn an_interval_below_the_floor_is_refused() {
    let settings = settings().with_floor(Duration::from_secs(30));
    assert!(settings.check_every(Duration::from_secs(29)).is_err());
    assert!(settings.check_every(Duration::from_secs(30)).is_ok());
}
