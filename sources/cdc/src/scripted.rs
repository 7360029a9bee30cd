//! A capture whose events a test writes: for unit tests, simulations and integrators.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use millstream_core::{Result, SnapshotTable, SourceError, SourceSpec};
use millstream_model::{ChangedRow, Position, QualifiedTable, RowKey};
use tokio::sync::watch;

use crate::{
    Ack, CaptureEvent, ChangeBatch, ChangeCapture, Confirm, CoverageNotice, KeyRange, Lag, PrepareMode, Prepared,
    Readiness, SourceIdentity, StartLine,
};

/// A log that a test writes and a capture reads. Deterministic: nothing happens but what the [`Script`] says.
///
/// Like a real one it starts again, at each [`live`](ChangeCapture::live), behind the last transaction that was confirmed, and
/// is held by one stream at a time.
#[derive(Clone)]
pub struct ScriptedCapture {
    shared: Arc<Shared>,
}

/// The test's end of a [`ScriptedCapture`].
#[derive(Clone)]
pub struct Script {
    shared: Arc<Shared>,
}

struct Shared {
    // Held for a moment only, never across an await.
    state: Mutex<State>,
    /// Counts up whenever there may be something new for a stream.
    wake: watch::Sender<u64>,
    confirmed: watch::Sender<Position>,
}

#[derive(Default)]
struct State {
    log: Vec<Entry>,
    keys: BTreeMap<QualifiedTable, Vec<RowKey>>,
    failures: VecDeque<SourceError>,
    refuse_live: VecDeque<SourceError>,
    refuse_prepare: VecDeque<SourceError>,
    waiting: Vec<String>,
    identity: SourceIdentity,
    held: bool,
    prepared: Vec<PrepareMode>,
}

#[derive(Clone)]
enum Entry {
    Rows { rows: Vec<ChangedRow>, end: Option<Position> },
    Coverage(CoverageNotice),
    Heartbeat(std::time::Duration),
}

impl ScriptedCapture {
    /// An empty log, and the hand that writes it.
    pub fn new() -> (Self, Script) {
        let identity =
            SourceIdentity { system: "scripted".into(), timeline: 1, durable: Some(Position(0)), ..Default::default() };
        let shared = Arc::new(Shared {
            state: Mutex::new(State { identity, ..State::default() }),
            wake: watch::Sender::new(0),
            confirmed: watch::Sender::new(Position(0)),
        });
        (Self { shared: shared.clone() }, Script { shared })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.wake.send_modify(|count| *count += 1);
    }
}

impl Confirm for Shared {
    fn confirm(&self, position: Position) {
        self.confirmed.send_if_modified(|confirmed| {
            let further = position > *confirmed;
            *confirmed = (*confirmed).max(position);
            further
        });
    }
}

impl Script {
    /// Writes a whole transaction that ends at `end`: one batch.
    pub fn commit(&self, rows: Vec<ChangedRow>, end: Position) {
        self.shared.write(|state| state.log.push(Entry::Rows { rows, end: Some(end) }));
    }

    /// Writes a batch in the middle of a transaction: confirming it moves nothing.
    pub fn within(&self, rows: Vec<ChangedRow>) {
        self.shared.write(|state| state.log.push(Entry::Rows { rows, end: None }));
    }

    /// Says that the log moved on to `position` with nothing for us.
    pub fn keep_alive(&self, position: Position) {
        self.commit(Vec::new(), position);
    }

    /// Says that what is told of a table changed.
    pub fn coverage(&self, notice: CoverageNotice) {
        self.shared.write(|state| state.log.push(Entry::Coverage(notice)));
    }

    /// Lets a heartbeat come back.
    pub fn heartbeat(&self, age: std::time::Duration) {
        self.shared.write(|state| state.log.push(Entry::Heartbeat(age)));
    }

    /// Ends the live stream with this error, once it has told all that was written.
    pub fn fail(&self, error: SourceError) {
        self.shared.write(|state| state.failures.push_back(error));
    }

    /// Refuses the next `live`.
    pub fn refuse_live(&self, error: SourceError) {
        self.shared.write(|state| state.refuse_live.push_back(error));
    }

    /// Refuses the next `prepare`.
    pub fn refuse_prepare(&self, error: SourceError) {
        self.shared.write(|state| state.refuse_prepare.push_back(error));
    }

    /// What a snapshot waits for; none: it may start.
    pub fn waiting_for(&self, whom: Vec<String>) {
        self.shared.write(|state| state.waiting = whom);
    }

    /// The keys that a snapshot of a table gives, in order.
    pub fn keys(&self, table: QualifiedTable, keys: Vec<RowKey>) {
        self.shared.write(|state| {
            state.keys.insert(table, keys);
        });
    }

    /// Changes which source this is. Its durable point and head follow the script by themselves.
    pub fn identity(&self, change: impl FnOnce(&mut SourceIdentity)) {
        self.shared.write(|state| change(&mut state.identity));
    }

    /// The highest position that was confirmed.
    pub fn confirmed(&self) -> Position {
        *self.shared.confirmed.borrow()
    }

    /// Waits until a position has been confirmed. Dropping the future is safe.
    pub async fn confirmed_at_least(&self, position: Position) {
        let mut confirmed = self.shared.confirmed.subscribe();
        // The sender lives in `self`: the wait can't fail.
        let _ = confirmed.wait_for(|confirmed| *confirmed >= position).await;
    }

    /// Every `prepare` so far, in order.
    pub fn prepared(&self) -> Vec<PrepareMode> {
        self.shared.state().prepared.clone()
    }

    /// True while a live stream is there.
    pub fn is_live(&self) -> bool {
        self.shared.state().held
    }
}

/// A stream's hold on the log; lets go when it is dropped.
struct Hold {
    shared: Arc<Shared>,
    at: usize,
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.shared.write(|state| state.held = false);
    }
}

impl Hold {
    /// The next thing to tell; `None`: nothing yet.
    fn next(&mut self) -> Option<Result<CaptureEvent>> {
        let mut state = self.shared.state();
        let Some(entry) = state.log.get(self.at).cloned() else { return state.failures.pop_front().map(Err) };
        drop(state);
        self.at += 1;
        Some(Ok(match entry {
            Entry::Rows { rows, end } => {
                let confirm: Arc<dyn Confirm> = self.shared.clone();
                let ack = end.map_or_else(|| Ack::within(confirm.clone()), |end| Ack::at(end, confirm.clone()));
                CaptureEvent::Changes(ChangeBatch { rows, ack })
            }
            Entry::Coverage(notice) => CaptureEvent::Coverage(notice),
            Entry::Heartbeat(age) => CaptureEvent::Heartbeat { age },
        }))
    }
}

/// The first entry behind the last transaction that ends at or before `confirmed`.
fn resume_at(log: &[Entry], confirmed: Position) -> usize {
    let is_confirmed = |entry: &Entry| matches!(entry, Entry::Rows { end: Some(end), .. } if *end <= confirmed);
    log.iter().rposition(is_confirmed).map_or(0, |at| at + 1)
}

#[async_trait]
impl ChangeCapture for ScriptedCapture {
    async fn identity(&self) -> Result<SourceIdentity> {
        let state = self.shared.state();
        let head = state.log.iter().filter_map(|entry| match entry {
            Entry::Rows { end, .. } => *end,
            _ => None,
        });
        let durable = state.identity.durable.map(|_| *self.shared.confirmed.borrow());
        Ok(SourceIdentity { head: head.max().unwrap_or_default(), durable, ..state.identity.clone() })
    }

    async fn prepare(&self, _: &SourceSpec, mode: PrepareMode, _: Option<&str>) -> Result<Prepared> {
        let mut state = self.shared.state();
        state.prepared.push(mode);
        if let Some(error) = state.refuse_prepare.pop_front() {
            return Err(error);
        }
        match (mode, state.identity.durable) {
            (PrepareMode::Resume, None) => Err(SourceError::gap("the durable point is gone")),
            _ => {
                state.identity.durable.get_or_insert_default();
                state.identity.lost = None;
                Ok(Prepared::at(StartLine::NONE))
            }
        }
    }

    async fn start_line(&self) -> Result<StartLine> {
        Ok(StartLine::NONE)
    }

    async fn ready(&self, _: &StartLine) -> Result<Readiness> {
        let waiting = self.shared.state().waiting.clone();
        Ok(if waiting.is_empty() { Readiness::Ready } else { Readiness::Waiting(waiting) })
    }

    async fn live(&self) -> Result<BoxStream<'static, Result<CaptureEvent>>> {
        let mut state = self.shared.state();
        if let Some(error) = state.refuse_live.pop_front() {
            return Err(error);
        }
        if std::mem::replace(&mut state.held, true) {
            return Err(SourceError::held("the scripted log is held by another stream"));
        }
        let at = resume_at(&state.log, *self.shared.confirmed.borrow());
        drop(state);
        let hold = Hold { shared: self.shared.clone(), at };
        let wake = self.shared.wake.subscribe();
        let events = stream::unfold(Some((hold, wake)), |state| async move {
            let (mut hold, mut wake) = state?;
            loop {
                wake.mark_unchanged();
                match hold.next() {
                    Some(Ok(event)) => return Some((Ok(event), Some((hold, wake)))),
                    Some(Err(error)) => return Some((Err(error), None)),
                    // The sender lives in `hold`.
                    None => wake.changed().await.ok()?,
                }
            }
        });
        Ok(events.boxed())
    }

    async fn snapshot(
        &self,
        table: &SnapshotTable,
        range: KeyRange,
    ) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
        let mut keys = self.shared.state().keys.get(&table.table).cloned().unwrap_or_default();
        if let Some(at) = range.after.and_then(|after| keys.iter().position(|key| *key == after)) {
            keys.drain(..=at);
        }
        let pages: Vec<Result<Vec<RowKey>>> = keys.chunks(100).map(|page| Ok(page.to_vec())).collect();
        Ok(stream::iter(pages).boxed())
    }

    async fn lag(&self) -> Result<Option<Lag>> {
        let identity = self.identity().now_or_never().expect("it never waits")?;
        Ok(Some(Lag { head: Some(identity.head), confirmed: identity.durable, ..Lag::default() }))
    }

    async fn estimate(&self, table: &SnapshotTable) -> Result<Option<u64>> {
        Ok(self.shared.state().keys.get(&table.table).map(|keys| keys.len() as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{Fence, KeyColumns, Operation, Text};

    fn row(id: &str) -> ChangedRow {
        let columns: KeyColumns = vec![Text::from("id")].into();
        let key = RowKey::new(columns, [Text::from(id)]);
        ChangedRow::new(QualifiedTable::new("public", "users"), key, Operation::Upsert, Fence::NONE)
    }

    async fn batch(stream: &mut BoxStream<'static, Result<CaptureEvent>>) -> ChangeBatch {
        match stream.next().await.unwrap().unwrap() {
            CaptureEvent::Changes(batch) => batch,
            other => panic!("expected changes, got {other:?}"),
        }
    }

    #[tokio::test]
    async fn a_new_stream_begins_behind_the_last_confirmed_transaction() {
        let (capture, script) = ScriptedCapture::new();
        script.commit(vec![row("1")], Position(10));
        script.within(vec![row("2")]);
        script.commit(vec![row("3")], Position(20));
        let mut stream = capture.live().await.unwrap();
        batch(&mut stream).await.ack.confirm();
        batch(&mut stream).await.ack.confirm();
        assert_eq!(script.confirmed(), Position(10));
        assert!(capture.live().await.is_err(), "held");
        drop(stream);
        let mut stream = capture.live().await.unwrap();
        assert_eq!(batch(&mut stream).await.rows, [row("2")]);
        batch(&mut stream).await.ack.confirm();
        script.confirmed_at_least(Position(20)).await;
    }

    #[tokio::test]
    async fn a_failure_ends_the_stream_behind_all_that_was_written() {
        let (capture, script) = ScriptedCapture::new();
        script.fail(SourceError::connection("cut"));
        script.commit(vec![row("1")], Position(10));
        let mut stream = capture.live().await.unwrap();
        batch(&mut stream).await.ack.confirm();
        assert!(stream.next().await.unwrap().is_err());
        assert!(stream.next().await.is_none());
        assert!(!script.is_live());
    }

    #[tokio::test]
    async fn an_event_written_later_wakes_the_stream() {
        let (capture, script) = ScriptedCapture::new();
        let mut stream = capture.live().await.unwrap();
        assert!(stream.next().now_or_never().is_none());
        script.commit(vec![row("1")], Position(10));
        assert_eq!(batch(&mut stream).await.rows.len(), 1);
    }
}
