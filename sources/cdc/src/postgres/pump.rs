//! The task that owns the replication connection: reads the log, tells what changed, and answers the server.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Result, SourceError};
use millstream_model::{ChangedRow, Fence, KeyColumns, Operation, Position, QualifiedTable, RowKey};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::batch::Batcher;
use super::confirm::Mark;
use super::decode::{Ids, Message, Relation};
use super::gaps::Gaps;
use super::tables::{Leaves, Shape, Watched};
use super::watch::{News, Watcher};
use super::wire::{Incoming, LogStream};
use crate::{CaptureEvent, CoverageChange, CoverageNotice, StartLine};

/// Messages that are handled before the clock is looked at again.
const DRAIN: usize = 256;
/// Requests for a reply at one position after which the server must be stopping: it asks 40,000 times a second then, and
/// otherwise twice in `wal_sender_timeout`.
const REPLIES_MAX: u32 = 20;

/// What the pump shares with those that ask about it.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// What the engine confirmed.
    pub(crate) confirmed: Arc<Mark>,
    /// How far the log was received.
    pub(crate) received: Mark,
}

/// Owns the connection, promises that the server hears of us every `status_interval` however long the engine stalls, and that
/// it hears of no position that was not confirmed.
pub(crate) struct Pump<S> {
    pub(crate) stream: S,
    pub(crate) batcher: Batcher,
    pub(crate) marks: Arc<Marks>,
    pub(crate) watcher: Watcher,
    pub(crate) status_interval: Duration,
    pub(crate) tables: Tables,
}

/// What is known of the log's relations, and of the transaction being told.
pub(crate) struct Tables {
    pub(crate) leaves: Leaves,
    /// By number; `None`: none of ours.
    shapes: HashMap<u32, Option<Shape>>,
    fence: Option<Fence>,
    gaps: Gaps,
}

impl<S: LogStream> Pump<S> {
    /// Runs until `stop`, an error, or the receiver is gone; closes the stream behind the last word to the server.
    pub(crate) async fn run(mut self, out: mpsc::Sender<Result<CaptureEvent>>, stop: CancellationToken) {
        let ended = self.stream_until(&out, &stop).await;
        // What was confirmed up to the end is told, so that a clean stop is not followed by a replay.
        if !matches!(&ended, Err(error) if error.kind().is_transient()) {
            let _ = self.stream.report(self.marks.confirmed.get()).await;
        }
        self.stream.close().await;
        if let Err(error) = ended {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                _ = out.send(Err(error)) => {}
            }
        }
    }

    async fn stream_until(&mut self, out: &mpsc::Sender<Result<CaptureEvent>>, stop: &CancellationToken) -> Result<()> {
        let mut report_at = Instant::now();
        let mut replies = Replies::default();
        loop {
            while let Some(table) = self.tables.gaps.owed() {
                let reason = format!("the log told a row while its identity was too narrow (table={table})");
                self.fill_again(table, reason).await?;
            }
            if Instant::now() >= report_at {
                self.stream.report(self.marks.confirmed.get()).await?;
                report_at = Instant::now() + self.status_interval;
            }
            let (room, due) = (self.batcher.has_room(), self.batcher.due());
            tokio::select! {
                biased;
                () = stop.cancelled() => return Ok(()),
                incoming = self.stream.next(), if room => {
                    if self.drain(incoming?, &mut replies).await? {
                        report_at = Instant::now();
                    }
                }
                permit = reserve_when(due, out) => {
                    let Some(permit) = permit else { return Ok(()) };
                    if let Some(event) = self.batcher.take() {
                        permit.send(Ok(event));
                    }
                }
                news = self.watcher.news() => self.hear(news)?,
                () = sleep_until(report_at) => {}
            }
        }
    }

    /// Handles this and what has arrived behind it, without a look at the clock; true when the server wants an answer.
    async fn drain(&mut self, first: Incoming, replies: &mut Replies) -> Result<bool> {
        let mut asked = self.accept(first, replies).await?;
        for _ in 1..DRAIN {
            if asked || !self.batcher.has_room() || !self.stream.is_ready() {
                break;
            }
            let next = self.stream.next().await?;
            asked = self.accept(next, replies).await?;
        }
        Ok(asked)
    }

    /// Handles one thing from the server; true when the server wants an answer at once.
    async fn accept(&mut self, incoming: Incoming, replies: &mut Replies) -> Result<bool> {
        match incoming {
            Incoming::KeepAlive { position, reply } => {
                self.marks.received.raise(position);
                self.batcher.keep_alive(position);
                if reply {
                    replies.count(position)?;
                }
                Ok(reply)
            }
            Incoming::Message { position, payload } => {
                self.marks.received.raise(position);
                self.tell(&payload).await?;
                Ok(false)
            }
        }
    }

    async fn tell(&mut self, payload: &[u8]) -> Result<()> {
        match Message::read(payload)? {
            Message::Begin { commit, xid } => {
                // Behind its beginning is behind all of the commit record, for whoever has replayed so far.
                self.tables.fence = Some(Fence::new(u64::from(xid), Position(commit.0 + 1)));
                self.batcher.begin();
            }
            Message::Commit { end } => {
                self.tables.fence = None;
                self.batcher.commit(end);
            }
            Message::Relation(relation) => self.relation(&relation).await?,
            Message::Insert { relation, new } => {
                self.row(relation, |shape, fence| shape.inserted(&new, fence))?;
            }
            Message::Update { relation, old, new } => {
                let named = self.row(relation, |shape, fence| shape.updated(old.as_ref(), &new, fence))?;
                self.look_for_gap(relation, named).await?;
            }
            Message::Delete { relation, old } => {
                let named = self.row(relation, |shape, fence| shape.deleted(&old, fence))?;
                self.look_for_gap(relation, named).await?;
            }
            Message::Truncate { relations } => self.truncated(&relations).await?,
            Message::Logical { prefix, content } => {
                if let Some(age) = self.watcher.heartbeat_age(prefix, content) {
                    self.batcher.push_event(CaptureEvent::Heartbeat { age });
                }
            }
            Message::Other => {}
        }
        Ok(())
    }

    /// Takes a row; false when the log does not name it.
    fn row(&mut self, relation: u32, read: impl FnOnce(&Shape, Fence) -> Result<Option<ChangedRow>>) -> Result<bool> {
        let shape = self.tables.shapes.get(&relation);
        let Some(shape) =
            shape.ok_or_else(|| SourceError::decode("the log tells a row of a relation not described"))?
        else {
            return Ok(true);
        };
        let row = read(shape, self.tables.fence()?)?;
        let named = row.is_some();
        row.into_iter().for_each(|row| self.batcher.push(row));
        Ok(named)
    }

    /// A changed row whose old values are not told leaves what it touched unknown. If the table's identity is still too narrow,
    /// the watch says so itself, and when it is mended.
    async fn look_for_gap(&mut self, relation: u32, named: bool) -> Result<()> {
        let Some(table) = self.tables.gap(relation, named)? else { return Ok(()) };
        self.watcher.nudge();
        let reason = format!("the log told a row without the old values that are needed (table={table})");
        self.fill_again(table, reason).await
    }

    async fn fill_again(&mut self, table: QualifiedTable, reason: String) -> Result<()> {
        let start_line = self.start_line().await?;
        let notice = CoverageNotice { table, change: CoverageChange::Rewritten { reason, start_line } };
        self.tables.gaps.said(&notice);
        self.batcher.push_event(CaptureEvent::Coverage(notice));
        Ok(())
    }

    /// What a snapshot that begins now must wait for, asked while the server goes on hearing of us.
    async fn start_line(&mut self) -> Result<StartLine> {
        let asked = self.watcher.start_line();
        let (stream, watcher) = (&mut self.stream, &mut self.watcher);
        let (line, early) = while_reporting(stream, &self.marks, self.status_interval, watcher, asked).await?;
        early.into_iter().try_for_each(|news| self.hear(news))?;
        line
    }

    /// Learns a relation's columns. One that is not known may be a new leaf of a table of ours: that is asked.
    async fn relation(&mut self, relation: &Relation<'_>) -> Result<()> {
        let mut watched = self.tables.leaves.get(&relation.id).cloned();
        if watched.is_none() {
            let asked = self.watcher.whose(relation.id, relation.schema, relation.name);
            let (stream, watcher) = (&mut self.stream, &mut self.watcher);
            let answered = while_reporting(stream, &self.marks, self.status_interval, watcher, asked).await?;
            watched = answered.0?;
            answered.1.into_iter().try_for_each(|news| self.hear(news))?;
            if let Some(watched) = &watched {
                self.tables.leaves.insert(relation.id, watched.clone());
            }
        }
        self.watcher.nudge();
        self.tables.shapes.insert(relation.id, watched.map(|watched| Shape::new(watched, relation)));
        Ok(())
    }

    /// Every table, or a part of one, was emptied.
    async fn truncated(&mut self, relations: &Ids<'_>) -> Result<()> {
        let mut tables: Vec<Arc<Watched>> = Vec::new();
        for watched in relations.iter().filter_map(|id| self.tables.leaves.get(&id)) {
            if !tables.iter().any(|known| known.table == watched.table) {
                tables.push(watched.clone());
            }
        }
        for watched in tables {
            let whole = watched.leaves.iter().all(|leaf| relations.iter().any(|id| id == *leaf));
            if watched.is_root && !whole {
                let reason = format!("a part of the table was emptied (table={})", watched.table);
                self.fill_again(watched.table.clone(), reason).await?;
            } else {
                let key = RowKey::new(KeyColumns::from([]), []);
                let fence = self.tables.fence()?;
                self.batcher.push_alone(ChangedRow::new(watched.table.clone(), key, Operation::Truncate, fence));
            }
        }
        Ok(())
    }

    fn hear(&mut self, news: News) -> Result<()> {
        match news {
            News::Coverage(notice) => {
                self.tables.gaps.said(&notice);
                self.batcher.push_event(CaptureEvent::Coverage(notice));
            }
            News::Memo(memo) => self.batcher.push_event(CaptureEvent::Memo(memo)),
            News::Leaves(leaves) => self.tables.take_leaves(leaves),
            News::Stopping(error) => return Err(error),
        }
        Ok(())
    }
}

impl Tables {
    pub(crate) fn new(leaves: Leaves, gaps: Gaps) -> Self {
        Self { leaves, shapes: HashMap::new(), fence: None, gaps }
    }

    /// Rows of what is no leaf any more are none of ours; it is described again should it come back.
    fn take_leaves(&mut self, leaves: Leaves) {
        self.leaves = leaves;
        for (relation, shape) in &mut self.shapes {
            if !self.leaves.contains_key(relation) {
                *shape = None;
            }
        }
    }

    /// The table of a changed row, if that row lacks what must be known of it and that must be said.
    fn gap(&mut self, relation: u32, named: bool) -> Result<Option<QualifiedTable>> {
        let fence = self.fence()?;
        let Some(Some(shape)) = self.shapes.get(&relation) else { return Ok(None) };
        if (named && !shape.is_lacking()) || !shape.misses(named, self.gaps.is_before_base(fence)) {
            return Ok(None);
        }
        let table = &shape.watched.table;
        Ok(self.gaps.must_say(table, fence).then(|| table.clone()))
    }

    fn fence(&self) -> Result<Fence> {
        self.fence.ok_or_else(outside)
    }
}

fn outside() -> SourceError {
    SourceError::decode("the log tells a row outside a transaction")
}

/// A place for an event, once there is one to send; `None` when nobody listens any more.
async fn reserve_when(
    due: Option<Instant>,
    out: &mpsc::Sender<Result<CaptureEvent>>,
) -> Option<mpsc::Permit<'_, Result<CaptureEvent>>> {
    match due {
        Some(at) => {
            if at > Instant::now() {
                sleep_until(at).await;
            }
            out.reserve().await.ok()
        }
        None => {
            out.closed().await;
            None
        }
    }
}

/// Waits for an answer while the server goes on hearing of us, and takes the news that come before it: the watch may have to
/// tell them before it can answer.
async fn while_reporting<S: LogStream, T>(
    stream: &mut S,
    marks: &Marks,
    every: Duration,
    watcher: &mut Watcher,
    answer: impl Future<Output = T>,
) -> Result<(T, Vec<News>)> {
    tokio::pin!(answer);
    let mut early = Vec::new();
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return Ok((answer, early)),
            news = watcher.news() => early.push(news),
            () = tokio::time::sleep(every) => stream.report(marks.confirmed.get()).await?,
        }
    }
}

/// Requests for a reply that came without the log moving on.
#[derive(Default)]
struct Replies {
    at: Position,
    count: u32,
    since: Option<Instant>,
}

impl Replies {
    fn count(&mut self, position: Position) -> Result<()> {
        let fresh = self.since.is_some_and(|since| since.elapsed() < Duration::from_secs(5));
        if position != self.at || !fresh {
            *self = Self { at: position, count: 0, since: Some(Instant::now()) };
        }
        self.count += 1;
        if self.count >= REPLIES_MAX {
            return Err(SourceError::connection("the server is stopping: it waits for all of its log to be confirmed"));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "pump_tests.rs"]
mod tests;
