//! Gathers changed rows into batches and gives each its ack.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use millstream_model::{ChangedRow, Position};
use tokio::time::Instant;

use super::confirm::Mark;
use crate::{Ack, CaptureEvent, ChangeBatch};

/// How long rows of a transaction wait for its end: it is on its way, and a batch that ends with it carries its position.
const TRANSACTION_WAIT: Duration = Duration::from_millis(20);
/// How often at most a batch without rows moves the resume point.
const EMPTY_EVERY: Duration = Duration::from_millis(100);

/// Rows wait here until the engine takes them. In order; bounded by `rows_max` and `bytes_max` as far as the pump asks
/// [`has_room`](Self::has_room) first.
pub(crate) struct Batcher {
    confirm: Arc<Mark>,
    rows_max: usize,
    bytes_max: usize,
    /// Whole events that come before `rows`.
    ready: VecDeque<CaptureEvent>,
    rows: Vec<ChangedRow>,
    bytes: usize,
    rows_since: Option<Instant>,
    in_transaction: bool,
    /// Everything up to here has been told; not yet in an ack.
    reached: Option<Position>,
    /// The highest position that an ack carries.
    acked: Position,
    empty_after: Instant,
}

impl Batcher {
    pub(crate) fn new(confirm: Arc<Mark>, rows_max: usize, bytes_max: usize) -> Self {
        Self {
            confirm,
            rows_max: rows_max.max(1),
            bytes_max,
            ready: VecDeque::new(),
            rows: Vec::new(),
            bytes: 0,
            rows_since: None,
            in_transaction: false,
            reached: None,
            acked: Position(0),
            empty_after: Instant::now(),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.in_transaction = true;
    }

    /// The transaction ended; `end` is just behind its commit record.
    pub(crate) fn commit(&mut self, end: Position) {
        self.in_transaction = false;
        self.reach(end);
    }

    /// The server has told all up to here. Inside a transaction that says nothing: its rest is still to come.
    pub(crate) fn keep_alive(&mut self, position: Position) {
        if !self.in_transaction {
            self.reach(position);
        }
    }

    fn reach(&mut self, position: Position) {
        if position > self.acked {
            self.reached = self.reached.max(Some(position));
        }
    }

    pub(crate) fn push(&mut self, row: ChangedRow) {
        if self.rows.is_empty() {
            self.rows_since = Some(Instant::now());
        }
        self.bytes += row.size();
        self.rows.push(row);
    }

    /// A row that must stand in a batch of its own, behind all before it.
    pub(crate) fn push_alone(&mut self, row: ChangedRow) {
        self.seal();
        let ack = self.ack();
        self.ready.push_back(CaptureEvent::Changes(ChangeBatch { rows: vec![row], ack }));
    }

    /// Something that is not a row, behind all before it.
    pub(crate) fn push_event(&mut self, event: CaptureEvent) {
        self.seal();
        self.ready.push_back(event);
    }

    fn seal(&mut self) {
        if !self.rows.is_empty() {
            let batch = self.batch();
            self.ready.push_back(CaptureEvent::Changes(batch));
        }
    }

    fn batch(&mut self) -> ChangeBatch {
        self.bytes = 0;
        self.rows_since = None;
        ChangeBatch { rows: std::mem::take(&mut self.rows), ack: self.ack() }
    }

    fn ack(&mut self) -> Ack {
        match self.reached.take() {
            Some(position) => {
                self.acked = position;
                Ack::at(position, self.confirm.clone())
            }
            None => Ack::within(self.confirm.clone()),
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max || self.bytes >= self.bytes_max
    }

    /// True while more may be put in.
    pub(crate) fn has_room(&self) -> bool {
        self.ready.is_empty() && !self.is_full()
    }

    /// When [`take`](Self::take) will have something; `None` while there is nothing.
    pub(crate) fn due(&self) -> Option<Instant> {
        if !self.ready.is_empty() || self.is_full() {
            return Some(Instant::now());
        }
        match self.rows_since {
            Some(since) if self.in_transaction => Some(since + TRANSACTION_WAIT),
            Some(since) => Some(since),
            None => self.reached.map(|_| self.empty_after),
        }
    }

    /// The next event, whether due or not.
    pub(crate) fn take(&mut self) -> Option<CaptureEvent> {
        if let Some(event) = self.ready.pop_front() {
            return Some(event);
        }
        if self.rows.is_empty() {
            self.reached?;
            self.empty_after = Instant::now() + EMPTY_EVERY;
        }
        Some(CaptureEvent::Changes(self.batch()))
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
