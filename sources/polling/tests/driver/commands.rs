//! Commands, pauses, intervals, reports.

use std::time::Duration;

use millstream_cdc::ChangeCapture;
use millstream_polling::model::StreamDescriptor;
use millstream_polling::scripted::{Asked, ScriptedSource};
use millstream_polling::{BackendError, Command, CommandState, PollingCapture, ReportState, StoreSettings};
use serde_json::json;

use crate::stage::{DEADLINE, Policy, Stage, nothing, settings, until};

async fn with_one() -> Stage {
    Stage::new(|script| script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")])).await
}

fn times(stage: &Stage, name: &str) -> usize {
    stage.script.asked().iter().filter(|asked| matches!(asked, Asked::Command(asked) if asked == name)).count()
}

#[tokio::test]
async fn a_custom_command_that_takes_long_blocks_nothing() {
    let mut stage = with_one().await;
    stage.script.hold_commands();
    let slow = Command::new("slow", "calibrate").with_payload(json!({ "port": 1 }));
    assert_eq!(stage.handle.submit(slow.clone()).await.unwrap().state, CommandState::Running);
    stage.script.asked_until(|asked| asked.contains(&Asked::Command("calibrate".to_owned()))).await;
    stage.cycle().await;
    assert_eq!(stage.command("pause", nothing()).await.state, CommandState::Done);
    assert_eq!(stage.command("resume", nothing()).await.state, CommandState::Done);
    assert_eq!(stage.handle.outcome("slow").await.unwrap().unwrap().state, CommandState::Running);
    stage.script.let_go();
    let outcome = tokio::time::timeout(DEADLINE, stage.handle.command(slow)).await.unwrap().unwrap();
    assert_eq!((outcome.state, outcome.result), (CommandState::Done, json!({ "port": 1 })));
}

#[tokio::test]
async fn a_command_that_is_delivered_again_runs_once_and_answers_the_same() {
    let stage = with_one().await;
    let command = |payload| Command::new("once", "calibrate").with_payload(json!(payload));
    for payload in [1, 2] {
        let outcome = stage.handle.command(command(payload)).await.unwrap();
        assert_eq!(outcome.result, json!(1));
    }
    assert_eq!(times(&stage, "calibrate"), 1);
    stage.script.fail("handle_command", BackendError::configuration("the port is closed"));
    let failing = || Command::new("fails", "calibrate");
    for _ in 0..2 {
        let outcome = stage.handle.command(failing()).await.unwrap();
        assert_eq!((outcome.state, outcome.result), (CommandState::Failed, json!({ "error": "the port is closed" })));
    }
    assert_eq!(times(&stage, "calibrate"), 2);
}

#[tokio::test]
async fn commands_queue_behind_the_running_cycle_and_coalesce() {
    let mut stage = with_one().await;
    stage.command("pause", nothing()).await;
    stage.script.forget();
    let before = stage.handle.reports(100).await.unwrap().len();
    let trigger = |id: &str| Command::new(id, "trigger");
    let (one, two, full) = tokio::join!(
        stage.handle.command(trigger("1")),
        stage.handle.command(trigger("2")),
        stage.handle.command(Command::new("3", "full")),
    );
    for outcome in [one, two, full] {
        assert_eq!(outcome.unwrap().state, CommandState::Done);
    }
    let after = stage.handle.reports(100).await.unwrap().len();
    assert!(after > before && after - before <= 3, "{before} {after}");
}

#[tokio::test]
async fn a_resync_asks_for_what_it_names_and_for_all_of_it() {
    let mut stage = with_one().await;
    stage.script.forget();
    let (_, report) = stage.cycle_of("resync", json!({ "streams": ["b"] })).await;
    assert!(report.errors.is_empty());
    let fetches = stage.fetches();
    assert_eq!((fetches.len(), fetches[0].len(), fetches[0][0].key().as_str()), (1, 1, "b"));
    assert_eq!(fetches[0][0].since, None);
}

#[tokio::test]
async fn a_pause_stops_scheduled_cycles_only_and_survives_a_restart() {
    let quick = settings().with_every(Duration::from_millis(1));
    let mut stage = Stage::with(quick, Policy::Confirm, Default::default(), |_| {}).await;
    let first = stage.handle.reports(1).await.unwrap()[0].number;
    until("cycles go on by themselves", async || {
        (stage.handle.reports(1).await.unwrap()[0].number > first + 2).then_some(())
    })
    .await;
    stage.command("pause", nothing()).await;
    // A cycle may have been running: this one is behind it.
    stage.cycle().await;
    let paused = stage.handle.reports(1).await.unwrap()[0].number;
    let (source, script) = ScriptedSource::new();
    let mut stage = stage.restart(source, script, Policy::Confirm).await;
    assert!(stage.handle.is_paused().await.unwrap());
    stage.cycle().await;
    assert_eq!(stage.handle.reports(1).await.unwrap()[0].number, paused + 2, "only those that were asked for");
    stage.command("resume", nothing()).await;
    until("cycles go on again", async || (stage.handle.reports(1).await.unwrap()[0].number > paused + 4).then_some(()))
        .await;
}

#[tokio::test]
async fn an_interval_is_kept_and_its_floor_too() {
    let strict = settings().with_floor(Duration::from_secs(30));
    let mut stage = Stage::with(strict, Policy::Confirm, Default::default(), |_| {}).await;
    let outcome = stage.command("set_interval", json!({ "seconds": 29 })).await;
    assert!(outcome.result["error"].as_str().unwrap().contains("below the floor"));
    assert_eq!(stage.command("set_interval", json!({ "seconds": 60 })).await.state, CommandState::Done);
    assert_eq!(stage.rows("select value from millstream_store where name = 'every_ms'").await, ["60000"]);
}

#[tokio::test]
async fn an_open_report_is_closed_at_shutdown_and_at_the_next_start() {
    let stage = with_one().await;
    // At shutdown: a cycle that waits between attempts is cut short.
    let patience = Some(Duration::from_secs(3600));
    stage.script.fail("fetch_readings", BackendError::throttled("slow down", patience));
    stage.script.forget();
    stage.handle.submit(Command::new("stuck", "trigger")).await.unwrap();
    stage.script.asked_until(|asked| asked.iter().any(|asked| matches!(asked, Asked::Readings(_)))).await;
    stage.sql("insert into millstream_reports (kind, state, started, body) values ('full', 'open', 1, '{\"rows_new\": 7}')").await;
    let (source, script) = ScriptedSource::new();
    let stage = stage.restart(source, script, Policy::Confirm).await;
    let reports = stage.handle.reports(100).await.unwrap();
    let left = reports.iter().find(|report| report.kind == "full").unwrap();
    assert_eq!((left.state, left.body["rows_new"].as_u64()), (ReportState::Failed, Some(7)));
    assert!(left.body["errors"][0].as_str().unwrap().contains("the process ended"));
    let cut = |report: &&millstream_polling::KeptReport| report.body["errors"].to_string().contains("was stopped");
    assert_eq!(reports.iter().find(cut).unwrap().state, ReportState::Failed);
    assert!(reports.iter().all(|report| report.state != ReportState::Open));
    // The order that no cycle served is served now.
    let outcome = stage.handle.command(Command::new("stuck", "trigger")).await.unwrap();
    assert_eq!(outcome.state, CommandState::Done);
}

#[tokio::test]
async fn two_drivers_never_share_a_store() {
    let folder = tempfile::tempdir().unwrap();
    let place = || StoreSettings::sqlite(folder.path().join("store.db"));
    let captures = [(); 2].map(|()| PollingCapture::new(ScriptedSource::new().0, place(), settings()));
    let first = captures[0].live().await.unwrap();
    let error = captures[1].live().await.err().unwrap();
    assert_eq!(error.kind(), millstream_core::SourceErrorKind::Held);
    assert!(captures[1].wait_for_turn().await.is_err(), "not within the wait, which is none here");
    drop(first);
    captures[0].close().await;
    assert!(captures[1].live().await.is_ok());
}

#[tokio::test]
async fn a_store_belongs_to_one_source_system() {
    struct Other;

    #[millstream_polling::async_trait]
    impl millstream_polling::SourceBackend for Other {
        async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
            Ok(Vec::new())
        }

        async fn fetch_readings(
            &self,
            _: &[millstream_polling::model::StreamFetchRequest],
        ) -> Result<Vec<millstream_polling::model::StreamFetch>, BackendError> {
            Ok(Vec::new())
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let place = || StoreSettings::sqlite(folder.path().join("store.db"));
    let first = PollingCapture::new(ScriptedSource::new().0, place(), settings());
    drop(first.live().await.unwrap());
    first.close().await;
    let error = PollingCapture::new(Other, place(), settings()).live().await.err().unwrap();
    assert!(error.to_string().contains("found=scripted, expected=Other"), "{error}");
}
