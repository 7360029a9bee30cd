//! An engine in this process, on threads of its own, that a test may drop where it stands.

use std::path::Path;
use std::time::Duration;

use millstream::config::Config;
use millstream::{Drained, EndReason, Engine, EngineState, Handle};
use tokio::runtime::{self, Runtime};

use crate::json::Json;
use crate::recorder::Recorder;

/// A running engine over [`Recorder`]s.
pub struct Embedded {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Embedded {
    /// Starts an engine from a configuration file, writing to these sinks instead of the file's own.
    ///
    /// # Panics
    /// When it can't be started.
    pub fn spawn(config: &Path, sinks: Vec<(String, Recorder)>) -> Self {
        let config = Config::load(config).unwrap_or_else(|error| panic!("the test's configuration is wrong: {error}"));
        let mut builder = runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build().expect("threads can be started");
        // Started by a thread of its own: a test may call this from within another runtime.
        let started = std::thread::scope(|scope| {
            let start = || runtime.block_on(engine(&config, sinks).start());
            scope.spawn(start).join().expect("starting does not panic")
        });
        let handle = started.unwrap_or_else(|error| panic!("the engine does not start: {error}"));
        Self { runtime: Some(runtime), handle }
    }

    /// True once it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.handle.status().state == EngineState::Ended
    }

    /// What it says of itself.
    pub fn status(&self) -> Option<Json> {
        let text = serde_json::to_string(&self.handle.status()).expect("a status is JSON");
        Some(Json::parse(&text).expect("a status is JSON"))
    }

    /// Takes no more changes until it is resumed.
    pub fn pause(&self) {
        self.handle.pause();
    }

    /// Goes on.
    pub fn resume(&self) {
        self.handle.resume();
    }

    /// Fills an index again.
    pub async fn backfill(&self, index: &str) {
        assert!(self.handle.backfill(index).await, "there is such an index");
    }

    /// Drops it where it stands, as `kill -9` would: nothing is drained, nothing is said to the server.
    pub fn kill(mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    /// Drains and ends it; true when that was done within `deadline`.
    pub async fn stop(mut self, deadline: Duration) -> bool {
        let handle = self.handle.clone();
        let runtime = self.runtime.take().expect("taken once");
        let shutdown = runtime.spawn(async move { handle.shutdown(deadline).await });
        let reason = shutdown.await.expect("shutting down does not panic");
        runtime.shutdown_background();
        matches!(*reason, EndReason::Shutdown(Drained::Clean))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// What `Engine::from_config` makes, but with sinks of the test's.
fn engine(config: &Config, sinks: Vec<(String, Recorder)>) -> Engine {
    let mut builder = config.builder_without_sinks().expect("the test's configuration can be used");
    for (name, sink) in sinks {
        builder = builder.sink(&name, sink);
    }
    builder.build().expect("nothing is missing")
}
