use std::time::Duration;

use millstream_tests::shop::{Tally, Writer};
use millstream_tests::{Random, connect};
use tokio::time::Instant;

use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::seconds_between;
use crate::numbers::{median, share};

/// Changes of every kind for long, beside a running engine.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.fill().await?;
    let seconds = (stage.scenario.seconds * stage.options.scale).max(2.0);
    let rate = stage.scenario.rates.first().copied().unwrap_or(50.0);
    let mut engine = stage.engine(false)?;
    let watch = stage.watch(&engine);
    let from = engine.until_running().await?;
    stage.bar.set_length(seconds as u64);
    let committed = change(stage, rate, seconds).await?;
    let written = crate::clock::now_ns();
    let (_, position) = stage.position().await?;
    let (seen, _) = engine.until_confirmed(position).await?;
    let looks = watch.end();
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    let changes = grown.sum("millstream_changes_captured_total", &[]);
    let memory: Vec<f64> = looks.iter().map(|look| look.rss as f64).collect();
    // The first quarter warms up.
    let quarter = memory.len() / 4;
    let (second, last) = (median(&memory[quarter..2 * quarter]), median(&memory[memory.len() - quarter..]));
    outcome.figure("rss_growth", share(last, second));
    outcome.figure("transactions", committed);
    outcome.figure("changes", changes);
    outcome.figure("trailed_seconds", seconds_between(written, seen));
    let run = EngineRun { from, to: seen, samples, looks };
    outcome.engine(stage, share(changes, seconds_between(from, seen)), &run, &grown);
    outcome.line(0, stage.scenario.lines[0].word(), share(changes, seconds_between(from, written)));
    Ok(outcome)
}

/// So many random transactions a second; how many committed.
async fn change(stage: &Stage, rate: f64, seconds: f64) -> Result<f64> {
    let open = || connect(&stage.database.url);
    let mut sql = open().await.map_err(|error| error.to_string())?;
    let (writer, mut random, mut tally) = (Writer::new(stage.sizes.users), Random::new(1), Tally::default());
    let began = Instant::now();
    for number in 0..(rate * seconds) as u64 {
        tokio::time::sleep_until(began + Duration::from_secs_f64(number as f64 / rate)).await;
        if writer.transaction(&mut sql, &mut random, &mut tally).await.is_err() {
            sql = open().await.map_err(|error| error.to_string())?;
        }
        stage.bar.set_position(began.elapsed().as_secs());
    }
    Ok(tally.0.get("commits").copied().unwrap_or(0) as f64)
}
