use std::fmt;

use serde::{Deserialize, Serialize};

/// A counter that is one more than the highest any sink has kept, each time an engine starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u32);

/// A document's version: epoch × 2³² + sequence.
///
/// Log positions would not do: two builds with different contents can carry the same one, and they go back on failover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// The version of one read within an epoch.
    pub fn new(epoch: Epoch, sequence: u32) -> Self {
        Self((u64::from(epoch.0) << 32) | u64::from(sequence))
    }

    /// The epoch in which the version was taken.
    pub fn epoch(self) -> Epoch {
        Epoch((self.0 >> 32) as u32)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
