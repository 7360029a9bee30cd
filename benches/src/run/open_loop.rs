use std::collections::HashMap;
use std::time::Duration;

use millstream_tests::Connection;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::{now_ns, seconds_between};
use crate::engine::{EngineProcess, Event};
use crate::limit::copy;
use crate::numbers::{Latencies, share};
use crate::result::Step;
use crate::server::{session, try_run};
use crate::shop;

/// Sessions that change rows: each waits for its own commits.
const WRITERS: u64 = 4;
/// Rows one session changes with one statement when it is late: it must not be what saturates.
const CATCH_UP: usize = 100;
/// How long documents may trail before the next step begins without them.
const TRAIL: Duration = Duration::from_secs(60);
/// A step with longer latency than this is beyond saturation.
const SATURATED_MS: f64 = 1_000.0;

/// Changes single documents at fixed rates, one after the other.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.fill().await?;
    stage.bar.set_length(stage.scenario.rates.len() as u64 * stage.options.pairs as u64);
    for pair in 0..stage.options.pairs {
        if pair % 2 == 1 {
            line(stage, &mut outcome).await?;
        }
        steps(stage, &mut outcome).await?;
        if pair % 2 == 0 {
            line(stage, &mut outcome).await?;
        }
    }
    Ok(outcome)
}

async fn line(stage: &Stage, outcome: &mut Outcome) -> Result {
    let (index, line) = (&stage.scenario.indexes[0], stage.scenario.lines[0]);
    let shape = stage.shape(line, index).await?;
    let (documents, seconds) = copy(&stage.database.url, shop::root(index), &shape, stage.builders()).await?;
    outcome.line(0, line.word(), share(documents as f64, seconds));
    Ok(())
}

/// One engine through every step; the result is the highest rate that it kept up with.
async fn steps(stage: &mut Stage, outcome: &mut Outcome) -> Result {
    let mut engine = stage.engine(true)?;
    let watch = stage.watch(&engine);
    let from = engine.until_running().await?;
    let seconds = (stage.scenario.seconds * stage.options.scale.min(1.0)).max(0.5);
    let (mut steps, mut kept_up) = (Vec::new(), 0.0f64);
    for rate in stage.scenario.rates.clone() {
        let step = step(stage, &mut engine, rate, seconds).await?;
        let slow = step.latency_ms.as_ref().is_none_or(|latency| latency.p99 > SATURATED_MS);
        kept_up = kept_up.max(step.achieved);
        stage.bar.inc(1);
        steps.push(step);
        if slow {
            break;
        }
    }
    let to = now_ns();
    let looks = watch.end();
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    outcome.steps = steps;
    outcome.engine(stage, kept_up, &EngineRun { from, to, samples, looks }, &grown);
    Ok(())
}

/// So many changes a second for so long, each of another document.
async fn step(stage: &Stage, engine: &mut EngineProcess, rate: f64, seconds: f64) -> Result<Step> {
    let count = ((rate * seconds) as u64).min(stage.sizes.users).max(1);
    let (tx, mut failures) = mpsc::channel(1);
    let (began, began_ns) = (Instant::now(), now_ns());
    let due = |number: u64| number as f64 / rate;
    for writer in 0..WRITERS {
        let connection = session(&stage.database.url).await?;
        let dues = (0..count).filter(|number| number % WRITERS == writer);
        let dues: Vec<(u64, Duration)> =
            dues.map(|number| (1 + number, Duration::from_secs_f64(due(number)))).collect();
        tokio::spawn(write(connection, dues, began, tx.clone()));
    }
    drop(tx);
    let mut waiting: HashMap<String, u64> =
        (0..count).map(|number| ((1 + number).to_string(), began_ns + (due(number) * 1e9) as u64)).collect();
    let (mut latencies, mut last) = (Latencies::default(), began_ns);
    let deadline = Instant::now() + Duration::from_secs_f64(due(count)) + TRAIL;
    while !waiting.is_empty() {
        let event = tokio::select! {
            biased;
            Some(error) = failures.recv() => return Err(error),
            event = tokio::time::timeout_at(deadline, engine.event()) => event,
        };
        // Those that never came in time count as what they are: missing from the rate.
        let Ok(event) = event else { break };
        if let Event::Written(_, id, at) = event?
            && let Some(due) = waiting.get(&id).copied()
            && at >= due
        {
            waiting.remove(&id);
            latencies.add_ns(at - due);
            last = last.max(at);
        }
    }
    let arrived = latencies.count() as f64;
    let lasted = seconds_between(began_ns, last).max(due(count));
    Ok(Step { offered: rate, achieved: share(arrived, lasted), latency_ms: latencies.summary() })
}

/// Changes rows when each is due; late ones together.
async fn write(mut sql: Connection, dues: Vec<(u64, Duration)>, began: Instant, failed: mpsc::Sender<String>) {
    let mut next = 0;
    while next < dues.len() {
        tokio::time::sleep_until(began + dues[next].1).await;
        let elapsed = began.elapsed();
        let late = dues[next..].iter().take(CATCH_UP).take_while(|(_, due)| *due <= elapsed).count().max(1);
        let ids: Vec<String> = dues[next..next + late].iter().map(|(user, _)| user.to_string()).collect();
        let update = format!("update users set name = 'At {}' where id in ({})", now_ns(), ids.join(", "));
        if let Err(error) = try_run(&mut sql, &update).await {
            // The first one is enough.
            let _ = failed.try_send(error);
            return;
        }
        next += late;
    }
}
