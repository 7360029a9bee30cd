use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_cdc::{ChangeCapture, KeyRange, Readiness, StartLine};
use millstream_core::{Result, SnapshotTable, SourceError};
use millstream_model::{Generation, IndexMapping, RowKey};
use millstream_sinks::{FillState, IndexProgress};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::ledger::Payload;
use crate::retry::Waits;
use crate::{
    Board, IndexStatus, Ledger, Meters, Page, ProgressDesk, Settings, Signals, SinkCommand, SinkDesk, SinkSet,
    TicketPrinter, Versions,
};

/// How often a filling logs how far it is.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// How often an index that waits for old transactions asks whether they have ended.
const READY_EVERY: Duration = Duration::from_millis(100);

/// Everything that fills one index.
#[derive(Clone)]
pub struct FillParts {
    /// Reads keys.
    pub capture: Arc<dyn ChangeCapture>,
    /// The table to read through.
    pub table: SnapshotTable,
    /// What sinks must know of the index.
    pub mapping: IndexMapping,
    /// The way to the builders.
    pub pages: flume::Sender<Page>,
    /// The ways to the sinks, by their numbers.
    pub sinks: Vec<SinkDesk>,
    /// Where progress is saved.
    pub progress: ProgressDesk,
    /// How many indexes may be filled at once.
    pub places: Arc<Semaphore>,
    /// Hands out versions.
    pub versions: Versions,
    /// Where it tells how far it is.
    pub board: Arc<Board>,
    /// Its metrics.
    pub meters: Meters,
    /// The engine's settings.
    pub settings: Settings,
    /// The run's signals.
    pub signals: Signals,
}

/// What one filling begins with.
#[derive(Clone, Debug)]
pub(crate) struct FillPlan {
    /// The sinks that need it.
    pub sinks: SinkSet,
    /// The filling.
    pub generation: Generation,
    /// Go on after this key; `Some(None)`: begun, but no key is durable. `None`: not begun.
    pub resume: Option<Option<RowKey>>,
    /// What the snapshot must wait for.
    pub line: StartLine,
}

/// How a filling ended.
#[derive(Debug)]
pub(crate) enum FillEnd {
    /// All is durable and saved as live.
    Complete,
    /// It was asked to stop; nothing of it is under way any more. The plan to go on with.
    Stopped(FillPlan),
    /// The source refused: the index must be given up until it is mended. The plan to go on with.
    Failed(SourceError, FillPlan),
}

/// Keys up to this one are durable once it retires.
#[derive(Debug)]
struct Cursor {
    last: RowKey,
    rows: u64,
}

impl Payload for Cursor {
    fn merge(self, later: Self) -> Self {
        Self { last: later.last, rows: self.rows + later.rows }
    }
}

/// One filling of one index, from its start line to its last durable key.
pub(crate) struct Fill {
    parts: FillParts,
    plan: FillPlan,
    stop: CancellationToken,
    abandoned: Arc<AtomicBool>,
    ledger: Ledger<Cursor>,
    printer: TicketPrinter,
    settled: flume::Receiver<crate::TicketNumber>,
    status: IndexStatus,
    started: Instant,
    saved: Instant,
    logged: Instant,
}

impl Fill {
    /// A filling that ends early, and cleanly, when `stop` is cancelled; once `abandoned` it saves nothing more, for what was
    /// saved of the index since then stands.
    pub fn new(parts: FillParts, plan: FillPlan, stop: CancellationToken, abandoned: Arc<AtomicBool>) -> Self {
        let (tx, settled) = flume::bounded(parts.settings.backfill_pages);
        let printer = TicketPrinter::new(tx, parts.signals.alarm.clone(), metrics::Histogram::noop());
        let status = IndexStatus::of("waiting", None);
        let now = Instant::now();
        Self {
            parts,
            plan,
            stop,
            abandoned,
            ledger: Ledger::default(),
            printer,
            settled,
            status,
            started: now,
            saved: now,
            logged: now,
        }
    }

    /// Fills. Dropping the future loses tickets, and so ends the run: use `stop`.
    pub async fn run(mut self) -> FillEnd {
        match self.fill().await {
            Ok(true) => FillEnd::Complete,
            Ok(false) => FillEnd::Stopped(self.plan),
            Err(error) => {
                self.settle_all().await;
                FillEnd::Failed(error, self.plan)
            }
        }
    }

    /// True when complete, false when stopped.
    async fn fill(&mut self) -> Result<bool> {
        if !self.await_start_line().await? {
            return Ok(false);
        }
        let places = self.parts.places.clone();
        let place = self.stop.run_until_cancelled(places.acquire_owned()).await;
        let Some(Ok(_place)) = place else { return Ok(false) };
        if !self.begin().await {
            return Ok(false);
        }
        self.status.rows_expected = self.parts.capture.estimate(&self.parts.table).await.unwrap_or(None);
        let expected = self.status.rows_expected.unwrap_or(0) as f64;
        self.parts.meters.of_index(&self.parts.mapping.index).backfill_expected.set(expected);
        self.started = Instant::now();
        self.logged = self.started;
        let resumed = matches!(self.plan.resume, Some(Some(_)));
        let rows_expected = self.status.rows_expected;
        tracing::info!(index = %self.parts.mapping.index, rows_expected, resumed, "filling begins");
        self.tell("backfilling", None);
        let complete = self.scan().await?;
        self.settle_all().await;
        if !complete {
            self.save_cursor().await;
            tracing::info!(index = %self.parts.mapping.index, rows = self.status.rows_done, "filling was stopped");
            return Ok(false);
        }
        let (rows, seconds) = (self.status.rows_done, self.started.elapsed().as_secs_f64());
        let finished = self.finish().await;
        if finished {
            // The figures that stay.
            self.tell("backfilling", None);
            tracing::info!(index = %self.parts.mapping.index, rows, seconds, "filling has ended: the index is live");
        }
        Ok(finished)
    }

    /// Waits until every transaction that was open at the start line has ended. False when stopped.
    async fn await_start_line(&mut self) -> Result<bool> {
        let mut waits = Waits::new(&self.parts.settings, 0);
        loop {
            match self.parts.capture.ready(&self.plan.line).await {
                Ok(Readiness::Ready) => return Ok(!self.stop.is_cancelled()),
                Ok(Readiness::Waiting(on)) => self.tell("waiting", Some(format!("waits for {}", on.join(", ")))),
                Err(error) if error.kind().is_transient() => {
                    self.tell("waiting", Some(error.to_string()));
                    tokio::time::sleep(waits.longer()).await;
                }
                Err(error) => return Err(error),
            }
            if self.stop.run_until_cancelled(tokio::time::sleep(READY_EVERY)).await.is_none() {
                return Ok(false);
            }
        }
    }

    /// Makes each sink ready to be filled and saves that it is being filled. False when stopped.
    async fn begin(&mut self) -> bool {
        if self.stop.is_cancelled() {
            return false;
        }
        let index = &self.parts.mapping.index;
        for sink in self.plan.sinks.iter().filter_map(|sink| self.parts.sinks.get(sink)) {
            let generation = self.plan.generation;
            if self.plan.resume.is_some() {
                let _ = sink.send_async(SinkCommand::Continue { index: index.clone(), generation }).await;
                continue;
            }
            let (done, begun) = oneshot::channel();
            let (mapping, version) = (self.parts.mapping.clone(), self.parts.versions.next());
            let command = SinkCommand::Begin { mapping, generation, version, done };
            if sink.send_async(command).await.is_err() || begun.await.is_err() {
                return false;
            }
        }
        if self.plan.resume.is_none() {
            self.plan.resume = Some(None);
            return self.save(FillState::Backfilling(None)).await;
        }
        true
    }

    /// Reads keys page by page and has them built. True when all were read, false when stopped.
    async fn scan(&mut self) -> Result<bool> {
        let mut waits = Waits::new(&self.parts.settings, 0);
        let mut after = self.plan.resume.clone().flatten();
        let mut pages = self.pages(&after);
        loop {
            let room = self.ledger.open() < self.parts.settings.backfill_pages;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Ok(false),
                Ok(number) = self.settled.recv_async() => self.settle(number).await,
                page = pages.next(), if room => match page {
                    None => return Ok(true),
                    Some(Ok(page)) => {
                        waits.reset();
                        after = page.last().cloned().or(after);
                        self.hand_over(page).await;
                    }
                    Some(Err(error)) if error.kind().is_transient() => {
                        let wait = waits.longer();
                        self.parts.meters.retry("backfill");
                        tracing::warn!(index = %self.parts.mapping.index, %error, "a backfill's read failed; trying again");
                        tokio::time::sleep(wait).await;
                        pages = self.pages(&after);
                    }
                    Some(Err(error)) => return Err(error),
                },
            }
        }
    }

    fn pages(&self, after: &Option<RowKey>) -> BoxStream<'static, Result<Vec<RowKey>>> {
        let (capture, table) = (self.parts.capture.clone(), self.parts.table.clone());
        let range = KeyRange { after: after.clone() };
        let opened = async move {
            match capture.snapshot(&table, range).await {
                Ok(stream) => stream,
                Err(error) => futures::stream::once(async { Err(error) }).boxed(),
            }
        };
        let size = self.parts.settings.backfill_page;
        futures::stream::once(opened)
            .flatten()
            .flat_map(move |page| {
                let parts: Vec<Result<Vec<RowKey>>> = match page {
                    Ok(keys) => keys.chunks(size).map(|keys| Ok(keys.to_vec())).collect(),
                    Err(error) => vec![Err(error)],
                };
                futures::stream::iter(parts)
            })
            .boxed()
    }

    async fn hand_over(&mut self, keys: Vec<RowKey>) {
        let Some(last) = keys.last().cloned() else { return };
        let (number, ticket) = self.printer.print();
        self.ledger.admit(number, Cursor { last, rows: keys.len() as u64 });
        let (index, sinks) = (self.parts.mapping.index.clone(), self.plan.sinks);
        // The builders are gone only when the run ends.
        let _ = self.parts.pages.send_async(Page { index, keys: keys.into(), sinks, ticket }).await;
    }

    async fn settle(&mut self, number: crate::TicketNumber) {
        self.ledger.settle(number);
        let mut moved = false;
        while let Some(cursor) = self.ledger.retire() {
            self.plan.resume = Some(Some(cursor.last));
            self.status.rows_done += cursor.rows;
            self.parts.meters.of_index(&self.parts.mapping.index).backfill_rows.increment(cursor.rows);
            moved = true;
        }
        if moved && self.saved.elapsed() >= self.parts.settings.confirm_every {
            self.save_cursor().await;
            self.tell("backfilling", None);
        }
        if moved && self.logged.elapsed() >= LOG_EVERY {
            self.logged = Instant::now();
            let IndexStatus { rows_done, rows_expected, eta_seconds, .. } = self.status;
            tracing::info!(index = %self.parts.mapping.index, rows_done, rows_expected, eta_seconds, "filling");
        }
    }

    async fn settle_all(&mut self) {
        while self.ledger.open() > 0
            && let Ok(number) = self.settled.recv_async().await
        {
            self.settle(number).await;
        }
    }

    async fn save_cursor(&mut self) {
        self.saved = Instant::now();
        let pairs = |key: &RowKey| key.iter().map(|(column, value)| (column.to_owned(), value.to_owned())).collect();
        if let Some(after) = &self.plan.resume {
            self.save(FillState::Backfilling(after.as_ref().map(pairs))).await;
        }
    }

    /// Has every sink end the filling and saves that it is live. False when the run is ending.
    async fn finish(&mut self) -> bool {
        if self.abandoned.load(Ordering::Relaxed) {
            return false;
        }
        for sink in self.plan.sinks.iter().filter_map(|sink| self.parts.sinks.get(sink)) {
            let (done, finished) = oneshot::channel();
            let (index, generation) = (self.parts.mapping.index.clone(), self.plan.generation);
            let command = SinkCommand::Finish { index, generation, done };
            if sink.send_async(command).await.is_err() || finished.await.is_err() {
                return false;
            }
        }
        self.save(FillState::Live).await
    }

    async fn save(&self, state: FillState) -> bool {
        if self.abandoned.load(Ordering::Relaxed) {
            return false;
        }
        let progress = self.parts.progress_of(self.plan.generation, state);
        self.parts.progress.save_index(self.parts.mapping.index.clone(), self.plan.sinks, progress).await
    }

    fn tell(&mut self, state: &'static str, detail: Option<String>) {
        self.status.state = state;
        self.status.detail = detail;
        let seconds = self.started.elapsed().as_secs_f64();
        self.status.eta_seconds = self.status.rows_expected.and_then(|expected| {
            let left = expected.saturating_sub(self.status.rows_done) as f64;
            (self.status.rows_done > 0).then(|| (left * seconds / self.status.rows_done as f64).ceil() as u64)
        });
        self.parts.tell(self.status.clone());
    }
}

impl FillParts {
    /// What is saved of the index in some state.
    pub(crate) fn progress_of(&self, generation: Generation, state: FillState) -> IndexProgress {
        IndexProgress {
            hash_version: self.mapping.hash_version,
            schema_hash: self.mapping.schema_hash.clone(),
            mapping_hash: self.mapping.mapping_hash.clone(),
            generation,
            state,
        }
    }

    pub(crate) fn tell(&self, status: IndexStatus) {
        self.meters.of_index(&self.mapping.index).set_state(status.state);
        self.board.set_index(&self.mapping.index, status);
    }
}

impl IndexStatus {
    /// A status without a backfill's figures.
    pub fn of(state: &'static str, detail: Option<String>) -> Self {
        Self { state, detail, rows_done: 0, rows_expected: None, eta_seconds: None }
    }
}
