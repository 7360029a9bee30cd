//! An ack moves exactly the streams whose rows it covered.

use futures::StreamExt;
use millstream_cdc::{ChangeCapture, KeyRange, PrepareMode};
use millstream_core::{SnapshotTable, SourceSpec};
use millstream_model::{IndexName, SourcePoint};
use millstream_polling::model::{Reading, Record, StreamDescriptor, StreamFetch};

use crate::stage::{Policy, Stage, ago, readings, settings, until};

async fn held() -> Stage {
    Stage::with(settings(), Policy::Hold, SourceSpec::default(), |script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
        script.answers("a", readings("a", vec![Reading::new(ago(10), 1.0)]));
        script.answers("b", readings("b", vec![Reading::new(ago(20), 1.0)]));
    })
    .await
}

#[tokio::test]
async fn a_blocked_stream_holds_no_other_back_and_is_confirmed_by_none() {
    let mut stage = held().await;
    stage.live.told_of("readings", 2).await;
    let line = |stream: &str| {
        let told = stage.live.told();
        let found = told.iter().find(|told| told.row.key.get("stream") == Some(stream));
        found.unwrap().line
    };
    assert_ne!(line("a"), line("b"));
    stage.live.confirm(Some(line("b")));
    until("b is acked", async || stage.since("b").await).await;
    assert_eq!((stage.since("a").await, stage.since("b").await), (None, Some(ago(20))));
    stage.script.forget();
    stage.cycle().await;
    let since: Vec<_> = stage.fetches()[0].iter().map(|request| request.since).collect();
    assert_eq!(since, [None, Some(ago(20))], "the cursor follows acks, never fetches");
    stage.live.confirm(None);
    stage.acked().await;
    assert_eq!(stage.since("a").await, Some(ago(10)));
}

#[tokio::test]
async fn a_stream_has_only_so_many_batches_under_way() {
    let few = settings().with(|settings| {
        settings.change_rows = 10;
        settings.batches_in_flight = 2;
    });
    let stage = Stage::with(few, Policy::Hold, SourceSpec::default(), |script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
        script.answers("a", readings("a", (1..=50).map(|at| Reading::new(ago(at), 1.0)).collect()));
        script.answers("b", readings("b", vec![Reading::new(ago(20), 1.0)]));
    })
    .await;
    // The first batch of each has the change of the stream itself.
    until("b is told beside a", async || {
        let told = stage.live.texts("readings");
        let of = |stream: &str| told.iter().filter(|text| text.starts_with(&format!("+readings/{stream}:"))).count();
        (of("a") >= 10 && of("a") <= 20 && of("b") == 1).then_some(())
    })
    .await;
    stage.live.set_policy(Policy::Confirm);
    stage.live.confirm(None);
    stage.live.told_of("readings", 51).await;
    stage.acked().await;
}

#[tokio::test]
async fn p16_the_durable_point_is_never_ahead_of_what_was_confirmed() {
    let stage = held().await;
    stage.live.told_of("readings", 2).await;
    let before = stage.capture.identity().await.unwrap();
    assert_eq!(before.durable.unwrap().0, 0);
    stage.live.confirm(None);
    stage.acked().await;
    let after = stage.capture.identity().await.unwrap();
    let point = SourcePoint { system: after.system.clone(), timeline: after.timeline, position: after.head };
    assert_eq!((after.system == before.system, after.durable), (true, Some(after.head)));
    assert_eq!(after.continuity(&point), millstream_cdc::Continuity::Continues);
    assert!(matches!(
        before.continuity(&SourcePoint { position: millstream_model::Position(10_000), ..point }),
        millstream_cdc::Continuity::Gap(_)
    ));
}

#[tokio::test]
async fn a_snapshot_gives_keys_in_order_from_where_it_was_left() {
    let stage = Stage::new(|script| {
        script.streams([StreamDescriptor::records("items", ["id"])
            .with_column("id", millstream_polling::model::ColumnType::Integer)]);
        script.answers("items", |_| {
            StreamFetch::records("items", (0..2500).map(|at| Record::new(at.to_string(), serde_json::Map::new())))
        });
    })
    .await;
    let table = SnapshotTable {
        index: IndexName::new("i"),
        table: millstream_model::QualifiedTable::new("public", "items"),
        key: None,
    };
    assert_eq!(stage.capture.estimate(&table).await.unwrap(), Some(2500));
    let pages: Vec<_> = stage.capture.snapshot(&table, KeyRange::default()).await.unwrap().collect().await;
    let keys: Vec<String> = pages.into_iter().flat_map(|page| page.unwrap()).map(|key| key.to_id()).collect();
    assert_eq!(keys, (0..2500).map(|at| at.to_string()).collect::<Vec<_>>());
    let mut pages = stage.capture.snapshot(&table, KeyRange::default()).await.unwrap();
    let first = pages.next().await.unwrap().unwrap();
    let after = KeyRange { after: first.last().cloned() };
    let next = stage.capture.snapshot(&table, after).await.unwrap().next().await.unwrap().unwrap();
    assert_eq!((next[0].to_id(), next.len()), ("1000".to_owned(), 1000));
}

#[tokio::test]
async fn lag_is_told_in_seconds_once_a_cycle_is_acked() {
    let stage = held().await;
    assert_eq!(stage.capture.lag().await.unwrap().unwrap().age, None);
    stage.live.told_of("readings", 2).await;
    stage.live.confirm(None);
    let age = until("it has an age", async || stage.capture.lag().await.unwrap().unwrap().age).await;
    assert_eq!(age.as_secs(), 0, "by the test's clock, which stands still");
}

#[tokio::test]
async fn streams_are_known_before_indexes_are_held_against_them() {
    let (source, script) = millstream_polling::scripted::ScriptedSource::new();
    let folder = tempfile::tempdir().unwrap();
    let place = millstream_polling::StoreSettings::sqlite(folder.path().join("store.db"));
    let capture = millstream_polling::PollingCapture::new(source, place, settings());
    script.fail("discover_streams", millstream_polling::BackendError::configuration("no such host"));
    let error = capture.open(&SourceSpec::default()).await.unwrap_err();
    assert!(error.kind().is_transient() && error.to_string().contains("no such host"), "{error}");
    script.streams([StreamDescriptor::records("items", ["id"])]);
    capture.open(&SourceSpec::default()).await.unwrap();
    let table = SnapshotTable {
        index: IndexName::new("i"),
        table: millstream_model::QualifiedTable::new("public", "items"),
        key: None,
    };
    assert_eq!(capture.estimate(&table).await.unwrap(), Some(0));
    script.forget();
    capture.open(&SourceSpec::default()).await.unwrap();
    capture.prepare(&SourceSpec::default(), PrepareMode::Create, None).await.unwrap();
    assert!(script.asked().is_empty(), "once");
}
