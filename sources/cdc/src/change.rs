use std::time::Duration;

use millstream_model::{ChangedRow, QualifiedTable};

use crate::{Ack, StartLine};

/// One changed row and the ack for everything up to it.
#[derive(Debug)]
pub struct Change {
    /// What changed.
    pub row: ChangedRow,
    /// Confirms it.
    pub ack: Ack,
}

/// Changed rows in commit order under one ack. Rows of one batch may span transactions; a transaction may span batches.
#[derive(Debug)]
pub struct ChangeBatch {
    /// The rows. Empty: the log moved on without anything for us (a keep-alive, a commit of others' rows).
    /// A [`Operation::Truncate`](millstream_model::Operation::Truncate) stands in a batch of its own.
    pub rows: Vec<ChangedRow>,
    /// Confirms the batch and all before it.
    pub ack: Ack,
}

impl From<Change> for ChangeBatch {
    fn from(change: Change) -> Self {
        Self { rows: vec![change.row], ack: change.ack }
    }
}

/// What a capture tells.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureEvent {
    /// Rows changed.
    Changes(ChangeBatch),
    /// What is told of a table changed: changes may have been missed.
    Coverage(CoverageNotice),
    /// What the next run is to be given: saved once all events before it are dealt with.
    Memo(String),
    /// The capture's own heartbeat came back through the log: `age` is how long it took, by one clock.
    Heartbeat {
        /// From its writing to its arrival here.
        age: Duration,
    },
}

/// What is told of a table changed.
#[derive(Clone, Debug)]
pub struct CoverageNotice {
    /// The table, a partition's root in place of its leaf.
    pub table: QualifiedTable,
    /// What happened.
    pub change: CoverageChange,
}

/// How the coverage of a table changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CoverageChange {
    /// Changes of this table are no longer told, or not fully: every index that reads it is wrong until it is mended and
    /// filled again.
    Broken {
        /// What is wrong, naming the thing.
        reason: String,
        /// The statement that mends it.
        remedy: String,
    },
    /// All is told again from the start line on: fill those indexes again.
    Mended {
        /// What a snapshot must wait for.
        start_line: StartLine,
    },
    /// Rows changed without an event (a table rewritten, a partition attached or dropped): fill again the indexes rooted in
    /// it, touch every document of those that only read it.
    Rewritten {
        /// What happened.
        reason: String,
        /// What a snapshot must wait for.
        start_line: StartLine,
    },
}
