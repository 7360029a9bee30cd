//! The task beside the stream: inspects coverage, writes heartbeats, and notices a server that stops.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use futures::future::BoxFuture;
use millstream_core::{Result, SourceError};
use millstream_model::QualifiedTable;
use millstream_postgres::sqlx::{self, AssertSqlSafe};
use millstream_postgres::{Connections, PostgresProvisioning, classify, quote};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::coverage::{Coverage, Turn};
use super::start_line::read_start_line;
use super::tables::{Leaves, Watched, leaves};
use crate::{CoverageChange, CoverageNotice, StartLine};

/// The prefix of our own messages in the log.
const PREFIX: &str = "millstream";
/// How often the server is asked whether it is still there: a server that stops waits for us, and a stalled stream does not see it.
const PULSE: Duration = Duration::from_secs(1);
/// How long it may take to answer.
const PULSE_WAIT: Duration = Duration::from_secs(30);
/// The first major whose decoder tells logical messages.
const MESSAGES_SINCE: u32 = 140_000;

/// What the watch tells the pump.
pub(crate) enum News {
    Coverage(CoverageNotice),
    Memo(String),
    Leaves(Leaves),
    Stopping(SourceError),
}

enum Ask {
    Whose { oid: u32, schema: String, name: String, answer: oneshot::Sender<Result<Option<Arc<Watched>>>> },
    StartLine { answer: oneshot::Sender<Result<StartLine>> },
}

/// The pump's side of the watch.
pub(crate) struct Watcher {
    news: mpsc::Receiver<News>,
    asks: mpsc::Sender<Ask>,
    nudge: Arc<Notify>,
    beat: Arc<Mutex<Beat>>,
}

/// The last heartbeat that was written.
struct Beat {
    run: String,
    number: u64,
    written: Option<Instant>,
}

impl Watcher {
    /// A watch that says and answers nothing.
    #[cfg(test)]
    pub(crate) fn deaf() -> Self {
        let beat = Beat { run: String::new(), number: 0, written: None };
        let (news, asks) = (mpsc::channel(1).1, mpsc::channel(1).0);
        Self { news, asks, nudge: Arc::new(Notify::new()), beat: Arc::new(Mutex::new(beat)) }
    }

    /// What the watch has to say next; waits for ever once it ended. Dropping the future loses nothing.
    pub(crate) async fn news(&mut self) -> News {
        match self.news.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }

    /// Asks for an inspection soon.
    pub(crate) fn nudge(&self) {
        self.nudge.notify_one();
    }

    /// Which table of ours a relation holds rows of.
    pub(crate) fn whose(
        &self,
        oid: u32,
        schema: &str,
        name: &str,
    ) -> impl Future<Output = Result<Option<Arc<Watched>>>> + use<> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::Whose { oid, schema: schema.to_owned(), name: name.to_owned(), answer }, answered)
    }

    /// What a snapshot that begins now must wait for.
    pub(crate) fn start_line(&self) -> impl Future<Output = Result<StartLine>> + use<> {
        let (answer, answered) = oneshot::channel();
        self.ask(Ask::StartLine { answer }, answered)
    }

    fn ask<T>(&self, ask: Ask, answered: oneshot::Receiver<Result<T>>) -> impl Future<Output = Result<T>> + use<T> {
        let asks = self.asks.clone();
        async move {
            let ended = || SourceError::connection("the watch over the database ended");
            asks.send(ask).await.map_err(|_| ended())?;
            answered.await.map_err(|_| ended())?
        }
    }

    /// How long our last heartbeat took through the log, if this message is it.
    pub(crate) fn heartbeat_age(&self, prefix: &[u8], content: &[u8]) -> Option<Duration> {
        if prefix != PREFIX.as_bytes() {
            return None;
        }
        let beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let written = beat.written?;
        (content == beat.content().as_bytes()).then(|| written.elapsed())
    }
}

impl Beat {
    fn content(&self) -> String {
        format!("{}:{}", self.run, self.number)
    }
}

/// What the watch needs.
pub(crate) struct WatchParts {
    pub(crate) connections: Connections,
    pub(crate) provisioning: PostgresProvisioning,
    pub(crate) coverage: Coverage,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) inspect_interval: Duration,
}

/// The watch, and its task: to be spawned, and dropped to end it.
pub(crate) fn watch(parts: WatchParts) -> (Watcher, impl Future<Output = ()> + Send + 'static) {
    let (news_tx, news) = mpsc::channel(16);
    let (asks, asks_rx) = mpsc::channel(1);
    let nudge = Arc::new(Notify::new());
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = format!("{}-{}", std::process::id(), since.as_nanos());
    let beat = Arc::new(Mutex::new(Beat { run, number: 0, written: None }));
    let version = parts.coverage.facts().server.version;
    let heartbeat = parts.heartbeat.filter(|_| version >= MESSAGES_SINCE);
    let watch = Watch {
        connections: parts.connections,
        provisioning: parts.provisioning,
        coverage: parts.coverage,
        news: news_tx,
        nudge: nudge.clone(),
        beat: beat.clone(),
        mending: None,
    };
    (Watcher { news, asks, nudge, beat }, watch.run(asks_rx, heartbeat, parts.inspect_interval))
}

struct Watch {
    connections: Connections,
    provisioning: PostgresProvisioning,
    coverage: Coverage,
    news: mpsc::Sender<News>,
    nudge: Arc<Notify>,
    beat: Arc<Mutex<Beat>>,
    /// Statements of ours that are running, so that what someone broke is whole again.
    mending: Option<BoxFuture<'static, Result<()>>>,
}

impl Watch {
    async fn run(mut self, mut asks: mpsc::Receiver<Ask>, heartbeat: Option<Duration>, inspect_every: Duration) {
        let mut pulse = interval(PULSE);
        pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut beats = interval(heartbeat.unwrap_or(Duration::MAX / 4));
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let nudge = self.nudge.clone();
        let mut inspect_at = Instant::now() + inspect_every;
        loop {
            let done = tokio::select! {
                biased;
                ask = asks.recv() => match ask {
                    Some(ask) => self.answer(ask).await,
                    None => return,
                },
                ended = mended(&mut self.mending) => {
                    self.mending = None;
                    if let Err(error) = ended {
                        tracing::warn!(%error, "coverage could not be mended");
                    }
                    self.inspect().await
                }
                () = nudge.notified() => self.inspect().await,
                () = sleep_until(inspect_at) => {
                    inspect_at = Instant::now() + inspect_every;
                    self.inspect().await
                }
                _ = beats.tick(), if heartbeat.is_some() => self.write_heartbeat().await,
                _ = pulse.tick() => {
                    if let Err(error) = self.feel_pulse().await {
                        let _ = self.news.send(News::Stopping(error)).await;
                        return;
                    }
                    Ok(())
                }
            };
            // A lost server is found by the pulse; what it refuses is asked again.
            if let Err(error) = done {
                tracing::warn!(%error, "the watch over the database met an error");
            }
        }
    }

    /// Tries twice: one connection may have been ended by hand. The second failure is the server's.
    async fn feel_pulse(&mut self) -> Result<()> {
        for attempt in 0..2 {
            let felt = async {
                let mut lease = self.connections.get().await?;
                sqlx::query("select 1")
                    .execute(&mut *lease)
                    .await
                    .map_err(|error| classify("the server does not answer", error))?;
                lease.keep();
                Ok(())
            };
            let felt = tokio::time::timeout(PULSE_WAIT, felt).await;
            match felt.unwrap_or_else(|_| Err(SourceError::connection("the server does not answer"))) {
                Ok(()) => return Ok(()),
                Err(error) if attempt == 1 => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    async fn write_heartbeat(&mut self) -> Result<()> {
        let content = {
            let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
            beat.number += 1;
            beat.written = Some(Instant::now());
            beat.content()
        };
        let mut lease = self.connections.get().await?;
        let written = sqlx::query("select pg_logical_emit_message(false, $1, $2)")
            .bind(PREFIX)
            .bind(content)
            .execute(&mut *lease)
            .await;
        match written {
            Ok(_) => lease.keep(),
            // Lag in seconds is not worth an end; a lost server is found by the pulse.
            Err(error) => tracing::debug!(%error, "the heartbeat could not be written"),
        }
        Ok(())
    }

    async fn answer(&mut self, ask: Ask) -> Result<()> {
        match ask {
            Ask::Whose { oid, schema, name, answer } => {
                let found = self.whose(oid, &schema, &name).await;
                let _ = answer.send(found);
            }
            Ask::StartLine { answer } => {
                let line = read_start_line(&self.connections).await;
                let _ = answer.send(line);
            }
        }
        Ok(())
    }

    /// A cheap question first: most relations that we don't know are none of ours.
    async fn whose(&mut self, oid: u32, schema: &str, name: &str) -> Result<Option<Arc<Watched>>> {
        let named = self.coverage.needs().table(&QualifiedTable::new(schema, name)).is_some();
        if !named && !self.is_below_ours(oid).await? {
            return Ok(None);
        }
        self.inspect().await?;
        Ok(leaves(&self.coverage).get(&oid).cloned())
    }

    async fn is_below_ours(&mut self, oid: u32) -> Result<bool> {
        let needs = self.coverage.needs();
        let roots: Vec<i64> = needs
            .tables()
            .filter_map(|need| self.coverage.facts().root(&need.table))
            .filter(|root| !root.holds_rows())
            .map(|root| i64::from(root.oid))
            .collect();
        if roots.is_empty() {
            return Ok(false);
        }
        let mut lease = self.connections.get().await?;
        let below = sqlx::query_scalar(
            "select exists (select from pg_partition_ancestors($1::int8::oid::regclass) a where a.relid::oid::int8 = any($2))",
        )
        .bind(i64::from(oid))
        .bind(roots)
        .fetch_one(&mut *lease)
        .await
        .map_err(|error| classify("can't ask for a partition's root", error))?;
        lease.keep();
        Ok(below)
    }

    async fn inspect(&mut self) -> Result<()> {
        let now = self.provisioning.facts(self.coverage.needs()).await?;
        let found = self.provisioning.findings(&now, self.coverage.meet(&now));
        let relations = |facts: &millstream_postgres::provision::Facts| -> Vec<u32> {
            facts.relations.iter().map(|relation| relation.oid).collect()
        };
        let before = relations(self.coverage.facts());
        let memo = self.coverage.memo().clone();
        let turns = self.coverage.look(now, &found);
        if relations(self.coverage.facts()) != before {
            let leaves = leaves(&self.coverage);
            let _ = self.news.send(News::Leaves(leaves)).await;
        }
        for (table, turn) in turns {
            if let Err(error) = self.tell(table, turn).await {
                // What is not told now is found by the next run, from what was remembered before.
                let _ = self.news.send(News::Stopping(error)).await;
                return Ok(());
            }
        }
        if *self.coverage.memo() != memo {
            let _ = self.news.send(News::Memo(self.coverage.memo().text())).await;
        }
        let manageable = found.iter().filter(|finding| !finding.advice).flat_map(|finding| &finding.remedies);
        if self.mending.is_none() && manageable.clone().any(|remedy| remedy.manageable) {
            let (provisioning, needs) = (self.provisioning.clone(), self.coverage.needs().clone());
            self.mending = Some(async move { provisioning.ensure(&needs).await.map(|_| ()) }.boxed());
        }
        Ok(())
    }

    async fn tell(&mut self, table: QualifiedTable, turn: Turn) -> Result<()> {
        let changes = match turn {
            Turn::Broken { reason, remedy } => vec![CoverageChange::Broken { reason, remedy }],
            Turn::Mended => vec![CoverageChange::Mended { start_line: read_start_line(&self.connections).await? }],
            Turn::Blinked { reason } => {
                let start_line = read_start_line(&self.connections).await?;
                let remedy = "nothing: it is whole again".to_owned();
                vec![CoverageChange::Broken { reason, remedy }, CoverageChange::Mended { start_line }]
            }
            Turn::Rewritten { reason } => {
                let start_line = read_start_line(&self.connections).await?;
                vec![CoverageChange::Rewritten { reason, start_line }]
            }
            Turn::Attached { leaf } => {
                let start_line = read_start_line(&self.connections).await?;
                if !self.has_rows(&leaf).await? {
                    return Ok(());
                }
                let reason = format!("a partition came with rows in it (partition={leaf})");
                vec![CoverageChange::Rewritten { reason, start_line }]
            }
        };
        for change in changes {
            tracing::warn!(%table, ?change, "what the log tells of a table changed");
            let _ = self.news.send(News::Coverage(CoverageNotice { table: table.clone(), change })).await;
        }
        Ok(())
    }

    async fn has_rows(&mut self, table: &QualifiedTable) -> Result<bool> {
        let mut lease = self.connections.get().await?;
        let query = format!("select exists (select from {})", quote::table(table));
        let found = sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut *lease).await;
        match found {
            Ok(found) => {
                lease.keep();
                Ok(found)
            }
            // A leaf that we may not read directly may hold rows.
            Err(_) => Ok(true),
        }
    }
}

/// What happened to a table while nobody watched, as its indexes are told.
pub(crate) fn notice_of_the_past(table: QualifiedTable, turn: Turn, start_line: StartLine) -> CoverageNotice {
    let change = match turn {
        Turn::Broken { reason, remedy } => CoverageChange::Broken { reason, remedy },
        Turn::Mended => CoverageChange::Mended { start_line },
        Turn::Blinked { reason } | Turn::Rewritten { reason } => CoverageChange::Rewritten { reason, start_line },
        Turn::Attached { leaf } => {
            CoverageChange::Rewritten { reason: format!("a partition was attached (partition={leaf})"), start_line }
        }
    };
    CoverageNotice { table, change }
}

async fn mended(mending: &mut Option<BoxFuture<'static, Result<()>>>) -> Result<()> {
    match mending {
        Some(mending) => mending.await,
        None => std::future::pending().await,
    }
}
