use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use millstream_model::IndexName;
use serde::Serialize;
use tokio::time::Instant;

/// What the actors of an engine tell of themselves, for status pages and metrics. Survives runs.
///
/// Written by whoever owns the fact; each value is read by itself, so that a snapshot of several is only nearly of one moment.
#[derive(Debug)]
pub struct Board {
    started: Instant,
    /// Tickets of change batches that have not settled.
    pub tickets_open: AtomicUsize,
    oldest_ticket_ms: AtomicU64,
    last_ack_ms: AtomicI64,
    confirmed: AtomicU64,
    sinks_failing: AtomicU64,
    indexes: Mutex<BTreeMap<IndexName, IndexStatus>>,
    last_error: Mutex<Option<(String, Instant)>>,
}

/// One index, for people.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct IndexStatus {
    /// `waiting`, `backfilling`, `live`, `held` or `needs_backfill`.
    pub state: &'static str,
    /// Why it is not live, what a wait is for, or what mends it.
    pub detail: Option<String>,
    /// Rows that the backfill has done, or the last one of this process did; durable ones only.
    pub rows_done: u64,
    /// Rows that it expects, as the source estimates them.
    pub rows_expected: Option<u64>,
    /// Seconds that are left at the pace so far.
    pub eta_seconds: Option<u64>,
}

/// How full one channel is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StageDepth {
    /// What it carries, and to whom.
    pub channel: String,
    /// Batches in it.
    pub depth: usize,
    /// Batches that it can hold.
    pub capacity: usize,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            started: Instant::now(),
            tickets_open: AtomicUsize::new(0),
            oldest_ticket_ms: AtomicU64::new(0),
            last_ack_ms: AtomicI64::new(-1),
            confirmed: AtomicU64::new(0),
            sinks_failing: AtomicU64::new(0),
            indexes: Mutex::default(),
            last_error: Mutex::default(),
        }
    }
}

impl Board {
    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Tells of an index.
    pub fn set_index(&self, index: &IndexName, status: IndexStatus) {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).insert(index.clone(), status);
    }

    /// What was told last of one index.
    pub fn index(&self, index: &IndexName) -> Option<IndexStatus> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }

    /// What was told last of each index.
    pub fn indexes(&self) -> BTreeMap<IndexName, IndexStatus> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells of the open tickets: how many, and since when the oldest is.
    pub fn set_tickets(&self, open: usize, oldest: Option<Instant>) {
        self.tickets_open.store(open, Ordering::Relaxed);
        // One more than the truth, so that zero can mean none.
        let since = oldest.map_or(0, |born| u64::try_from((born - self.started).as_millis()).unwrap_or(0) + 1);
        self.oldest_ticket_ms.store(since, Ordering::Relaxed);
    }

    /// How long the oldest open ticket has been open.
    pub fn oldest_ticket_age(&self) -> Option<Duration> {
        match self.oldest_ticket_ms.load(Ordering::Relaxed) {
            0 => None,
            since => Some(Duration::from_millis(self.now_ms().saturating_sub(since - 1))),
        }
    }

    /// Tells that a position was confirmed to the source.
    pub fn confirmed(&self, position: millstream_model::Position) {
        self.last_ack_ms.store(i64::try_from(self.now_ms()).unwrap_or(i64::MAX), Ordering::Relaxed);
        self.confirmed.store(position.0, Ordering::Relaxed);
    }

    /// The last position that was confirmed; `None` before the first.
    pub fn confirmed_position(&self) -> Option<millstream_model::Position> {
        match self.confirmed.load(Ordering::Relaxed) {
            0 => None,
            position => Some(millstream_model::Position(position)),
        }
    }

    /// How long ago that was.
    pub fn last_ack_age(&self) -> Option<Duration> {
        let at = u64::try_from(self.last_ack_ms.load(Ordering::Relaxed)).ok()?;
        Some(Duration::from_millis(self.now_ms().saturating_sub(at)))
    }

    /// Tells whether a sink fails at present.
    pub fn set_sink_failing(&self, sink: usize, failing: bool) {
        if failing {
            self.sinks_failing.fetch_or(1 << sink, Ordering::Relaxed);
        } else {
            self.sinks_failing.fetch_and(!(1 << sink), Ordering::Relaxed);
        }
    }

    /// The numbers of the sinks that fail at present.
    pub fn sinks_failing(&self) -> crate::SinkSet {
        let bits = self.sinks_failing.load(Ordering::Relaxed);
        let mut set = crate::SinkSet::default();
        (0..crate::SinkSet::MAX).filter(|sink| bits & (1 << sink) != 0).for_each(|sink| set.insert(sink));
        set
    }

    /// Tells of an error; the last one is shown.
    pub fn set_error(&self, error: impl std::fmt::Display) {
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some((error.to_string(), Instant::now()));
    }

    /// The last error that was told, and how long ago that was.
    pub fn last_error(&self) -> Option<(String, Duration)> {
        let last = self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone();
        last.map(|(error, at)| (error, at.elapsed()))
    }
}
