use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_cdc::{
    Ack, CaptureEvent, ChangeBatch, ChangeCapture, Confirm, KeyRange, Lag, Line, PrepareMode, Prepared, Readiness,
    SourceIdentity, StartLine,
};
use millstream_core::{Result, SnapshotTable, SourceError, SourceErrorKind, SourceSpec};
use millstream_model::{Position, RowKey};
use tokio::sync::{OnceCell, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::driver::meters::Meters;
use crate::driver::retry::Patience;
use crate::driver::{Driver, queue::Queue};
pub(crate) use crate::feed::Feed;
use crate::store::{Hold, KeptCommand, Store};
use crate::{Identities, LocalIdentities, PollingHandle, PollingSettings, SourceBackend, StoreSettings};

/// Commands that wait to be taken up.
const INBOX: usize = 64;

/// Time between two looks at whether a store is free.
const HOLD_AGAIN: Duration = Duration::from_millis(250);

/// A second look at a store that could not write an ack down.
const ACK_AGAIN: Duration = Duration::from_millis(500);

/// Tells what changed in a system without a log: its live stream runs the driver, what the driver lands in the store comes out as
/// thin changes, and each ack moves the cursor of exactly the stream whose rows it covered.
///
/// Each stream has a [`Line`] of its own. What was landed and not acked stands in the store beside the rows, written in one
/// transaction with them: after a crash it is told again.
pub struct PollingCapture {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    backend: Arc<dyn SourceBackend>,
    identities: Arc<dyn Identities>,
    place: StoreSettings,
    settings: PollingSettings,
    store: OnceCell<Store>,
    feed: Arc<Feed>,
    /// True once all streams were registered by the introduction, in this process.
    introduced: AtomicBool,
    // Held for a look or a change only, never across an await.
    run: Mutex<Option<Run>>,
    inbox: Mutex<Option<mpsc::Sender<KeptCommand>>>,
    pub(crate) ended: watch::Sender<u64>,
}

/// The tasks of a live stream.
struct Run {
    /// Cancelled once they have all ended and the store is free.
    over: CancellationToken,
    stop: CancellationToken,
}

impl PollingCapture {
    /// A capture over one backend and one store. Talks to nobody yet.
    pub fn new(backend: impl SourceBackend, store: StoreSettings, settings: PollingSettings) -> Self {
        Self::with_identities(backend, store, settings, LocalIdentities)
    }

    /// The same, where someone else gives streams and curves their identities.
    pub fn with_identities(
        backend: impl SourceBackend,
        store: StoreSettings,
        settings: PollingSettings,
        identities: impl Identities,
    ) -> Self {
        let shared = Shared {
            backend: Arc::new(backend),
            identities: Arc::new(identities),
            place: store,
            settings,
            store: OnceCell::new(),
            feed: Arc::new(Feed::default()),
            introduced: AtomicBool::new(false),
            run: Mutex::new(None),
            inbox: Mutex::new(None),
            ended: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Commands, reports and the state of streams.
    pub fn handle(&self) -> PollingHandle {
        PollingHandle::new(self.shared.clone())
    }

    /// The store, opened.
    ///
    /// # Errors
    /// See [`Store::open`].
    pub async fn store(&self) -> Result<Store> {
        self.shared.store().await.cloned()
    }
}

impl Shared {
    pub(crate) async fn store(&self) -> Result<&Store> {
        self.store.get_or_try_init(|| Store::open(self.place.clone())).await
    }

    /// The way to the live driver; `None`: there is none.
    pub(crate) fn inbox(&self) -> Option<mpsc::Sender<KeptCommand>> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner).clone().filter(|inbox| !inbox.is_closed())
    }

    pub(crate) fn settings(&self) -> &PollingSettings {
        &self.settings
    }

    fn driver(&self, store: &Store) -> Driver {
        Driver {
            backend: self.backend.clone(),
            identities: self.identities.clone(),
            store: store.clone(),
            patience: Patience::new(&self.settings),
            queue: Queue::default(),
            meters: Meters::new(&self.settings.engine),
            feed: self.feed.clone(),
            ended: self.ended.clone(),
            paused: watch::Sender::new(false),
            every: watch::Sender::new(self.settings.every),
            discovered: AtomicBool::new(self.introduced.swap(false, Ordering::Relaxed)),
            probing: AtomicBool::new(false),
            withheld: Mutex::default(),
            settings: self.settings.clone(),
        }
    }

    /// Takes the right to write, waiting for it where another driver has it; `None` once someone has discovered all streams, if
    /// that is all it is wanted for.
    async fn hold(&self, store: &Store, to_discover: bool) -> Result<Option<Hold>> {
        let until = Instant::now() + self.settings.hold_wait;
        loop {
            if to_discover && store.kept().await?.discovered {
                return Ok(None);
            }
            match store.hold().await {
                Err(error) if error.kind() == SourceErrorKind::Held && Instant::now() < until => {
                    tokio::time::sleep(HOLD_AGAIN).await;
                }
                held => return held.map(Some),
            }
        }
    }

    /// Waits until the tasks of the live stream before have ended.
    async fn wait_for_last(&self) {
        let last = self.run.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(last) = last {
            last.stop.cancelled().await;
            last.over.cancelled().await;
        }
    }

    /// Begins the tasks of a live stream.
    fn spawn(&self, driver: Arc<Driver>, hold: Hold) -> CancellationToken {
        let (stop, over) = (CancellationToken::new(), CancellationToken::new());
        let (inbox, commands) = mpsc::channel(INBOX);
        *self.inbox.lock().unwrap_or_else(PoisonError::into_inner) = Some(inbox);
        let run = Run { over: over.clone(), stop: stop.clone() };
        *self.run.lock().unwrap_or_else(PoisonError::into_inner) = Some(run);
        let mut tasks = JoinSet::new();
        let (cycles, stopped) = (driver.clone(), stop.clone());
        tasks.spawn(async move { cycles.run(&stopped).await });
        tasks.spawn(driver.clone().serve(commands, stop.clone()));
        tasks.spawn(write_acks(driver.store.clone(), self.feed.clone(), stop.clone()));
        let (feed, stopped) = (self.feed.clone(), stop.clone());
        tokio::spawn(async move {
            while let Some(ended) = tasks.join_next().await {
                if !stopped.is_cancelled() {
                    tracing::error!(?ended, "a task of a polled source ended before its time");
                    feed.break_off();
                    stopped.cancel();
                }
            }
            hold.release().await;
            over.cancel();
        });
        stop
    }
}

/// Writes down what was confirmed; whatever is left when it is stopped, too.
async fn write_acks(store: Store, feed: Arc<Feed>, stop: CancellationToken) {
    loop {
        let is_stopped = tokio::select! {
            biased;
            () = feed.confirmed.notified() => false,
            () = stop.cancelled() => true,
        };
        let lines = feed.take_confirmed();
        if !lines.is_empty() {
            match store.ack(&lines).await {
                Ok(()) => feed.written(),
                Err(error) => {
                    tracing::warn!(%error, "acks could not be written down; trying again");
                    feed.put_back(lines);
                    feed.confirmed.notify_one();
                    if !is_stopped {
                        tokio::time::sleep(ACK_AGAIN).await;
                    }
                }
            }
        }
        if is_stopped {
            return;
        }
    }
}

/// Confirms one line.
struct LineConfirm {
    line: Line,
    feed: Arc<Feed>,
}

impl Confirm for LineConfirm {
    fn confirm(&self, position: Position) {
        self.feed.confirm(self.line, position);
    }
}

/// What the live stream tells from.
struct Telling {
    store: Store,
    feed: Arc<Feed>,
    rows: usize,
    in_flight: usize,
    confirms: BTreeMap<Line, Arc<dyn Confirm>>,
    _stop: DropGuard,
}

impl Telling {
    /// The next batch, once there is one.
    async fn next(&mut self) -> Result<ChangeBatch> {
        loop {
            if self.feed.is_broken() {
                return Err(SourceError::connection("a task of the driver ended before its time"));
            }
            if self.feed.must_look() {
                for (line, last) in self.store.open_lines().await? {
                    self.feed.landed(line, last);
                }
            }
            let Some((line, after)) = self.feed.next(self.in_flight) else {
                self.feed.told.notified().await;
                continue;
            };
            let found = self.store.changes(line, after, self.rows).await?;
            self.feed.tell(line, found.as_ref().map(|found| found.last));
            if let Some(found) = found {
                let ack = Ack::at(found.last, self.confirm(line)).on(line);
                return Ok(ChangeBatch { rows: found.rows, ack });
            }
        }
    }

    fn confirm(&mut self, line: Line) -> Arc<dyn Confirm> {
        let feed = &self.feed;
        self.confirms.entry(line).or_insert_with(|| Arc::new(LineConfirm { line, feed: feed.clone() })).clone()
    }
}

#[async_trait]
impl ChangeCapture for PollingCapture {
    /// Discovers streams, where no pass has ever registered all: their tables must be there before indexes are held against them.
    async fn open(&self, spec: &SourceSpec) -> Result<()> {
        let store = self.shared.store().await?;
        store.set_spec(spec);
        self.shared.wait_for_last().await;
        let Some(hold) = self.shared.hold(store, true).await? else { return Ok(()) };
        let introduced = self.shared.driver(store).introduce().await;
        hold.release().await;
        let all = introduced?;
        self.shared.introduced.store(all, Ordering::Relaxed);
        Ok(())
    }

    async fn identity(&self) -> Result<SourceIdentity> {
        let store = self.shared.store().await?;
        let (head, durable) = store.head_and_durable().await?;
        let system = format!("polling:{}", store.id().await?);
        Ok(SourceIdentity { system, timeline: 1, head, durable: Some(durable), ..SourceIdentity::default() })
    }

    async fn wait_for_turn(&self) -> Result<()> {
        self.shared.wait_for_last().await;
        if let Some(hold) = self.shared.hold(self.shared.store().await?, false).await? {
            hold.release().await;
        }
        Ok(())
    }

    async fn prepare(&self, spec: &SourceSpec, _: PrepareMode, _: Option<&str>) -> Result<Prepared> {
        self.shared.store().await?.set_spec(spec);
        // What is landed is visible before it is told, so a snapshot waits for nothing; and what is not acked is told again,
        // whatever the indexes were filled with.
        Ok(Prepared::at(StartLine::NONE))
    }

    async fn start_line(&self) -> Result<StartLine> {
        Ok(StartLine::NONE)
    }

    async fn ready(&self, _: &StartLine) -> Result<Readiness> {
        Ok(Readiness::Ready)
    }

    async fn live(&self) -> Result<BoxStream<'static, Result<CaptureEvent>>> {
        let shared = &self.shared;
        let store = shared.store().await?;
        shared.settings.check_every(shared.settings.every)?;
        shared.wait_for_last().await;
        let hold = store.hold().await?;
        shared.feed.begin();
        let driver = Arc::new(shared.driver(store));
        if let Err(error) = driver.begin().await {
            hold.release().await;
            return Err(error);
        }
        let stop = shared.spawn(driver, hold);
        let telling = Telling {
            store: store.clone(),
            feed: shared.feed.clone(),
            rows: shared.settings.change_rows.max(1),
            in_flight: shared.settings.batches_in_flight,
            confirms: BTreeMap::new(),
            _stop: stop.drop_guard(),
        };
        let events = stream::unfold(Some(telling), |telling| async move {
            let mut telling = telling?;
            match telling.next().await {
                Ok(batch) => Some((Ok(CaptureEvent::Changes(batch)), Some(telling))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(events.boxed())
    }

    async fn snapshot(
        &self,
        table: &SnapshotTable,
        range: KeyRange,
    ) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
        self.shared.store().await?.keys(table, range.after).await
    }

    /// Seconds since a cycle began of which all is durable.
    async fn lag(&self) -> Result<Option<Lag>> {
        let store = self.shared.store().await?;
        let (head, confirmed) = store.head_and_durable().await?;
        let age = self.shared.feed.clean().map(|clean| self.shared.settings.now().since(clean));
        let mut lag = Lag::default();
        (lag.head, lag.confirmed, lag.age) = (Some(head), Some(confirmed), age);
        Ok(Some(lag))
    }

    async fn estimate(&self, table: &SnapshotTable) -> Result<Option<u64>> {
        Ok(Some(self.shared.store().await?.count(table.table.table()).await?))
    }

    async fn close(&self) {
        self.shared.wait_for_last().await;
    }
}

impl Driver {
    /// Discovers curves and streams once, outside of any cycle's turn; true when all are registered.
    async fn introduce(&self) -> Result<bool> {
        self.store.claim(self.backend.source_system()).await?;
        let report = self.discover_only().await?;
        if self.discovered.load(Ordering::Relaxed) {
            return Ok(true);
        }
        // What is known from earlier is enough to begin with; a source that was never heard of is not.
        if self.store.streams().await?.is_empty() {
            let why = report.errors.first().map_or("it names no stream", String::as_str).to_owned();
            return Err(SourceError::new(
                SourceErrorKind::Connection,
                format!("the source can't be discovered: {why}"),
            ));
        }
        Ok(false)
    }
}
