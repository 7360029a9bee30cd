use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::seconds_between;
use crate::engine::EngineProcess;
use crate::limit::{copy, stream};
use crate::meters::Metrics;
use crate::numbers::share;
use crate::scenario::{LineKind, Unit};
use crate::shop;

const SLOT: &str = "bench_limit";

/// Lets changes wait while no engine runs, then has an engine work them off, and the limit do the same work.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.fill().await?;
    stage.bar.set_length(stage.options.pairs as u64);
    for pair in 0..stage.options.pairs {
        if pair % 2 == 0 {
            let (done, end) = engine_first(stage, pair, &mut outcome).await?;
            lines(stage, pair, &done, &end, &mut outcome).await?;
        } else {
            engine_last(stage, pair, &mut outcome).await?;
        }
        stage.bar.inc(1);
    }
    Ok(outcome)
}

async fn engine_first(stage: &mut Stage, pair: usize, outcome: &mut Outcome) -> Result<(Metrics, String)> {
    make_slot(stage).await?;
    let (end, position) = stage.write(pair).await?;
    let done = work_off(stage, position, outcome).await?;
    Ok((done, end))
}

/// The lines that need no engine before them go first; what documents they are weighed by is known from the engine's run.
async fn engine_last(stage: &mut Stage, pair: usize, outcome: &mut Outcome) -> Result {
    make_slot(stage).await?;
    let (end, position) = stage.write(pair).await?;
    let mut early = Early::default();
    for line in stage.scenario.lines.clone() {
        match line {
            LineKind::Stream => early.stream = Some(read_stream(stage, &end).await?),
            LineKind::CopyCorrelated | LineKind::CopySetBased => early.rates.push((line, rates(stage, line).await?)),
            _ => {}
        }
    }
    let done = work_off(stage, position, outcome).await?;
    for (order, line) in stage.scenario.lines.clone().into_iter().enumerate() {
        let value = match line {
            LineKind::Stream => share(changes(&done), early.stream.unwrap_or(0.0)),
            LineKind::Near => near(stage, pair).await?,
            _ => early.rates.iter().find(|(known, _)| *known == line).map_or(0.0, |(_, rates)| weighed(rates, &done)),
        };
        outcome.line(order, line.word(), value);
    }
    Ok(())
}

/// What lines found out before the engine ran.
#[derive(Default)]
struct Early {
    stream: Option<f64>,
    rates: Vec<(LineKind, Vec<(String, f64)>)>,
}

async fn lines(stage: &mut Stage, pair: usize, done: &Metrics, end: &str, outcome: &mut Outcome) -> Result {
    for (order, line) in stage.scenario.lines.clone().into_iter().enumerate() {
        let value = match line {
            LineKind::Stream => share(changes(done), read_stream(stage, end).await?),
            LineKind::Near => near(stage, pair).await?,
            _ => weighed(&rates(stage, line).await?, done),
        };
        outcome.line(order, line.word(), value);
    }
    Ok(())
}

async fn make_slot(stage: &mut Stage) -> Result {
    if stage.scenario.lines.contains(&LineKind::Stream) { stage.make_slot(SLOT).await } else { Ok(()) }
}

async fn read_stream(stage: &mut Stage, end: &str) -> Result<f64> {
    let seconds = stream(&stage.database.url, SLOT, &stage.database.name, end).await?;
    stage.drop_slot(SLOT).await?;
    Ok(seconds)
}

/// Starts the engine, waits until all up to a position is durable, and notes how that went. How much its metrics grew.
async fn work_off(stage: &Stage, position: u64, outcome: &mut Outcome) -> Result<Metrics> {
    let engine = stage.engine(false)?;
    let (run, grown) = watched(stage, engine, position).await?;
    let seconds = seconds_between(run.from, run.to);
    outcome.engine(stage, share(counted(stage, &grown), seconds), &run, &grown);
    let built = grown.sum("millstream_builds_total", &[]);
    outcome.figure("changes", changes(&grown));
    outcome.figure("builds", built);
    outcome.figure("changes_per_build", share(changes(&grown), built));
    outcome.figure("builds_per_touch", share(built, grown.sum("millstream_touches_total", &[])));
    outcome.figure("fence_waits", grown.sum("millstream_fence_waits_total", &[]));
    Ok(grown)
}

async fn watched(stage: &Stage, mut engine: EngineProcess, position: u64) -> Result<(EngineRun, Metrics)> {
    let watch = stage.watch(&engine);
    let from = engine.until_running().await?;
    let (seen, last_write) = engine.until_confirmed(position).await?;
    let looks = watch.end();
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    // Confirmed comes up to a second after the last write; where nothing is written, it is all there is.
    let to = if stage.scenario.capture_only || last_write <= from { seen } else { last_write };
    Ok((EngineRun { from, to, samples, looks }, grown))
}

/// The same work without the delay.
async fn near(stage: &mut Stage, pair: usize) -> Result<f64> {
    let (_, position) = stage.write(pair + 1_000).await?;
    let engine = stage.near_engine()?;
    let (run, grown) = watched(stage, engine, position).await?;
    Ok(share(counted(stage, &grown), seconds_between(run.from, run.to)))
}

fn counted(stage: &Stage, grown: &Metrics) -> f64 {
    match stage.scenario.unit {
        Unit::Changes => changes(grown),
        _ => grown.sum("millstream_builds_total", &[]),
    }
}

fn changes(grown: &Metrics) -> f64 {
    grown.sum("millstream_changes_captured_total", &[])
}

/// Documents a second of each index.
async fn rates(stage: &Stage, line: LineKind) -> Result<Vec<(String, f64)>> {
    let mut rates = Vec::new();
    for index in &stage.scenario.indexes {
        let shape = stage.shape(line, index).await?;
        let (documents, seconds) = copy(&stage.database.url, shop::root(index), &shape, stage.builders()).await?;
        rates.push((index.clone(), share(documents as f64, seconds)));
    }
    Ok(rates)
}

/// The rate at which the line would have built the documents that the engine built: so many of each index.
fn weighed(rates: &[(String, f64)], done: &Metrics) -> f64 {
    let (mut documents, mut seconds) = (0.0, 0.0);
    for (index, rate) in rates {
        let built = done.sum("millstream_builds_total", &[&format!("index=\"{index}\"")]);
        documents += built;
        seconds += share(built, *rate);
    }
    share(documents, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_weighed_by_what_the_engine_built() {
        let done = Metrics::of(&[
            ("millstream_builds_total{engine=\"x\",index=\"a\"}", 100.0),
            ("millstream_builds_total{engine=\"x\",index=\"b\"}", 300.0),
        ]);
        // A second for the one, three for the other.
        assert_eq!(weighed(&[("a".to_owned(), 100.0), ("b".to_owned(), 100.0)], &done), 100.0);
        assert_eq!(weighed(&[("a".to_owned(), 100.0), ("b".to_owned(), 300.0)], &done), 200.0);
    }
}
