use std::time::Duration;

use millstream_tests::Connection;

use super::outcome::Outcome;
use super::stage::{EngineRun, Stage};
use crate::Result;
use crate::clock::{now_ns, seconds_between};
use crate::engine::{EngineProcess, Event};
use crate::limit::copy;
use crate::numbers::{Latencies, share};
use crate::server::{session, try_run};
use crate::shop;

/// The index that fans out, and the one whose documents change beside it.
const WIDE: &str = "users";
const OTHERS: &str = "companies";
/// Between two changes of others.
const EVERY: Duration = Duration::from_millis(10);

/// Changes the row that every document uses while others change one at a time.
pub(super) async fn run(stage: &mut Stage) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    stage.fill().await?;
    stage.bar.set_length(stage.options.pairs as u64);
    for pair in 0..stage.options.pairs {
        if pair % 2 == 1 {
            line(stage, &mut outcome).await?;
        }
        one(stage, pair, &mut outcome).await?;
        if pair % 2 == 0 {
            line(stage, &mut outcome).await?;
        }
        stage.bar.inc(1);
    }
    Ok(outcome)
}

async fn line(stage: &Stage, outcome: &mut Outcome) -> Result {
    for (order, line) in stage.scenario.lines.iter().enumerate() {
        let shape = stage.shape(*line, WIDE).await?;
        let (documents, seconds) = copy(&stage.database.url, shop::root(WIDE), &shape, stage.builders()).await?;
        outcome.line(order, line.word(), share(documents as f64, seconds));
    }
    Ok(())
}

async fn one(stage: &mut Stage, pair: usize, outcome: &mut Outcome) -> Result {
    let mut engine = stage.engine(true)?;
    let watch = stage.watch(&engine);
    engine.until_running().await?;
    let mut others = Others { writer: session(&stage.database.url).await?, companies: stage.sizes.companies, next: 0 };
    let (mut idle, mut loaded) = (Latencies::default(), Latencies::default());
    for _ in 0..stage.scenario.rows_at(stage.options.scale, 20) {
        others.one(&mut engine, &mut idle, &mut Wide::default()).await?;
    }
    let before = engine.samples().last().map(|sample| sample.metrics.clone()).unwrap_or_default();
    let from = now_ns();
    let (_, position) = stage.write(pair).await?;
    engine.say(&format!("until {position}")).await?;
    let mut wide = Wide::default();
    while !wide.confirmed {
        others.one(&mut engine, &mut loaded, &mut wide).await?;
    }
    let looks = watch.end();
    let samples = engine.stop().await?;
    let grown = samples.last().map(|sample| sample.metrics.since(&before)).unwrap_or_default();
    let to = wide.last.max(from + 1);
    let rate = share(wide.documents as f64, seconds_between(from, to));
    outcome.figure("documents", wide.documents as f64);
    if let (Some(idle), Some(loaded)) = (idle.summary(), loaded.summary()) {
        outcome.figure("others_idle_p99_ms", idle.p99);
        outcome.figure("others_p99_ms", loaded.p99);
        outcome.figure("others_p99_ratio", share(loaded.p99, idle.p99));
    }
    outcome.latency.add(&loaded);
    outcome.engine(stage, rate, &EngineRun { from, to, samples, looks }, &grown);
    Ok(())
}

/// What was seen of the documents that fan out.
#[derive(Default)]
struct Wide {
    documents: u64,
    last: u64,
    confirmed: bool,
}

impl Wide {
    fn note(&mut self, event: &Event) {
        match event {
            Event::Written(index, _, at) if index == WIDE => {
                self.documents += 1;
                self.last = self.last.max(*at);
            }
            Event::Reached { .. } => self.confirmed = true,
            _ => {}
        }
    }
}

/// Changes other documents, one at a time.
struct Others {
    writer: Connection,
    companies: u64,
    next: u64,
}

impl Others {
    async fn one(&mut self, engine: &mut EngineProcess, latencies: &mut Latencies, wide: &mut Wide) -> Result {
        self.next += 1;
        let id = 1 + (self.next * 13) % self.companies;
        let at = now_ns();
        try_run(&mut self.writer, &format!("update companies set name = 'Now {at}' where id = {id}")).await?;
        let id = id.to_string();
        let written = engine
            .until("another document to be written", |event| {
                wide.note(event);
                match event {
                    Event::Written(index, written, at) if index == OTHERS && *written == id => Some(*at),
                    _ => None,
                }
            })
            .await?;
        latencies.add_ns(written.saturating_sub(at));
        tokio::time::sleep(EVERY).await;
        Ok(())
    }
}
