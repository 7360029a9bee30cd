use serde::{Deserialize, Serialize};

use crate::Position;

/// Which source, and how far: saved durably before each confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourcePoint {
    /// Tells one source from another: for Postgres the cluster's system identifier and the database.
    pub system: String,
    /// The history that it was on.
    pub timeline: u32,
    /// The highest position that may have been confirmed.
    pub position: Position,
}
