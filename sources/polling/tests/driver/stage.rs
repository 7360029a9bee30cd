//! A scripted source, a store in a folder, and a consumer in place of the engine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::StreamExt;
use millstream_cdc::{Ack, CaptureEvent, ChangeCapture, Line};
use millstream_core::SourceSpec;
use millstream_model::{ChangedRow, Operation, Position};
use millstream_polling::model::{Reading, StreamFetch, StreamFetchRequest, Timestamp};
use millstream_polling::scripted::{Asked, ScriptedSource, SourceScript};
use millstream_polling::{
    Command, CommandOutcome, CycleReport, PollingCapture, PollingHandle, PollingSettings, StoreSettings,
};
use serde_json::{Value as Json, json};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub const DEADLINE: Duration = Duration::from_secs(30);

/// What time it is in every test.
pub fn now() -> Timestamp {
    Timestamp::parse("2026-06-01T12:00:00Z").unwrap()
}

/// So many seconds before now.
pub fn ago(seconds: u64) -> Timestamp {
    now().minus(Duration::from_secs(seconds))
}

pub fn settings() -> PollingSettings {
    PollingSettings::default().with_floor(Duration::ZERO).with_every(Duration::from_secs(3600)).with_clock(now).with(
        |settings| {
            settings.retry_first = Duration::from_millis(1);
            settings.retry_longest = Duration::from_millis(2);
            settings.attempts = 3;
            settings.hold_wait = Duration::ZERO;
        },
    )
}

/// Waits until something is so.
pub async fn until<T>(what: &str, mut test: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(DEADLINE, async {
        loop {
            if let Some(found) = test().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what}: not within {DEADLINE:?}"))
}

pub struct Stage {
    pub script: SourceScript,
    pub capture: Arc<PollingCapture>,
    pub handle: PollingHandle,
    pub live: Live,
    pub spec: SourceSpec,
    commands: u64,
    // Last: the folder outlives what uses it.
    folder: Arc<TempDir>,
    settings: PollingSettings,
}

impl Stage {
    /// A source as `script` writes it, and a driver that has run its first cycle over it.
    pub async fn new(script: impl FnOnce(&SourceScript)) -> Self {
        Self::with(settings(), Policy::Confirm, SourceSpec::default(), script).await
    }

    pub async fn with(
        settings: PollingSettings,
        policy: Policy,
        spec: SourceSpec,
        script: impl FnOnce(&SourceScript),
    ) -> Self {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let (source, hand) = ScriptedSource::new();
        script(&hand);
        Self::on(folder, source, hand, settings, policy, spec).await
    }

    async fn on(
        folder: Arc<TempDir>,
        source: ScriptedSource,
        script: SourceScript,
        settings: PollingSettings,
        policy: Policy,
        spec: SourceSpec,
    ) -> Self {
        let store = StoreSettings::sqlite(folder.path().join("store.db"));
        let capture = Arc::new(PollingCapture::new(source, store, settings.clone()));
        capture.prepare(&spec, millstream_cdc::PrepareMode::Create, None).await.unwrap();
        let live = Live::begin(&capture, policy).await;
        let handle = capture.handle();
        let mut stage = Self { script, capture, handle, live, spec, commands: 0, folder, settings };
        stage.cycle().await;
        stage
    }

    /// Ends the process, as far as a test can: everything in memory is gone, the store is opened anew.
    pub async fn restart(self, source: ScriptedSource, script: SourceScript, policy: Policy) -> Self {
        let Self { capture, live, spec, folder, settings, .. } = self;
        live.end();
        capture.close().await;
        drop(capture);
        Self::on(folder, source, script, settings, policy, spec).await
    }

    /// What a process that is killed now would leave, taken up by another: the store's files, copied as they are.
    pub async fn killed_now(&self, source: ScriptedSource, script: SourceScript, policy: Policy) -> Self {
        let image = Arc::new(tempfile::tempdir().unwrap());
        for file in ["store.db", "store.db-wal"] {
            let from = self.folder.path().join(file);
            if from.exists() {
                std::fs::copy(from, image.path().join(file)).unwrap();
            }
        }
        Self::on(image, source, script, self.settings.clone(), policy, self.spec.clone()).await
    }

    pub async fn command(&mut self, name: &str, payload: Json) -> CommandOutcome {
        self.commands += 1;
        // Ids must differ over restarts, too.
        let id = format!("{name} {} {}", self.commands, fastrand::u64(..));
        let command = Command::new(id, name).with_payload(payload);
        tokio::time::timeout(DEADLINE, self.handle.command(command)).await.expect("the command ends").unwrap()
    }

    /// Runs one cycle; its report.
    pub async fn cycle(&mut self) -> CycleReport {
        self.cycle_of("trigger", Json::Null).await.1
    }

    /// Runs one cycle of a kind; its state and report.
    pub async fn cycle_of(&mut self, kind: &str, payload: Json) -> (String, CycleReport) {
        let outcome = self.command(kind, payload).await;
        let number = outcome.result["report"].as_i64().unwrap_or_else(|| panic!("a report: {outcome:?}"));
        let kept = self.handle.reports(100).await.unwrap().into_iter().find(|kept| kept.number == number).unwrap();
        (kept.state.as_str().to_owned(), serde_json::from_value(kept.body).unwrap())
    }

    /// Runs one cycle and waits until all of it is acked.
    pub async fn acked_cycle(&mut self) -> CycleReport {
        let report = self.cycle().await;
        self.acked().await;
        report
    }

    /// Waits until all that is landed is acked.
    pub async fn acked(&self) {
        until("all is acked", async || {
            let identity = self.capture.identity().await.unwrap();
            (Some(identity.head) == identity.durable).then_some(())
        })
        .await;
    }

    /// The newest acked instant of a stream.
    pub async fn since(&self, stream: &str) -> Option<Timestamp> {
        let streams = self.handle.streams().await.unwrap();
        streams.into_iter().find(|found| found.key.as_str() == stream).unwrap().since
    }

    /// What the store holds, by plain SQL: one text a row.
    pub async fn rows(&self, sql: &'static str) -> Vec<String> {
        let rows: Vec<(String,)> = sqlx::query_as(sql).fetch_all(&self.sqlite().await).await.unwrap();
        rows.into_iter().map(|(row,)| row).collect()
    }

    /// Changes the store behind the driver's back.
    pub async fn sql(&self, sql: &'static str) {
        sqlx::raw_sql(sql).execute(&self.sqlite().await).await.unwrap();
    }

    /// A transaction that somebody has open.
    pub async fn open_transaction(&self) -> sqlx::Transaction<'static, sqlx::Sqlite> {
        self.sqlite().await.begin_with("begin immediate").await.unwrap()
    }

    async fn sqlite(&self) -> SqlitePool {
        let path: PathBuf = self.folder.path().join("store.db");
        SqlitePool::connect_with(SqliteConnectOptions::new().filename(path)).await.unwrap()
    }

    /// The requests of every fetch so far.
    pub fn fetches(&self) -> Vec<Vec<StreamFetchRequest>> {
        let of = |asked| match asked {
            Asked::Readings(requests) => Some(requests),
            _ => None,
        };
        self.script.asked().into_iter().filter_map(of).collect()
    }
}

/// Answers always with these readings.
pub fn readings(stream: &'static str, readings: Vec<Reading>) -> impl Fn(&StreamFetchRequest) -> StreamFetch {
    move |_| StreamFetch::readings(stream, readings.clone())
}

pub fn fields(json: Json) -> serde_json::Map<String, Json> {
    match json {
        Json::Object(fields) => fields,
        other => panic!("an object: {other}"),
    }
}

/// What is told is acked…
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Policy {
    /// at once;
    Confirm,
    /// when the test says so.
    Hold,
}

/// A change as a test looks at it.
#[derive(Clone, Debug)]
pub struct Told {
    pub line: Line,
    pub row: ChangedRow,
}

impl Told {
    /// `+table/key` or `-table/key`.
    pub fn text(&self) -> String {
        let sign = if self.row.operation == Operation::Delete { '-' } else { '+' };
        format!("{sign}{}/{}", self.row.table.table(), self.row.key.to_id())
    }
}

/// Takes what is told, in place of the engine.
pub struct Live {
    told: watch::Receiver<Vec<Told>>,
    last: watch::Receiver<Option<Position>>,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    policy: Mutex<Policy>,
    held: Mutex<BTreeMap<Line, Vec<Ack>>>,
}

impl Live {
    async fn begin(capture: &PollingCapture, policy: Policy) -> Self {
        let mut events = until("the store is free", async || capture.live().await.ok()).await;
        let (tx, told) = watch::channel(Vec::new());
        let (last_tx, last) = watch::channel(None);
        let shared = Arc::new(Shared { policy: Mutex::new(policy), held: Mutex::default() });
        let taker = shared.clone();
        let task = tokio::spawn(async move {
            while let Some(Ok(CaptureEvent::Changes(batch))) = events.next().await {
                let (line, position) = (batch.ack.line(), batch.ack.position());
                match *taker.policy.lock().unwrap() {
                    Policy::Confirm => batch.ack.confirm(),
                    Policy::Hold => taker.held.lock().unwrap().entry(line).or_default().push(batch.ack),
                }
                tx.send_modify(|told| told.extend(batch.rows.into_iter().map(|row| Told { line, row })));
                last_tx.send_modify(|last| *last = (*last).max(position));
            }
        });
        Self { told, last, shared, task }
    }

    /// The highest position that was told.
    pub fn last(&self) -> Option<Position> {
        *self.last.borrow()
    }

    pub fn told(&self) -> Vec<Told> {
        self.told.borrow().clone()
    }

    /// Changes of one table so far, as texts.
    pub fn texts(&self, table: &str) -> Vec<String> {
        self.told().iter().filter(|told| told.row.table.table() == table).map(Told::text).collect()
    }

    /// Waits until so many changes of a table were told; exactly so many are expected.
    pub async fn told_of(&self, table: &str, count: usize) -> Vec<String> {
        let mut told = self.told.clone();
        let of = |told: &Vec<Told>| told.iter().filter(|told| told.row.table.table() == table).count();
        let waited = tokio::time::timeout(DEADLINE, told.wait_for(|told| of(told) >= count)).await;
        drop(waited.unwrap_or_else(|_| panic!("{count} changes of {table}, got {:?}", self.texts(table))).unwrap());
        self.texts(table)
    }

    /// Confirms what is held, of one line or of all, the newest of each.
    pub fn confirm(&self, line: Option<Line>) {
        let mut held = self.shared.held.lock().unwrap();
        let lines: Vec<Line> = held.keys().copied().filter(|held| line.is_none_or(|line| line == *held)).collect();
        for line in lines {
            if let Some(ack) = held.remove(&line).and_then(|mut acks| acks.pop()) {
                ack.confirm();
            }
        }
    }

    pub fn set_policy(&self, policy: Policy) {
        *self.shared.policy.lock().unwrap() = policy;
    }

    /// Drops the live stream.
    pub fn end(self) {
        self.task.abort();
    }
}

/// An empty payload.
pub fn nothing() -> Json {
    json!(null)
}
