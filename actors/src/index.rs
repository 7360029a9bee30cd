use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_cdc::{CoverageChange, StartLine};
use millstream_core::{Diagnostic, Result};
use millstream_model::{Fence, Generation, IndexName, QualifiedTable, RowKey};
use millstream_sinks::FillState;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::fill::{Fill, FillEnd, FillPlan};
use crate::sink::wait_until;
use crate::{Failure, FillParts, GateKeeper, IndexStatus, Opening, SinkCommand, SinkSet};

/// Who has trouble with an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TroubleSource {
    /// The index's keeper itself: what the source has does not fit the index.
    Source,
    /// A builder's lane.
    Lane(usize),
    /// A resolver.
    Resolver(usize),
    /// A sink.
    Sink(usize),
}

/// What an index's keeper is told.
#[derive(Debug)]
#[allow(missing_docs)] // A variant's own line says what its fields are.
pub enum IndexEvent {
    /// It can't be built (or resolved, or written) just now.
    Trouble { source: TroubleSource, reason: String },
    /// One who had trouble has none any more.
    Recovered(TroubleSource),
    /// What is held for it fills up the queues.
    Pressure,
    /// What is told of one of its tables changed; `done` once that is saved.
    Coverage { table: QualifiedTable, change: CoverageChange, done: oneshot::Sender<()> },
    /// Its root was truncated; `done` once every sink is empty of it.
    Clear { fence: Fence, done: oneshot::Sender<()> },
    /// Fill it again.
    Refill { reason: String },
}

/// The way to an index's keeper.
#[derive(Clone, Debug)]
pub struct IndexDesk(flume::Sender<IndexEvent>);

impl IndexDesk {
    /// The desk and the mailbox behind it.
    pub fn open() -> (Self, flume::Receiver<IndexEvent>) {
        let (tx, rx) = flume::bounded(64);
        (Self(tx), rx)
    }

    /// Tells of trouble. Never waits: who has trouble tells it again at each try.
    pub fn trouble(&self, source: TroubleSource, reason: String) {
        let _ = self.0.try_send(IndexEvent::Trouble { source, reason });
    }

    /// Tells that trouble is over. Never waits: told again as long as the gate says that the index is held.
    pub fn recovered(&self, source: TroubleSource) {
        let _ = self.0.try_send(IndexEvent::Recovered(source));
    }

    /// Tells that what is held fills up the queues. Never waits.
    pub fn pressure(&self) {
        let _ = self.0.try_send(IndexEvent::Pressure);
    }

    /// Tells an event that must arrive. False when the run is ending.
    pub async fn tell(&self, event: IndexEvent) -> bool {
        self.0.send_async(event).await.is_ok()
    }
}

/// Asks what keeps an index from being built. Also makes the builder look at the source anew.
pub type Inspect = Arc<dyn Fn() -> BoxFuture<'static, Result<Vec<Diagnostic>>> + Send + Sync>;

/// What an index begins a run with.
#[derive(Clone, Debug, Default)]
pub struct StartState {
    /// The sinks that must be filled.
    pub needs: SinkSet,
    /// All sinks.
    pub all: SinkSet,
    /// Go on after this key; `Some(None)`: begun, but no key is durable. `None`: not begun.
    pub resume: Option<Option<RowKey>>,
    /// The filling that serves or is to be made.
    pub generation: Generation,
    /// Why it can't be built at present, if so: then it is held first.
    pub down: Option<String>,
    /// Tables whose changes are not told: the capture says when they are again.
    pub uncovered: BTreeSet<QualifiedTable>,
}

/// Everything that an index's keeper is made of.
pub struct IndexParts {
    /// What fills it.
    pub fill: FillParts,
    /// Looks whether it can be built again.
    pub inspect: Inspect,
    /// Its gate.
    pub gate: GateKeeper,
    /// What it is told.
    pub events: flume::Receiver<IndexEvent>,
    /// How it begins.
    pub start: StartState,
    /// What its first snapshot must wait for.
    pub line: StartLine,
}

/// Owns one index: its state, its gate and its filling.
///
/// ```text
///            filled                 trouble                hold is over, or pressure
/// waiting ──▶ backfilling ──▶ live ⇄ held ──▶ needs_backfill (saved durably, then the gate is shut)
///    ▲  ▲                      recovered              │
///    │  └── refill, rewritten, truncated ── live      │ mended (looked at again and again), coverage mended
///    └────────────────────────────────────────────────┘ the gate opens *before* the start line is taken
/// ```
/// One that can't be built at the start is held first, too.
///
/// It knows nothing of how documents are built or written.
pub struct IndexActor {
    parts: IndexParts,
    name: IndexName,
    generation: Generation,
    filling: Option<Filling>,
    plan: Option<FillPlan>,
    troubled: BTreeSet<TroubleSource>,
    held_since: Option<Instant>,
    is_down: bool,
    look_at: Instant,
    uncovered: BTreeSet<QualifiedTable>,
    clearing: Option<(Fence, oneshot::Sender<()>)>,
}

struct Filling {
    end: BoxFuture<'static, FillEnd>,
    stop: CancellationToken,
    abandoned: Arc<AtomicBool>,
}

impl IndexActor {
    /// An actor for one index.
    pub fn new(parts: IndexParts) -> Self {
        let name = parts.fill.mapping.index.clone();
        let generation = parts.start.generation;
        Self {
            parts,
            name,
            generation,
            filling: None,
            plan: None,
            troubled: BTreeSet::new(),
            held_since: None,
            is_down: false,
            look_at: Instant::now(),
            uncovered: BTreeSet::new(),
            clearing: None,
        }
    }

    /// Serves until the engine drains.
    ///
    /// # Errors
    /// None of its own: what is wrong with an index is its state.
    pub async fn run(mut self) -> Result<(), Failure> {
        let abort = self.parts.fill.signals.abort.clone();
        abort.run_until_cancelled(self.serve()).await;
        Ok(())
    }

    async fn serve(&mut self) {
        self.begin().await;
        let drain = self.parts.fill.signals.drain.clone();
        loop {
            if drain.is_cancelled() && self.filling.is_none() && self.clearing.is_none() {
                return;
            }
            let deadline = self.deadline();
            tokio::select! {
                biased;
                event = self.parts.events.recv_async() => match event {
                    Ok(event) => self.handle(event).await,
                    Err(_) => return,
                },
                end = ended(&mut self.filling) => self.filled(end).await,
                () = wait_until(deadline) => self.look().await,
                () = drain.cancelled(), if !drain.is_cancelled() => self.stop_filling(),
            }
        }
    }

    async fn begin(&mut self) {
        let start = self.parts.start.clone();
        let plan =
            FillPlan { sinks: start.needs, generation: start.generation, resume: start.resume, line: self.parts.line };
        if let Some(reason) = start.down {
            self.plan = (!start.needs.is_empty()).then_some(plan);
            self.uncovered = start.uncovered;
            // Changes that are not told are missed already; what only can't be read may be mended in time.
            if self.uncovered.is_empty() {
                return self.hold_until_mended(reason);
            }
            return self.give_up(reason).await;
        }
        if start.needs.is_empty() {
            tracing::info!(index = %self.name, "the index is live");
            self.tell("live", None);
        } else {
            self.start_filling(plan);
        }
    }

    async fn handle(&mut self, event: IndexEvent) {
        match event {
            IndexEvent::Trouble { source, reason } => self.trouble(source, reason),
            IndexEvent::Recovered(source) => self.recovered(source),
            IndexEvent::Pressure if self.held_since.is_some() => {
                self.give_up("it was held until the queues were half full".to_owned()).await;
            }
            IndexEvent::Pressure => {}
            IndexEvent::Coverage { table, change, done } => {
                self.coverage(table, change).await;
                let _ = done.send(());
            }
            IndexEvent::Clear { fence, done } => {
                // What is held would keep its filling, and so the barrier, for as long as it is held.
                if self.held_since.is_some() {
                    self.give_up("its root was truncated while it was held".to_owned()).await;
                }
                self.clearing = Some((fence, done));
                self.stop_filling();
                self.clear_when_idle().await;
            }
            IndexEvent::Refill { reason } => self.refill(reason, StartLine::NONE).await,
        }
    }

    fn trouble(&mut self, source: TroubleSource, reason: String) {
        if self.is_down {
            return;
        }
        self.troubled.insert(source);
        if self.held_since.is_none() {
            tracing::error!(index = %self.name, reason, "the index can't be built; its changes are held");
            self.held_since = Some(Instant::now());
            self.parts.gate.set(Opening::Held);
        }
        self.parts.fill.board.set_error(format_args!("index {}: {reason}", self.name));
        self.tell("held", Some(reason));
    }

    fn hold_until_mended(&mut self, reason: String) {
        self.trouble(TroubleSource::Source, reason);
        self.look_at = Instant::now() + self.parts.fill.settings.inspect_every;
    }

    fn recovered(&mut self, source: TroubleSource) {
        self.troubled.remove(&source);
        if self.troubled.is_empty() && self.held_since.take().is_some() {
            tracing::info!(index = %self.name, "the index can be built again");
            self.parts.gate.set(Opening::Open);
            self.tell(if self.filling.is_some() { "backfilling" } else { "live" }, None);
            if self.filling.is_none() {
                self.start_planned();
            }
        }
    }

    async fn coverage(&mut self, table: QualifiedTable, change: CoverageChange) {
        match change {
            CoverageChange::Broken { reason, remedy } => {
                let reason = if remedy.is_empty() { reason } else { format!("{reason}; to mend it: {remedy}") };
                self.uncovered.insert(table);
                self.give_up(reason).await;
            }
            CoverageChange::Mended { start_line } => {
                self.uncovered.remove(&table);
                if let Some(plan) = &mut self.plan {
                    plan.line = plan.line.max(start_line);
                }
                if self.is_down && self.uncovered.is_empty() {
                    self.mended(start_line).await;
                }
            }
            CoverageChange::Rewritten { reason, start_line } => self.refill(reason, start_line).await,
            _ => {}
        }
    }

    /// Saves that it must be filled again, in every sink, then lets its touches go unbuilt.
    async fn give_up(&mut self, reason: String) {
        tracing::error!(index = %self.name, reason, "the index is given up until it is mended; then it is filled again");
        self.parts.fill.board.set_error(format_args!("index {}: {reason}", self.name));
        self.save_needs_backfill(&reason).await;
        self.parts.gate.set(Opening::Shut);
        self.troubled.clear();
        self.held_since = None;
        self.stop_filling();
        self.tell("needs_backfill", Some(reason));
        self.look_at = Instant::now() + self.parts.fill.settings.inspect_every;
        self.is_down = true;
    }

    async fn save_needs_backfill(&mut self, reason: &str) {
        // Before it is saved: a filling that still ends must not save over it.
        if let Some(filling) = &self.filling {
            filling.abandoned.store(true, Ordering::Relaxed);
            filling.stop.cancel();
        }
        let progress = self.parts.fill.progress_of(self.generation, FillState::NeedsBackfill(reason.to_owned()));
        self.parts.fill.progress.save_index(self.name.clone(), self.parts.start.all, progress).await;
        let line = self.plan.take().map_or(StartLine::NONE, |plan| plan.line);
        self.plan = Some(self.fresh_plan(line));
    }

    /// A filling from the first key, of every sink.
    fn fresh_plan(&mut self, line: StartLine) -> FillPlan {
        self.generation = Generation(self.generation.0 + 1);
        FillPlan { sinks: self.parts.start.all, generation: self.generation, resume: None, line }
    }

    async fn refill(&mut self, reason: String, line: StartLine) {
        tracing::info!(index = %self.name, reason, "the index is filled again");
        self.save_needs_backfill(&reason).await;
        if let Some(plan) = &mut self.plan {
            plan.line = plan.line.max(line);
        }
        if self.is_down {
            return;
        }
        if let Some(reason) = obstacle(&self.parts.inspect, &self.name).await {
            return self.give_up(reason).await;
        }
        self.stop_filling();
        if self.filling.is_none() {
            self.start_planned();
        }
    }

    /// Something is due: the hold is over, or it is time to look whether the index is mended.
    async fn look(&mut self) {
        self.look_at = Instant::now() + self.parts.fill.settings.inspect_every;
        if let Some(since) = self.held_since {
            if since.elapsed() >= self.parts.fill.settings.hold {
                self.give_up("it was held for as long as it may be".to_owned()).await;
            } else if obstacle(&self.parts.inspect, &self.name).await.is_none() {
                self.recovered(TroubleSource::Source);
            }
            return;
        }
        if !self.uncovered.is_empty() || self.filling.is_some() {
            return;
        }
        self.mended(StartLine::NONE).await;
    }

    /// Opens the gate, then takes the start line: what was let go unbuilt until now is visible to the snapshot.
    async fn mended(&mut self, line: StartLine) {
        if let Some(plan) = &mut self.plan {
            plan.line = plan.line.max(line);
        }
        if let Some(reason) = obstacle(&self.parts.inspect, &self.name).await {
            return self.tell("needs_backfill", Some(reason));
        }
        self.parts.gate.set(Opening::Open);
        match self.parts.fill.capture.start_line().await {
            Ok(now) => {
                tracing::info!(index = %self.name, "the index is mended and filled again");
                self.is_down = false;
                let mut plan = match self.plan.take() {
                    Some(plan) => plan,
                    None => self.fresh_plan(line),
                };
                plan.line = plan.line.max(line).max(now);
                self.plan = Some(plan);
                if self.filling.is_none() {
                    self.start_planned();
                }
            }
            Err(error) => {
                tracing::warn!(index = %self.name, %error, "can't take a start line; trying again");
                self.parts.gate.set(Opening::Shut);
            }
        }
    }

    fn start_planned(&mut self) {
        if self.parts.fill.signals.drain.is_cancelled() {
            return;
        }
        if let Some(plan) = self.plan.take() {
            self.start_filling(plan);
        }
    }

    fn start_filling(&mut self, plan: FillPlan) {
        let stop = CancellationToken::new();
        self.tell("waiting", None);
        let abandoned = Arc::new(AtomicBool::new(false));
        let end = Fill::new(self.parts.fill.clone(), plan, stop.clone(), abandoned.clone()).run().boxed();
        self.filling = Some(Filling { end, stop, abandoned });
    }

    /// Asks the filling to end; it goes on until nothing of it is under way.
    fn stop_filling(&self) {
        if let Some(filling) = &self.filling {
            filling.stop.cancel();
        }
    }

    async fn filled(&mut self, end: FillEnd) {
        self.filling = None;
        match end {
            // Its figures stay, as the filling told them.
            FillEnd::Complete if self.plan.is_none() => self.tell("live", None),
            FillEnd::Complete => {}
            FillEnd::Stopped(plan) => self.keep(plan),
            FillEnd::Failed(error, plan) => {
                self.keep(plan);
                self.give_up(error.to_string()).await;
            }
        }
        self.clear_when_idle().await;
        if !self.is_down && self.filling.is_none() {
            self.start_planned();
        }
    }

    /// A newer plan, made while the filling ran, stands; but what the old one waited for, it waits for, too.
    fn keep(&mut self, old: FillPlan) {
        match &mut self.plan {
            Some(newer) => newer.line = newer.line.max(old.line),
            None => self.plan = Some(old),
        }
    }

    /// The barrier of a truncated root: nothing of the index is under way, so the sinks can be emptied of it.
    async fn clear_when_idle(&mut self) {
        if self.filling.is_some() {
            return;
        }
        let Some((fence, done)) = self.clearing.take() else { return };
        self.parts.gate.fence(fence);
        for sink in &self.parts.fill.sinks {
            let (cleared, rx) = oneshot::channel();
            let command = SinkCommand::Clear {
                index: self.name.clone(),
                version: self.parts.fill.versions.next(),
                done: cleared,
            };
            if sink.send_async(command).await.is_err() || rx.await.is_err() {
                return;
            }
        }
        let _ = done.send(());
        if !self.is_down {
            self.start_planned();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        let hold = self.held_since.map(|since| since + self.parts.fill.settings.hold);
        let looks = self.is_down || self.troubled.contains(&TroubleSource::Source);
        hold.into_iter().chain(looks.then_some(self.look_at)).min()
    }

    fn tell(&self, state: &'static str, detail: Option<String>) {
        // How many rows its last filling did is worth knowing afterwards.
        let figures = self.parts.fill.board.index(&self.name).filter(|_| state != "waiting");
        let (rows_done, rows_expected) = figures.map_or((0, None), |status| (status.rows_done, status.rows_expected));
        self.parts.fill.tell(IndexStatus { rows_done, rows_expected, ..IndexStatus::of(state, detail) });
    }
}

/// Waits for a filling to end; for ever when there is none.
async fn ended(filling: &mut Option<Filling>) -> FillEnd {
    match filling {
        Some(filling) => (&mut filling.end).await,
        None => std::future::pending().await,
    }
}

/// What keeps an index from being built, if anything does. Also makes the builder look at the source anew.
async fn obstacle(inspect: &Inspect, index: &IndexName) -> Option<String> {
    match inspect().await {
        Ok(found) => found.iter().find(|diagnostic| diagnostic.is_error()).map(ToString::to_string),
        Err(error) => {
            tracing::warn!(%index, %error, "can't look whether the index can be built; looking again");
            Some(error.to_string())
        }
    }
}
