//! Streams, curves and pins.

use millstream_polling::model::{Reading, StandardCurve, StreamDescriptor, StreamFetch};
use millstream_polling::scripted::Asked;
use millstream_polling::{BackendError, ReportState};
use serde_json::json;

use crate::stage::{Stage, ago, nothing, readings};

fn count(stage: &Stage, test: impl Fn(&Asked) -> bool) -> usize {
    stage.script.asked().iter().filter(|asked| test(asked)).count()
}

fn discoveries(stage: &Stage) -> usize {
    count(stage, |asked| *asked == Asked::Streams)
}

#[tokio::test]
async fn streams_are_discovered_once_and_again_on_a_full_sync() {
    let mut stage = Stage::new(|script| script.streams([StreamDescriptor::readings("a")])).await;
    stage.cycle().await;
    stage.cycle().await;
    assert_eq!(discoveries(&stage), 1);
    let (state, report) = stage.cycle_of("full", nothing()).await;
    assert_eq!((discoveries(&stage), state.as_str(), report.streams_discovered), (2, "completed", 1));
}

#[tokio::test]
async fn streams_are_discovered_in_each_cycle_if_the_backend_asks_for_it() {
    let mut stage = Stage::new(|script| script.set_rediscovers(true)).await;
    stage.script.forget();
    stage.cycle().await;
    stage.cycle().await;
    assert_eq!(discoveries(&stage), 2);
}

#[tokio::test]
async fn discovery_is_repeated_until_one_pass_has_registered_all() {
    let mut stage = Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::records("readings", ["id"])]);
        script.answers("a", readings("a", vec![Reading::new(ago(1), 1.0)]));
    })
    .await;
    let report = stage.cycle().await;
    assert!(report.errors.iter().any(|error| error.contains("stream readings was refused")), "{report:?}");
    assert_eq!(report.streams_fetched, 1, "the other one goes on");
    let before = discoveries(&stage);
    stage.cycle().await;
    assert_eq!(discoveries(&stage), before + 1);
    stage.script.streams([StreamDescriptor::readings("a"), StreamDescriptor::records("items", ["id"])]);
    assert!(stage.cycle().await.errors.is_empty());
    let before = discoveries(&stage);
    stage.cycle().await;
    assert_eq!(discoveries(&stage), before);
}

#[tokio::test]
async fn an_unchanged_description_is_not_written_again_and_a_changed_one_is_told() {
    let mut stage = Stage::new(|script| script.streams([StreamDescriptor::readings("a").with_unit("V")])).await;
    stage.live.told_of("streams", 1).await;
    let (_, report) = stage.cycle_of("full", nothing()).await;
    assert_eq!(report.streams_written, 0);
    stage.script.streams([StreamDescriptor::readings("a").with_unit("mV")]);
    let (_, report) = stage.cycle_of("full", nothing()).await;
    assert_eq!(report.streams_written, 1);
    assert_eq!(stage.live.told_of("streams", 2).await, ["+streams/a", "+streams/a"]);
    assert_eq!(stage.rows("select unit from streams").await, ["mV"]);
}

#[tokio::test]
async fn a_stream_that_is_gone_keeps_its_rows_and_is_asked_for_no_more() {
    let both = || [StreamDescriptor::readings("a"), StreamDescriptor::readings("b")];
    let mut stage = Stage::new(|script| {
        script.streams(both());
        script.answers("b", readings("b", vec![Reading::new(ago(1), 1.0)]));
    })
    .await;
    stage.script.streams([StreamDescriptor::readings("a")]);
    stage.cycle_of("full", nothing()).await;
    stage.script.forget();
    stage.cycle().await;
    let asked: Vec<String> = stage.fetches()[0].iter().map(|request| request.key().to_string()).collect();
    assert_eq!((asked, stage.rows("select stream from readings").await), (vec!["a".to_owned()], vec!["b".to_owned()]));
    stage.script.streams([]);
    let (state, _) = stage.cycle_of("full", nothing()).await;
    assert_eq!(state, ReportState::Partial.as_str(), "a source that names no stream at all is not believed");
    assert!(!stage.handle.streams().await.unwrap()[0].gone);
}

#[tokio::test]
async fn a_stream_that_its_source_calls_gone_is_discovered_again() {
    let mut stage = Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
        script.answers("b", |_| StreamFetch::failed("b", BackendError::stream_gone("404 not found")));
    })
    .await;
    assert!(stage.handle.streams().await.unwrap()[1].gone);
    stage.script.answers("b", readings("b", vec![Reading::new(ago(1), 1.0)]));
    let report = stage.cycle().await;
    assert_eq!((report.streams_written, report.rows_new), (1, 1));
}

#[tokio::test]
async fn pins_reach_the_backend_before_the_fetch_in_every_cycle() {
    let stream = |names: &[&str]| StreamDescriptor::readings("a").with_replicates(names.to_vec());
    let mut stage = Stage::new(|script| {
        script.streams([stream(&["x", "y"])]);
        script.answers("a", readings("a", vec![Reading::new(ago(1), 1.0).in_column(1)]));
    })
    .await;
    for _ in 0..2 {
        stage.script.forget();
        stage.cycle().await;
        let asked = stage.script.asked();
        let pins = asked.iter().position(|asked| matches!(asked, Asked::Pins(_, pins) if pins.len() == 2)).unwrap();
        let fetch = asked.iter().position(|asked| matches!(asked, Asked::Readings(_))).unwrap();
        assert!(pins < fetch);
    }
    stage.script.streams([stream(&["x", "z"])]);
    let (_, report) = stage.cycle_of("full", nothing()).await;
    assert!(report.errors.iter().any(|error| error.contains("gone=y, new=z")), "{report:?}");
    assert_eq!(stage.rows("select name || replicate || active from replicates order by 1").await, ["x01", "y11"]);
}

#[tokio::test]
async fn a_curve_that_fails_withholds_no_other_and_mappings_come_before_streams() {
    let curve = |key: &str, points: &[(f64, f64)]| StandardCurve {
        key: key.to_owned(),
        name: key.to_owned(),
        points: points.to_vec(),
        ..StandardCurve::default()
    };
    let mut stage = Stage::new(|script| {
        script.streams([StreamDescriptor::readings("a")]);
        script.curves([curve("c", &[(2.0, 20.0), (1.0, 10.0)]), curve("d", &[])]);
    })
    .await;
    let asked = stage.script.asked();
    let mappings = asked.iter().position(|asked| matches!(asked, Asked::Mappings(all) if all.len() == 2)).unwrap();
    assert!(mappings < asked.iter().position(|asked| *asked == Asked::Streams).unwrap());
    assert_eq!(stage.rows("select points from curves where key = 'c'").await, ["[[1.0,10.0],[2.0,20.0]]"]);
    stage.live.told_of("curves", 2).await;
    stage.script.curves([curve("c", &[(1.0, 10.0), (2.0, 20.0)]), curve("d", &[])]);
    stage
        .sql("create trigger no before insert on curves when new.key = 'e' begin select raise(abort, 'full'); end")
        .await;
    stage.cycle().await;
    assert_eq!(stage.live.texts("curves").len(), 2, "an order of points is no content");
    stage.script.curves([curve("e", &[]), curve("f", &[])]);
    let report = stage.cycle().await;
    assert!(report.errors.iter().any(|error| error.contains("curve e could not be stored")), "{report:?}");
    assert_eq!(stage.live.told_of("curves", 3).await[2], "+curves/f");
}

#[tokio::test]
async fn a_command_that_nobody_knows_fails() {
    let mut stage = Stage::new(|_| {}).await;
    let outcome = stage.command("resync", json!({})).await;
    assert!(outcome.result["error"].as_str().unwrap().contains("streams"));
}
