use foldhash::fast::FixedState;
use indexmap::IndexMap;
use indexmap::map::Entry;
use millstream_model::{Fence, RowKey, Sight};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::{SinkSet, Ticket, TouchBatch};

/// The touches of one index that a lane holds, by document: those ready to build in order of arrival, and those that wait for
/// a read to see them.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    ready: IndexMap<RowKey, Wanted, FixedState>,
    waiting: IndexMap<RowKey, Wanted, FixedState>,
    touches: usize,
}

/// Why one document is to be built, and for whom.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    touches: SmallVec<[Held; 1]>,
    /// Sinks that want it.
    pub sinks: SinkSet,
    /// True while only backfills ask.
    pub fill: bool,
    /// While it waits: when it is due, or `None` until someone else has built it.
    due: Option<Instant>,
    waits: u32,
}

#[derive(Debug)]
struct Held {
    fences: SmallVec<[Fence; 1]>,
    ticket: Ticket,
}

impl Pending {
    /// Touches held.
    pub fn touches(&self) -> usize {
        self.touches
    }

    /// True when some document can be built now.
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When the first waiting document is due.
    pub fn due(&self) -> Option<Instant> {
        self.waiting.values().filter_map(|wanted| wanted.due).min()
    }

    /// Adds a batch. A touch of a document that is already here joins it: one build serves both.
    pub fn add(&mut self, batch: TouchBatch) {
        self.touches += batch.touches.len();
        for touch in batch.touches {
            let wanted = match self.waiting.get_mut(&touch.key) {
                Some(wanted) => wanted,
                None => self.ready.entry(touch.key).or_insert_with(|| Wanted { fill: true, ..Wanted::default() }),
            };
            wanted.touches.push(Held { fences: touch.fences, ticket: touch.ticket });
            wanted.sinks = wanted.sinks.union(batch.sinks);
            wanted.fill &= batch.fill;
        }
    }

    /// Makes ready what is due.
    pub fn wake(&mut self, now: Instant) {
        let due: Vec<RowKey> = self
            .waiting
            .iter()
            .filter(|(_, wanted)| wanted.due.is_some_and(|due| due <= now))
            .map(|(key, _)| key.clone())
            .collect();
        self.make_ready(due);
    }

    /// Makes ready what was refused.
    pub fn wake_refused(&mut self) {
        let refused = self.waiting.iter().filter(|(_, wanted)| wanted.due.is_none()).map(|(key, _)| key.clone());
        self.make_ready(refused.collect());
    }

    fn make_ready(&mut self, keys: Vec<RowKey>) {
        for key in keys {
            if let Some(wanted) = self.waiting.shift_remove(&key) {
                // A touch of a waiting document joins it there, so that it is never in both.
                self.ready.insert(key, wanted);
            }
        }
    }

    /// Takes up to `limit` documents to build, the oldest first.
    pub fn take(&mut self, limit: usize) -> Vec<(RowKey, Wanted)> {
        let taken: Vec<_> = self.ready.drain(..limit.min(self.ready.len())).collect();
        self.touches -= taken.iter().map(|(_, wanted)| wanted.touches.len()).sum::<usize>();
        taken
    }

    /// Puts back what must be read again, not before it is due.
    pub fn put_back(&mut self, key: RowKey, mut wanted: Wanted, due: Instant) {
        wanted.waits += 1;
        wanted.due = Some(due);
        self.wait(key, wanted);
    }

    /// Puts back what someone else is building, until [`wake_refused`](Self::wake_refused).
    pub fn refuse(&mut self, key: RowKey, mut wanted: Wanted) {
        wanted.due = None;
        self.wait(key, wanted);
    }

    fn wait(&mut self, key: RowKey, wanted: Wanted) {
        self.touches += wanted.touches.len();
        match self.waiting.entry(key) {
            Entry::Occupied(mut entry) => entry.get_mut().join(wanted),
            Entry::Vacant(entry) => {
                entry.insert(wanted);
            }
        }
    }

    /// Takes everything, waiting or not.
    pub fn take_all(&mut self) -> Vec<Wanted> {
        self.touches = 0;
        self.ready.drain(..).chain(self.waiting.drain(..)).map(|(_, wanted)| wanted).collect()
    }
}

impl Wanted {
    /// Takes the tickets of the touches that a read covers; the others stay. A touch is covered when all its fences are.
    pub fn covered(&mut self, sight: &dyn Sight) -> Vec<Ticket> {
        let mut covered = Vec::with_capacity(self.touches.len());
        let mut left = SmallVec::new();
        for held in std::mem::take(&mut self.touches) {
            if held.fences.iter().all(|fence| sight.covers(fence)) {
                covered.push(held.ticket);
            } else {
                left.push(held);
            }
        }
        self.touches = left;
        covered
    }

    /// Adds another's touches to these.
    fn join(&mut self, other: Self) {
        self.touches.extend(other.touches);
        self.sinks = self.sinks.union(other.sinks);
        self.fill &= other.fill;
    }

    /// How often it was put back.
    pub fn waits(&self) -> u32 {
        self.waits
    }

    /// True when every touch was covered.
    pub fn is_done(&self) -> bool {
        self.touches.is_empty()
    }

    /// Takes the tickets of all touches.
    pub fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        self.touches.into_iter().map(|held| held.ticket)
    }

    /// Tickets whose change was seen already: any read counts for them.
    pub fn seen(sinks: SinkSet, fill: bool, tickets: Vec<Ticket>) -> Self {
        let touches = tickets.into_iter().map(|ticket| Held { fences: SmallVec::new(), ticket }).collect();
        Self { touches, sinks, fill, due: None, waits: 0 }
    }
}
