//! An engine in this process, on threads of its own, that a test may drop where it stands.

use std::path::Path;
use std::time::Duration;

use crate::json::Json;
use crate::recorder::Recorder;

/// A running engine over a [`Recorder`].
#[derive(Debug)]
pub struct Embedded {}

impl Embedded {
    /// Starts an engine from a configuration file, writing to these sinks instead of the file's own.
    pub fn spawn(_config: &Path, _sinks: Vec<(String, Recorder)>) -> Self {
        panic!("the engine is not there yet")
    }

    /// True once it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        false
    }

    /// What it says of itself.
    pub fn status(&self) -> Option<Json> {
        None
    }

    /// Takes no more changes until it is resumed.
    pub fn pause(&self) {}

    /// Goes on.
    pub fn resume(&self) {}

    /// Fills an index again.
    pub async fn backfill(&self, _index: &str) {}

    /// Drops it where it stands, as `kill -9` would: nothing is drained, nothing is said to the server.
    pub fn kill(self) {}

    /// Drains and ends it; true when that was done within `deadline`.
    pub async fn stop(self, _deadline: Duration) -> bool {
        false
    }
}
