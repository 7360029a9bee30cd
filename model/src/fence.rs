use std::fmt;

use serde::{Deserialize, Serialize};

/// A place in a source's log, ordered as the log is. For Postgres an LSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    /// The way Postgres writes an LSN: two hexadecimal halves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

/// What a reader must be able to see before its read counts for a change.
///
/// Opaque to the actors: only the source that made it and the [`Sight`] of the same source understand its two words (for
/// Postgres: the transaction's 32-bit id and its commit position).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    transaction: u64,
    position: Position,
}

impl Fence {
    /// Every read counts: what a backfill's touch carries.
    pub const NONE: Self = Self { transaction: 0, position: Position(0) };

    /// A fence of a source's own two words.
    pub const fn new(transaction: u64, position: Position) -> Self {
        Self { transaction, position }
    }

    /// True for [`Fence::NONE`].
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// The source's transaction word.
    pub const fn transaction(&self) -> u64 {
        self.transaction
    }

    /// The source's position word.
    pub const fn position(&self) -> Position {
        self.position
    }
}

/// What one read could see: taken in the statement that reads.
pub trait Sight: fmt::Debug + Send + Sync {
    /// True when the read saw all that the fenced change did. Always true for [`Fence::NONE`].
    fn covers(&self, fence: &Fence) -> bool;
}

/// The sight of a source whose changes are visible before they are told: it covers every fence.
#[derive(Clone, Copy, Debug)]
pub struct Everything;

impl Sight for Everything {
    fn covers(&self, _: &Fence) -> bool {
        true
    }
}
