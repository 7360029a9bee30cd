//! A sink in memory that fails, stalls and refuses on demand, and outlives the engines that write to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use millstream_model::{Body, Generation, IndexMapping, IndexName, Version};
use millstream_sinks::{
    Capabilities, Outcome, Progress, ProgressStore, Refill, Result, Sink, SinkError, SinkErrorKind, WriteBatch,
};
use tokio::sync::watch;

use crate::json::Json;
use crate::oracle::Documents;

/// A sink in memory. Clones are the same sink: one goes into an engine, the test keeps another and holds the controls.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    // Held for a look or a change only, never across an await.
    state: Mutex<State>,
    held: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    documents: BTreeMap<String, BTreeMap<String, Stored>>,
    progress: Option<Progress>,
    versions: bool,
    failure: Option<SinkErrorKind>,
    failures_left: usize,
    failed: usize,
    refused: BTreeSet<String>,
    rejected: BTreeSet<String>,
    writes: Vec<Write>,
    stalled: usize,
    closed: bool,
}

#[derive(Clone, Debug)]
struct Stored {
    version: Version,
    body: Option<String>,
}

/// One document that was written, refused or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its index.
    pub index: String,
    /// Its id.
    pub id: String,
    /// Its version.
    pub version: Version,
    /// What the sink said.
    pub outcome: Outcome,
}

impl Recorder {
    /// Empty, and without faults.
    pub fn new() -> Self {
        Self { shared: Arc::new(Shared { state: Mutex::default(), held: watch::Sender::new(false) }) }
    }

    /// The same, refusing older versions as a search engine does.
    #[must_use]
    pub fn with_versions(self) -> Self {
        self.state().versions = true;
        self
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on writes wait, before they do anything.
    pub fn hold(&self) {
        self.shared.held.send_replace(true);
    }

    /// Lets them go on.
    pub fn release(&self) {
        self.shared.held.send_replace(false);
    }

    /// How many writes are waiting or have waited since [`hold`](Self::hold).
    pub fn stalled(&self) -> usize {
        self.state().stalled
    }

    /// The next `count` writes fail as a sink that is away.
    pub fn fail(&self, count: usize) {
        self.fail_as(SinkErrorKind::Retry, count);
    }

    /// The next `count` writes fail in this way.
    pub fn fail_as(&self, kind: SinkErrorKind, count: usize) {
        let mut state = self.state();
        state.failure = Some(kind);
        state.failures_left = count;
    }

    /// How many writes have failed because they were told to.
    pub fn failed(&self) -> usize {
        self.state().failed
    }

    /// Documents of this id are refused for now.
    pub fn refuse(&self, id: &str) {
        self.state().refused.insert(id.to_owned());
    }

    /// They are taken again.
    pub fn accept(&self, id: &str) {
        let mut state = self.state();
        state.refused.remove(id);
        state.rejected.remove(id);
    }

    /// Documents of this id are refused for good.
    pub fn reject(&self, id: &str) {
        self.state().rejected.insert(id.to_owned());
    }

    /// What it holds of an index.
    ///
    /// # Panics
    /// When a document is not JSON on one line.
    pub fn documents(&self, index: &str) -> Documents {
        let state = self.state();
        let stored = state.documents.get(index);
        let bodies = stored.into_iter().flatten().filter_map(|(id, stored)| Some((id, stored.body.as_ref()?)));
        bodies.map(|(id, body)| (id.clone(), Json::parse(body).expect("a document is JSON"))).collect()
    }

    /// Every document that came, in order, with what was said.
    pub fn writes(&self) -> Vec<Write> {
        self.state().writes.clone()
    }

    /// How often documents of this id were stored.
    pub fn stored(&self, id: &str) -> usize {
        self.state().writes.iter().filter(|write| write.id == id && write.outcome == Outcome::Durable).count()
    }

    /// True once an engine has closed it.
    pub fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// What is kept about its indexes.
    pub fn kept(&self) -> Option<Progress> {
        self.state().progress.clone()
    }

    /// Forgets one index, as if somebody had dropped it at the destination.
    pub fn drop_index(&self, index: &str) {
        let mut state = self.state();
        state.documents.remove(index);
        if let Some(progress) = &mut state.progress {
            progress.indexes.remove(&IndexName::new(index));
        }
    }

    async fn pass(&self) {
        let mut held = self.shared.held.subscribe();
        if *held.borrow_and_update() {
            self.state().stalled += 1;
        }
        // The sender lives as long as this sink.
        let _ = held.wait_for(|held| !held).await;
    }
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

impl State {
    fn take_failure(&mut self) -> Result<()> {
        if self.failures_left == 0 {
            return Ok(());
        }
        self.failures_left -= 1;
        self.failed += 1;
        Err(SinkError::new(self.failure.unwrap_or(SinkErrorKind::Retry), "the recorder was told to fail"))
    }

    fn store(&mut self, index: &str, document: &millstream_model::Document) -> Outcome {
        let id = document.key.to_id();
        if self.rejected.contains(&id) {
            return Outcome::Rejected("the recorder was told to reject it".to_owned());
        }
        if self.refused.contains(&id) {
            return Outcome::Retry(Duration::from_millis(20));
        }
        let body = match &document.body {
            Body::Upsert(text) => {
                assert!(!text.contains('\n'), "a document is on one line");
                Some(text.clone())
            }
            Body::Tombstone => None,
        };
        let stored = Stored { version: document.version, body };
        let documents = self.documents.entry(index.to_owned()).or_default();
        let newer = documents.get(&id).is_some_and(|old| self.versions && old.version >= stored.version);
        if !newer {
            documents.insert(id, stored);
        }
        Outcome::Durable
    }
}

#[async_trait]
impl Sink for Recorder {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        self.pass().await;
        let mut state = self.state();
        state.take_failure()?;
        let mut outcomes = Vec::with_capacity(batch.documents.len());
        for document in &batch.documents {
            let outcome = state.store(batch.index.as_str(), document);
            state.writes.push(Write {
                index: batch.index.as_str().to_owned(),
                id: document.key.to_id(),
                version: document.version,
                outcome: outcome.clone(),
            });
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_refill(Refill::Clear).with_versions(self.state().versions)
    }

    fn progress(&self) -> Option<&dyn ProgressStore> {
        Some(self)
    }

    async fn prepare(&self, _: &[IndexMapping]) -> Result<()> {
        self.state().closed = false;
        Ok(())
    }

    async fn clear(&self, index: &IndexName, version: Version) -> Result<()> {
        self.pass().await;
        let mut state = self.state();
        state.take_failure()?;
        if let Some(documents) = state.documents.get_mut(index.as_str()) {
            for stored in documents.values_mut() {
                *stored = Stored { version, body: None };
            }
        }
        Ok(())
    }

    async fn begin_generation(&self, _: &IndexMapping, _: Generation) -> Result<()> {
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.state().closed = true;
        Ok(())
    }
}

#[async_trait]
impl ProgressStore for Recorder {
    async fn load(&self) -> Result<Option<Progress>> {
        Ok(self.state().progress.clone())
    }

    async fn save(&self, progress: &Progress) -> Result<()> {
        self.state().progress = Some(progress.clone());
        Ok(())
    }
}
