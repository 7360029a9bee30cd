//! Cycles: curves, streams, readings, status events, one after another, never two at once.

mod admit;
pub(crate) mod commands;
mod cycle;
mod fetch;
mod landing;
pub(crate) mod meters;
pub(crate) mod queue;
mod register;
pub(crate) mod report;
pub(crate) mod retry;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_core::Result;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::cycle::Cycle;
use self::meters::Meters;
use self::queue::{Plan, Queue};
use self::report::{CycleReport, ReportBook, close_left};
use self::retry::Patience;
use crate::capture::Feed;
use crate::model::StreamKey;
use crate::store::{CommandOutcome, CommandState, ReportState, Store};
use crate::{Identities, PollingSettings, SourceBackend};

/// Owns the backend: asks it, lands what it answers, reports. The only one that moves rows into the store.
///
/// It knows nothing of documents or sinks; what becomes of a landed row comes back to the store as an ack.
pub(crate) struct Driver {
    pub backend: Arc<dyn SourceBackend>,
    pub identities: Arc<dyn Identities>,
    pub store: Store,
    pub settings: PollingSettings,
    pub patience: Patience,
    pub queue: Queue,
    pub meters: Meters,
    /// Told of what was landed.
    pub feed: Arc<Feed>,
    /// Counts up whenever a command may have ended.
    pub ended: watch::Sender<u64>,
    /// True: no cycle begins by itself.
    pub paused: watch::Sender<bool>,
    /// Time between cycles.
    pub every: watch::Sender<Duration>,
    /// True once a pass has registered all streams.
    pub discovered: AtomicBool,
    /// True while the source can't be reached.
    pub probing: AtomicBool,
    /// Streams that were refused when they were discovered last: not fetched until they are mended.
    // Held for a look or a change only, never across an await.
    pub withheld: Mutex<BTreeSet<StreamKey>>,
}

impl Driver {
    /// Takes up what an earlier run left: an open report, a pause, an interval, orders that no cycle has served.
    pub(crate) async fn begin(&self) -> Result<()> {
        self.store.claim(self.backend.source_system()).await?;
        close_left(&self.store, self.settings.now()).await?;
        let kept = self.store.kept().await?;
        self.paused.send_replace(kept.paused);
        self.meters.paused(kept.paused);
        if let Some(every) = kept.every.filter(|every| *every >= self.settings.floor) {
            self.every.send_replace(every);
        }
        self.take_up_commands().await
    }

    /// Discovers curves and streams, fetches nothing.
    pub(crate) async fn discover_only(&self) -> Result<CycleReport> {
        let plan = Plan::default();
        let mut book = ReportBook::open(&self.store, "discovery", self.settings.now()).await?;
        Cycle::new(self, &plan, &mut book).introduce().await;
        let report = book.report.clone();
        let state = if report.errors.is_empty() { ReportState::Completed } else { ReportState::Failed };
        book.close(state, self.settings.now()).await?;
        Ok(report)
    }

    /// Runs cycles until it is stopped; the cycle that is running then is cut short, and its report closed.
    pub(crate) async fn run(&self, stop: &CancellationToken) {
        let mut last: Option<Instant> = None;
        loop {
            let mut plan = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                plan = self.queue.next() => plan,
                () = self.due(last) => Plan::default(),
            };
            if plan == Plan::default() {
                plan = self.queue.take().unwrap_or_default();
            }
            self.cycle(plan, stop).await;
            last = Some(Instant::now());
        }
    }

    /// Waits until the next cycle is due by itself: the clock starts at the end of the last.
    async fn due(&self, last: Option<Instant>) {
        let (mut paused, mut every) = (self.paused.subscribe(), self.every.subscribe());
        let part = self.settings.jitter.clamp(0.0, 1.0) * self.patience.draw();
        loop {
            let is_paused = *paused.borrow_and_update();
            let base = *every.borrow_and_update();
            let base = if self.probing.load(Ordering::Relaxed) { base.max(self.settings.probe_every) } else { base };
            let at = last.map(|last| last + base.mul_f64(1.0 + part));
            tokio::select! {
                biased;
                // The senders live in `self`.
                Ok(()) = paused.changed() => {}
                Ok(()) = every.changed() => {}
                () = sleep_until(at), if !is_paused => return,
            }
        }
    }

    async fn cycle(&self, plan: Plan, stop: &CancellationToken) {
        let (started, began) = (self.settings.now(), Instant::now());
        let mut book = match ReportBook::open(&self.store, plan.kind(), started).await {
            Ok(book) => book,
            Err(error) => {
                tracing::warn!(%error, "a cycle could not begin");
                let result = serde_json::json!({ "error": error.to_string() });
                return self.finish(&plan.ids, CommandState::Failed, &result).await;
            }
        };
        let ran = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            () = Cycle::new(self, &plan, &mut book).run() => true,
        };
        if !ran {
            book.report.error("the cycle was cut short: the driver was stopped");
        }
        let state = if ran { book.report.state() } else { ReportState::Failed };
        let number = book.number;
        self.meters.cycle(&book.report, state, began.elapsed(), self.settings.now());
        let brakes = self.store.streams().await.map_or(0, |all| all.iter().filter(|one| one.brake.is_some()).count());
        self.meters.standing(brakes, *self.paused.borrow(), self.probing.load(Ordering::Relaxed));
        tracing::info!(report = number, kind = plan.kind(), state = state.as_str(), "a cycle ended");
        if let Err(error) = book.close(state, self.settings.now()).await {
            tracing::warn!(%error, "a report could not be closed");
        }
        if ran {
            self.feed.cycle_ended(started, state != ReportState::Failed);
            let result = serde_json::json!({ "report": number, "state": state });
            self.finish(&plan.ids, CommandState::Done, &result).await;
        }
    }

    /// Keeps what came of commands. Those that can't be kept are run again after a restart.
    async fn finish(&self, ids: &[String], state: CommandState, result: &serde_json::Value) {
        for id in ids {
            let outcome = CommandOutcome { state, result: result.clone() };
            if let Err(error) = self.store.finish(id, &outcome, self.settings.now()).await {
                tracing::warn!(%error, command = id, "what came of a command could not be kept");
            }
        }
        self.ended.send_modify(|count| *count += 1);
    }
}

async fn sleep_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at).await;
    }
}
