//! B14, E8: a source or a sink is away for minutes. These wait far more than they work, so they are told first.

use std::time::Duration;

use millstream_tests::{Cluster, Stop};

use crate::words::{family, notes_on};

/// How long the source is away.
const SOURCE_AWAY: Duration = Duration::from_secs(300);
/// How long the sink is.
const SINK_AWAY: Duration = Duration::from_secs(120);
/// Between two writes of the application meanwhile: a steady load that leaves the other tests their share of the machine.
const ROUND: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn case_b14_a_source_that_is_away_is_waited_for() {
    let cluster = Cluster::builder().start().await;
    let mut stage = notes_on(&cluster, "b14").await;
    stage.run("insert into notes select n, 'n' from generate_series(1, 1000) n").await;
    stage.start().await;
    stage.settled().await;
    let before = memory(stage.host().pid());
    stage.run("update notes set body = 'just before'").await;
    cluster.stop(Stop::Immediate).await;
    tokio::time::sleep(SOURCE_AWAY).await;
    assert!(stage.is_running(), "it keeps trying");
    let (code, _) = millstream_tests::http::get(stage.host().port(), "/livez").await.expect("it answers meanwhile");
    assert_eq!(code, 200);
    let lines = stage.log().lines().count();
    assert!(lines < 1_000, "it says so {lines} times: that is no backoff");
    assert!(memory(stage.host().pid()) < before + 32 * 1024, "its memory grew while it waited");
    cluster.start().await;
    stage.reconnect().await;
    stage.run("insert into notes values (0, 'back again')").await;
    stage.settled().await;
    stage.close().await;
}

/// What a process holds in memory, in KiB.
fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_e8_b14_p10_a_sink_that_is_away_under_load_loses_nothing() {
    let mut stage = family("e8").await;
    stage.run("insert into parents select n, 'p' from generate_series(1, 5000) n; insert into children select n, n, 'c' from generate_series(1, 5000) n").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.fail(usize::MAX);
    let began = tokio::time::Instant::now();
    let mut round = 0;
    let mut most_open = 0.0_f64;
    while began.elapsed() < SINK_AWAY {
        tokio::time::sleep(ROUND).await;
        round += 1;
        stage.run(&format!("update children set name = 'round {round}', parent_id = 1 + (parent_id + 1) % 5000 where id % 10 = {round} % 10")).await;
        let status = stage.status().await;
        if let Some(millstream_tests::Json::Number(open)) = status.get("tickets_open") {
            most_open = most_open.max(open.parse().unwrap_or(0.0));
        }
    }
    assert!(stage.is_running(), "it does not give up");
    let status = stage.status().await;
    assert_eq!(status.get("degraded"), Some(&millstream_tests::Json::Boolean(true)), "the status says so: {status}");
    assert!(most_open > 0.0, "what is not durable is open");
    sink.fail(0);
    stage.settled().await;
    stage.close().await;
}
