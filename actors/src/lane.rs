use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::fast::FixedState;
use millstream_model::{Fence, IndexName, RowKey};
use smallvec::SmallVec;

use crate::{Faults, Page, Ticket};

/// "This document may have changed": what a builder is asked to look at.
#[derive(Debug)]
pub struct Touch {
    /// The root row's key.
    pub key: RowKey,
    /// What a read must see before it counts; several when several changes of one batch touch the document.
    pub fences: SmallVec<[Fence; 1]>,
    /// Settles when the document is durable.
    pub ticket: Ticket,
}

/// Touches of one index for one lane.
#[derive(Debug)]
pub struct TouchBatch {
    /// The index.
    pub index: IndexName,
    /// The touches.
    pub touches: Vec<Touch>,
    /// The sinks that want them.
    pub sinks: SinkSet,
    /// True when a backfill asks: then only the filling that is being made is written.
    pub fill: bool,
}

/// Some of an engine's sinks, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SinkSet(u64);

impl SinkSet {
    /// How many sinks an engine can have.
    pub const MAX: usize = 64;

    /// The first `count` sinks.
    pub fn all(count: usize) -> Self {
        Self(if count >= Self::MAX { u64::MAX } else { (1 << count) - 1 })
    }

    /// Adds one.
    pub fn insert(&mut self, sink: usize) {
        self.0 |= 1 << sink;
    }

    /// True when it is among them.
    pub fn contains(self, sink: usize) -> bool {
        self.0 & (1 << sink) != 0
    }

    /// Those in either.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True when there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Their numbers, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(move |sink| self.contains(*sink))
    }
}

/// A builder's two mailboxes: live before backfill.
#[derive(Clone, Debug)]
pub struct Mailbox {
    /// Touches of the lane's own documents.
    pub live: flume::Receiver<TouchBatch>,
    /// Pages of backfills: one channel for all lanes, the next free one takes the next page.
    pub pages: flume::Receiver<Page>,
}

/// The ways to the builders: a document id always leads to the same one.
#[derive(Clone, Debug)]
pub struct Lanes {
    lanes: Arc<[flume::Sender<TouchBatch>]>,
    hasher: FixedState,
    scatter: Option<Arc<AtomicU64>>,
}

impl Lanes {
    /// One sender a lane, in the lanes' order.
    pub fn new(lanes: Vec<flume::Sender<TouchBatch>>) -> Self {
        Self { lanes: lanes.into(), hasher: FixedState::with_seed(0), scatter: None }
    }

    /// With the deliberate fault `two_lanes`: touches go to the lanes in turn.
    #[doc(hidden)]
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.scatter = faults.two_lanes.then(Arc::default);
        self
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The lane of a document.
    pub fn lane(&self, index: &IndexName, key: &RowKey) -> usize {
        let hash = match &self.scatter {
            Some(turn) => turn.fetch_add(1, Ordering::Relaxed),
            None => self.hasher.hash_one((index, key)),
        };
        (hash % self.lanes.len() as u64) as usize
    }

    /// The way to one lane.
    pub fn sender(&self, lane: usize) -> &flume::Sender<TouchBatch> {
        &self.lanes[lane]
    }

    /// Sorts touches by lane and sends each lane its part; waits where a lane is full.
    ///
    /// Not cancel safe: a lane may have got its part already. Returns the touches' number, or `None` when a lane is gone, which
    /// it is only when the run ends.
    pub async fn send(&self, batch: TouchBatch) -> Option<usize> {
        let count = batch.touches.len();
        let mut whole = true;
        for (lane, part) in self.sort(batch) {
            whole &= self.lanes[lane].send_async(part).await.is_ok();
        }
        whole.then_some(count)
    }

    /// Sorts touches by lane: the lanes in order, each with its part.
    pub(crate) fn sort(&self, batch: TouchBatch) -> Vec<(usize, TouchBatch)> {
        if self.lanes.len() == 1 {
            return vec![(0, batch)];
        }
        let TouchBatch { index, touches, sinks, fill } = batch;
        let mut parts: Vec<Vec<Touch>> = (0..self.lanes.len()).map(|_| Vec::new()).collect();
        for touch in touches {
            parts[self.lane(&index, &touch.key)].push(touch);
        }
        let parts = parts.into_iter().enumerate().filter(|(_, touches)| !touches.is_empty());
        parts.map(|(lane, touches)| (lane, TouchBatch { index: index.clone(), touches, sinks, fill })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_sinks_holds_up_to_64() {
        assert_eq!(SinkSet::all(64).iter().count(), 64);
        assert_eq!(SinkSet::all(2).iter().collect::<Vec<_>>(), [0, 1]);
        let mut set = SinkSet::default();
        set.insert(3);
        assert!(set.contains(3) && !set.contains(2));
    }
}
