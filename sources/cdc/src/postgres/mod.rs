//! Postgres, by logical replication.
//!
//! In the order data meets them: `wire` speaks the protocol, `decode` reads the decoder's messages, `tables` turns rows into
//! thin changes, `gaps` knows which rows told too little, `batch` gathers them under acks, `pump` is the task that does all this, `watch` the task beside it that
//! notices when coverage changes. `turn` keeps others away; `prepare` and `start_line` come before, `keys` reads snapshots,
//! `origin` says which source this is.

mod batch;
mod confirm;
mod coverage;
mod decode;
mod gaps;
mod keys;
mod memo;
pub mod micro;
mod origin;
mod prepare;
mod pump;
mod settings;
mod start_line;
mod tables;
mod turn;
mod watch;
mod wire;

pub use settings::PostgresCaptureSettings;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use millstream_core::{Result, SnapshotTable, SourceError, SourceErrorKind, SourceSpec};
use millstream_model::RowKey;
use millstream_postgres::provision::Needs;
use millstream_postgres::{Connections, PostgresProvisioning, PostgresSettings};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::{CaptureEvent, ChangeCapture, KeyRange, Lag, PrepareMode, Readiness, SourceIdentity, StartLine};
use batch::Batcher;
use coverage::Coverage;
use prepare::publication_lost;
use pump::{Marks, Pump, Tables};
use wire::{ReplicationStream, Session};

/// Connections beside the replication session: the watch, a snapshot or question, and statements that mend.
const CONNECTIONS: usize = 3;

/// Tells what changed in a Postgres database.
///
/// Needs `wal_level = logical`, a role that may replicate, a publication and a slot; makes the latter two where it may.
pub struct PostgresCapture {
    settings: PostgresCaptureSettings,
    connections: Connections,
    read: Option<Connections>,
    provisioning: PostgresProvisioning,
    crossed: start_line::Crossed,
    // The locks are held for a moment only, never across an await.
    prepared: Mutex<Option<Coverage>>,
    turn: Mutex<Option<Session>>,
    marks: Mutex<Option<Arc<Marks>>>,
    waiting: Waiting,
    tasks: TaskTracker,
}

/// What is waited for at this moment, for people.
#[derive(Default)]
struct Waiting(Mutex<Option<String>>);

impl Waiting {
    fn set(&self, what: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl PostgresCapture {
    /// Captures the changes of this database (a primary). Connects when first used.
    pub fn new(postgres: PostgresSettings, settings: PostgresCaptureSettings) -> Self {
        let connections = Connections::new(postgres, CONNECTIONS).with_auth_grace(settings.auth_grace);
        let read = settings.read.clone().map(|read| Connections::new(read, CONNECTIONS));
        let provisioning =
            PostgresProvisioning::new(connections.clone(), &settings.publication, &settings.slot, settings.manage);
        Self {
            settings,
            connections,
            read,
            provisioning,
            crossed: start_line::Crossed::default(),
            prepared: Mutex::new(None),
            turn: Mutex::new(None),
            marks: Mutex::new(None),
            waiting: Waiting::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// What brings the database in line with a spec, under the same settings.
    pub fn provisioning(&self) -> &PostgresProvisioning {
        &self.provisioning
    }

    fn read(&self) -> &Connections {
        self.read.as_ref().unwrap_or(&self.connections)
    }

    async fn open(&self, version: u32) -> Result<ReplicationStream> {
        let (slot, publication) = (&self.settings.slot, &self.settings.publication);
        let session = match self.turn_taken() {
            Some(session) => session,
            None => self.session().await?,
        };
        match ReplicationStream::start(session, slot, publication, version).await {
            Err(error) if error.kind() == SourceErrorKind::Held => {
                Err(self.held_by().await.ok().flatten().unwrap_or(error))
            }
            Err(error) => Err(named(error, slot, publication)),
            Ok(stream) => Ok(stream),
        }
    }
}

/// The decoder looks the publication up in the catalog as it was when a change was written.
fn is_about_publication(error: &SourceError) -> bool {
    let text = error.to_string();
    text.contains("sqlstate=42704") && text.contains("publication")
}

/// Says what the server's refusal to start means for us.
fn named(error: SourceError, slot: &str, publication: &str) -> SourceError {
    let text = error.to_string();
    let gone = text.contains("sqlstate=42704") && text.contains("slot");
    let lost = text.contains("sqlstate=55000") || text.contains("has been invalidated");
    if gone || lost {
        return SourceError::gap(format!("the replication slot can't be used (slot={slot}): {text}"))
            .with_remedy("fill the indexes again (on_gap: backfill)");
    }
    error.context(format!("can't start streaming (slot={slot}, publication={publication})"))
}

#[async_trait]
impl ChangeCapture for PostgresCapture {
    async fn identity(&self) -> Result<SourceIdentity> {
        self.connections.forget_idle();
        origin::identity(&self.connections, &self.settings.slot).await.map_err(|error| self.connections.judge(error))
    }

    async fn wait_for_turn(&self) -> Result<()> {
        self.connections.forget_idle();
        let turn = self.take_turn().await;
        self.waiting.set(None);
        turn
    }

    async fn prepare(&self, spec: &SourceSpec, mode: PrepareMode, memo: Option<&str>) -> Result<crate::Prepared> {
        let needs = Needs::of(spec);
        let memo = memo.filter(|_| mode == PrepareMode::Resume).and_then(memo::Memo::read);
        let (connections, provisioning, settings) = (&self.connections, &self.provisioning, &self.settings);
        let covered =
            prepare::prepare(connections, provisioning, settings, &self.waiting, needs, mode, memo.as_ref()).await?;
        let line = start_line::read_start_line(&self.connections).await?;
        let (coverage, turns) = Coverage::resume(covered, memo, line);
        let notices = turns.into_iter().map(|(table, turn)| watch::notice_of_the_past(table, turn, line)).collect();
        let memo = Some(coverage.memo().text());
        *self.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Some(coverage);
        Ok(crate::Prepared { line, notices, memo })
    }

    async fn inspect(&self, mode: PrepareMode, memo: Option<&str>) -> Result<()> {
        let memo = memo.filter(|_| mode == PrepareMode::Resume).and_then(memo::Memo::read);
        let publication = memo.as_ref().and_then(memo::Memo::publication);
        prepare::inspect(&self.connections, &self.settings, mode, publication).await
    }

    fn waits_for(&self) -> Option<String> {
        self.waiting.get()
    }

    async fn start_line(&self) -> Result<StartLine> {
        start_line::read_start_line(&self.connections).await
    }

    async fn ready(&self, line: &StartLine) -> Result<Readiness> {
        start_line::readiness(&self.connections, self.read.as_ref(), &self.crossed, line).await
    }

    async fn live(&self) -> Result<BoxStream<'static, Result<CaptureEvent>>> {
        let prepared = self.prepared.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let coverage = prepared.ok_or_else(|| SourceError::setup("live was asked for before prepare"))?;
        let stream = self.open(coverage.facts().server.version).await?;
        let marks = Arc::new(Marks::default());
        *self.marks.lock().unwrap_or_else(PoisonError::into_inner) = Some(marks.clone());
        let stop = CancellationToken::new();
        let tables = Tables::new(tables::leaves(&coverage), coverage.gaps());
        let parts = watch::WatchParts {
            connections: self.connections.clone(),
            provisioning: self.provisioning.clone(),
            coverage,
            heartbeat: self.settings.heartbeat,
            inspect_interval: self.settings.inspect_interval,
        };
        let (watcher, watch) = watch::watch(parts);
        self.tasks.spawn(stop.clone().run_until_cancelled_owned(watch));
        let batcher = Batcher::new(marks.confirmed.clone(), self.settings.batch_rows, self.settings.batch_bytes);
        let status_interval = self.settings.status_interval;
        let pump = Pump { stream, batcher, marks, watcher, status_interval, tables };
        let (out, events) = mpsc::channel(self.settings.batches.max(1));
        self.tasks.spawn(pump.run(out, stop.clone()));
        // Dropping the stream drops the guard: both tasks end, and the slot is free.
        let guard = stop.drop_guard();
        let (events, publication) = (ReceiverStream::new(events), self.settings.publication.clone());
        Ok(events
            .map(move |event| {
                let _held = &guard;
                event.map_err(|error| if is_about_publication(&error) { publication_lost(&publication) } else { error })
            })
            .boxed())
    }

    async fn snapshot(
        &self,
        table: &SnapshotTable,
        range: KeyRange,
    ) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
        keys::stream_keys(self.read().clone(), table, range, self.settings.snapshot_page).await
    }

    async fn lag(&self) -> Result<Option<Lag>> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        origin::lag(&self.connections, &self.settings.slot, marks.as_deref()).await.map(Some)
    }

    async fn estimate(&self, table: &SnapshotTable) -> Result<Option<u64>> {
        keys::estimate(self.read(), table).await
    }

    async fn close(&self) {
        self.leave_turn();
        self.tasks.close();
        self.tasks.wait().await;
        self.tasks.reopen();
    }
}
