use std::time::Duration;

use millstream::model::IndexName;
use millstream_tests::Connection;

use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::{now_ns, seconds_between};
use crate::engine::{EngineProcess, Event};
use crate::limit::BareLoop;
use crate::numbers::{Latencies, share};
use crate::processes::cpu_between;
use crate::server::{session, try_run};

const SLOT: &str = "bench_limit";
/// Changes before those that count.
const WARM_UP: u64 = 20;

/// One change at a time, with an engine and with a bare loop.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.fill().await?;
    let pairs = stage.options.pairs as u64;
    stage.bar.set_length(pairs);
    let samples = stage.scenario.rows_at(stage.options.scale, 40).div_ceil(pairs.max(1));
    for pair in 0..pairs {
        let (engine, bare) = if pair % 2 == 0 {
            let engine = with_engine(stage, samples, &mut outcome).await?;
            (engine, with_bare_loop(stage, samples).await?)
        } else {
            let bare = with_bare_loop(stage, samples).await?;
            (with_engine(stage, samples, &mut outcome).await?, bare)
        };
        let (Some(ours), Some(theirs)) = (engine.summary(), bare.summary()) else { continue };
        outcome.line(0, stage.scenario.lines[0].word(), share(1.0, theirs.p50));
        outcome.figure("p50_ratio", share(ours.p50, theirs.p50));
        outcome.figure("p99_ratio", share(ours.p99, theirs.p99));
        outcome.latency.add(&engine);
        outcome.limit_latency.add(&bare);
        stage.bar.inc(1);
    }
    Ok(outcome)
}

async fn with_engine(stage: &mut Stage, samples: u64, outcome: &mut Outcome) -> Result<Latencies> {
    let mut engine = stage.engine(true)?;
    let watch = stage.watch(&engine);
    engine.until_running().await?;
    let mut writer = session(&stage.database.url).await?;
    let mut latencies = Latencies::default();
    let mut from = now_ns();
    for sample in 0..WARM_UP + samples {
        if sample == WARM_UP {
            from = now_ns();
        }
        let user = user(stage, sample);
        let committed = change(&mut writer, user).await?;
        let written = until_written(&mut engine, &user.to_string()).await?;
        if sample >= WARM_UP {
            latencies.add_ns(written.saturating_sub(committed));
        }
    }
    // Nor does the bench ask: looking costs more than there is to see.
    engine.say("sample 60000").await?;
    let to = now_ns();
    // Nothing changes any more: what an idle engine costs.
    let quiet = Duration::from_secs_f64((stage.scenario.seconds * stage.options.scale).clamp(0.5, 30.0));
    tokio::time::sleep(quiet).await;
    let end = now_ns();
    let looks = watch.end();
    let idle = cpu_between(&looks, to, end);
    outcome.figure("idle_cpu_cores", share(idle.get("engine").copied().unwrap_or(0.0), seconds_between(to, end)));
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    let rate = latencies.summary().map_or(0.0, |summary| share(1.0, summary.p50));
    outcome.engine(stage, rate, &EngineRun { from, to, samples, looks }, &grown);
    Ok(latencies)
}

async fn with_bare_loop(stage: &mut Stage, samples: u64) -> Result<Latencies> {
    stage.make_slot(SLOT).await?;
    let documents = stage.loaded()?.postgres_source().map_err(|error| error.to_string())?.documents(1);
    let index = IndexName::new(&stage.scenario.indexes[0]);
    let query = documents.document_sql(&index).await.map_err(|error| error.to_string())?;
    let mut bare = BareLoop::open(&stage.database.url, SLOT, &stage.database.name, query).await?;
    let mut writer = session(&stage.database.url).await?;
    let mut latencies = Latencies::default();
    for sample in 0..WARM_UP + samples {
        let user = user(stage, sample);
        let committed = change(&mut writer, user).await?;
        let read = bare.next(&user.to_string()).await?;
        if sample >= WARM_UP {
            latencies.add_ns(read.saturating_sub(committed));
        }
    }
    bare.close().await?;
    stage.drop_slot(SLOT).await?;
    Ok(latencies)
}

/// Some user, far from the one before.
fn user(stage: &Stage, sample: u64) -> u64 {
    1 + (sample * 7_919) % stage.sizes.users
}

/// Changes one row; when its commit was sent.
async fn change(writer: &mut Connection, user: u64) -> Result<u64> {
    try_run(writer, &format!("begin; update users set name = 'Now {}' where id = {user}", now_ns())).await?;
    let at = now_ns();
    try_run(writer, "commit").await?;
    Ok(at)
}

/// Waits until a document was written.
pub(super) async fn until_written(engine: &mut EngineProcess, id: &str) -> Result<u64> {
    engine
        .until("the document to be written", |event| match event {
            Event::Written(_, written, at) if written == id => Some(*at),
            _ => None,
        })
        .await
}
