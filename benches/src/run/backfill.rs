use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::seconds_between;
use crate::limit::copy;
use crate::numbers::share;
use crate::shop;

const BUILT: &str = "millstream_documents_built_total";

/// Fills the index again and again, each time beside the limit lines.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // The first filling warms up; none of it counts.
    stage.fill().await?;
    stage.bar.set_length(stage.options.pairs as u64);
    for pair in 0..stage.options.pairs {
        if pair % 2 == 0 {
            fill(stage, &mut outcome).await?;
            lines(stage, &mut outcome).await?;
        } else {
            lines(stage, &mut outcome).await?;
            fill(stage, &mut outcome).await?;
        }
        stage.bar.inc(1);
    }
    Ok(outcome)
}

/// One filling, in a process of its own: its memory and metrics are those of this filling.
async fn fill(stage: &Stage, outcome: &mut Outcome) -> Result {
    let mut engine = stage.engine(false)?;
    let watch = stage.watch(&engine);
    engine.until_running().await?;
    for index in &stage.scenario.indexes {
        engine.say(&format!("backfill {index}")).await?;
    }
    let (from, to) = engine.until_filled(&stage.scenario.indexes).await?;
    let looks = watch.end();
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    let documents = grown.sum(BUILT, &[]);
    let run = EngineRun { from, to, samples, looks };
    outcome.figure("documents", documents);
    outcome.engine(stage, share(documents, seconds_between(from, to)), &run, &grown);
    Ok(())
}

async fn lines(stage: &Stage, outcome: &mut Outcome) -> Result {
    for (order, line) in stage.scenario.lines.iter().enumerate() {
        let (mut documents, mut seconds) = (0, 0.0);
        for index in &stage.scenario.indexes {
            let shape = stage.shape(*line, index).await?;
            let copied = copy(&stage.database.url, shop::root(index), &shape, stage.builders()).await?;
            documents += copied.0;
            seconds += copied.1;
        }
        outcome.line(order, line.word(), share(documents as f64, seconds));
    }
    Ok(())
}
