//! How far a table is: what travels as its checkpoint.

use serde::{Deserialize, Serialize};

use super::cell::Cell;
use crate::model::{Checkpoint, Timestamp};

/// How far a table was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Mark {
    /// Of which table, by which cursor: see [`Table::fingerprint`](super::table::Table::fingerprint).
    pub of: String,
    /// The cursor and the key of the last row.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rows: Vec<Cell>,
    /// The same of the delete log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<Cell>,
    /// When all keys were compared last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys_at: Option<Timestamp>,
    /// Within a pass: where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
}

/// Where a pass is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Place {
    pub phase: Phase,
    /// The first value, inclusive, as long as nothing was read; `None`: from the beginning, or right behind `last`.
    pub from: Option<Cell>,
    /// The first value that is too young.
    pub until: Option<Cell>,
    /// The last row that was read.
    pub last: Vec<Cell>,
}

/// The parts of a pass, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Phase {
    /// Rows that changed.
    Rows,
    /// Rows that are ahead of the source's clock.
    Future,
    /// Rows without a cursor.
    Nulls,
    /// Rows that are gone, by the delete log.
    Log,
    /// All keys.
    Keys,
}

impl Mark {
    /// What a checkpoint says, if it is one of this table's; else nothing was read yet.
    pub(super) fn read(checkpoint: Option<&Checkpoint>, fingerprint: &str) -> Self {
        let mark = checkpoint.and_then(|checkpoint| serde_json::from_str::<Self>(&checkpoint.0).ok());
        mark.filter(|mark| mark.of == fingerprint)
            .unwrap_or_else(|| Self { of: fingerprint.to_owned(), ..Self::default() })
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(serde_json::to_string(self).expect("a mark is plain data"))
    }
}

impl Phase {
    /// The one behind it.
    pub(super) fn next(self) -> Option<Self> {
        match self {
            Self::Rows => Some(Self::Future),
            Self::Future => Some(Self::Nulls),
            Self::Nulls => Some(Self::Log),
            Self::Log => Some(Self::Keys),
            Self::Keys => None,
        }
    }
}
