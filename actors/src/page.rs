use std::collections::VecDeque;

use millstream_model::{IndexName, RowKey};

use crate::{SinkSet, Ticket};

/// Keys that follow each other in the root's order, to be built together for a backfill: by whichever lane is free.
#[derive(Debug)]
pub struct Page {
    /// The index.
    pub index: IndexName,
    /// The keys, in the root's order.
    pub keys: VecDeque<RowKey>,
    /// The sinks that are being filled.
    pub sinks: SinkSet,
    /// Settles when all its documents are durable.
    pub ticket: Ticket,
}

impl Page {
    /// Takes the next part: of parts of equal size, as few as may be, the first. `limit` is at least 1.
    pub(crate) fn take(&mut self, limit: usize) -> Vec<RowKey> {
        let parts = self.keys.len().div_ceil(limit).max(1);
        let count = self.keys.len().div_ceil(parts);
        self.keys.drain(..count).collect()
    }

    /// Puts a part back that could not be built.
    pub(crate) fn put_back(&mut self, keys: impl DoubleEndedIterator<Item = RowKey>) {
        keys.rev().for_each(|key| self.keys.push_front(key));
    }
}
