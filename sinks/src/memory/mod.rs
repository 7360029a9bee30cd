//! A sink for tests: everything that happens to it is scripted, everything in it can be looked at.

mod faults;
mod store;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use millstream_model::{Document, Generation, IndexMapping, IndexName, Version};

pub use self::faults::{Call, Fault};
use self::faults::{Faults, Verdict};
use self::store::Store;
use crate::{Capabilities, Outcome, Progress, ProgressStore, Refill, Result, Sink, SinkError, WriteBatch};

/// Keeps documents in memory. Clones are the same sink.
///
/// By default it keeps versions (an older or equal one is refused, tombstones too) and generations behind an alias
/// ([`Refill::Alias`]); [`with_capabilities`](Self::with_capabilities) makes it one that does not. It uses no time but
/// tokio's, and no chance, so that a simulation replays.
#[derive(Clone)]
pub struct MemorySink {
    // Held for a few lines only, never across an await.
    store: Arc<Mutex<Store>>,
    faults: Arc<Faults>,
    /// The highest epoch saved through this handle: who wrote a higher one is another engine. 0: none was.
    epoch: Arc<AtomicU32>,
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySink {
    /// An empty sink with versions and generations.
    pub fn new() -> Self {
        Self::with_capabilities(Capabilities::default().with_versions(true).with_refill(Refill::Alias))
    }

    /// An empty sink that can do this and no more.
    pub fn with_capabilities(capabilities: Capabilities) -> Self {
        let store = Arc::new(Mutex::new(Store::new(capabilities)));
        Self { store, faults: Arc::default(), epoch: Arc::default() }
    }

    /// Another engine's handle onto the same documents and progress, with faults of its own: when one saves a higher epoch and
    /// writes, the other is told that it was taken over.
    #[must_use]
    pub fn other_engine(&self) -> Self {
        Self { store: self.store.clone(), faults: Arc::default(), epoch: Arc::default() }
    }

    /// Documents longer than this are [`Outcome::TooLarge`] in company and rejected alone.
    #[must_use]
    pub fn with_document_bytes_max(self, bytes: usize) -> Self {
        self.store().document_bytes_max = bytes;
        self
    }

    /// The documents that the index serves, by id. Of an index that is being filled for the first time, those so far.
    pub fn contents(&self, index: &IndexName) -> BTreeMap<String, String> {
        self.store().contents(index)
    }

    /// One of them.
    pub fn document(&self, index: &IndexName, id: &str) -> Option<String> {
        self.store().contents(index).remove(id)
    }

    /// The generation that the index serves; `None` before the first was finished.
    pub fn serving(&self, index: &IndexName) -> Option<Generation> {
        self.store().serving(index)
    }

    /// Calls of [`write`](Sink::write) that changed something or would have: those not rejected by a fault.
    pub fn writes(&self) -> u64 {
        self.store().writes
    }

    /// Documents and tombstones refused because the same or a newer version was there.
    pub fn refused(&self) -> u64 {
        self.store().refused
    }

    /// Calls of [`close`](Sink::close).
    pub fn closes(&self) -> u64 {
        self.store().closes
    }

    /// What was saved last.
    pub fn saved_progress(&self) -> Option<Progress> {
        self.store().progress.clone()
    }

    /// Removes an index as an operator would: documents, versions and progress.
    pub fn drop_index(&self, index: &IndexName) {
        self.store().drop_index(index);
    }

    /// Lets the next calls of one kind meet these faults, one each, after those already scripted.
    pub fn script(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        self.faults.script(call, faults);
    }

    /// Lets every call of one kind meet this fault that meets no scripted one; `None` ends it.
    pub fn always(&self, call: Call, fault: Option<Fault>) {
        self.faults.always(call, fault);
    }

    /// Gives a document this outcome the next `times` that it is written, and does not keep it then unless the outcome is
    /// [`Outcome::Durable`].
    pub fn outcome(&self, id: impl Into<String>, outcome: Outcome, times: u64) {
        self.faults.outcome(id.into(), outcome, times);
    }

    /// Holds every call of one kind until [`release`](Self::release).
    pub fn hold(&self, call: Call) {
        self.always(call, Some(Fault::Hold));
    }

    /// Lets all held calls of one kind go on, and ends [`hold`](Self::hold).
    pub fn release(&self, call: Call) {
        self.faults.release(call);
    }

    /// Waits until `count` calls of one kind are being held at once. Dropping the future is safe.
    pub async fn held(&self, call: Call, count: usize) {
        self.faults.held(call, count).await;
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what a call does, as far as its fault lets it.
    async fn perform<T>(&self, call: Call, work: impl FnOnce(&mut Store) -> Result<T>) -> Result<T> {
        match self.faults.meet(call).await {
            Verdict::Go => work(&mut self.store()),
            Verdict::Reject(kind) => Err(SinkError::new(kind, format!("scripted: {} rejected", call.as_str()))),
            Verdict::DoThenFail(kind) => {
                work(&mut self.store())?;
                Err(SinkError::new(kind, format!("scripted: {} done, then failed", call.as_str())))
            }
        }
    }

    fn check_epoch(&self, store: &Store, batch: &WriteBatch, document: &Document) -> Result<()> {
        let ours = self.epoch.load(Ordering::Relaxed);
        let there = store.version(batch, &document.key.to_id()).map_or(0, |version| version.epoch().0);
        if ours != 0 && there > ours {
            let message = format!("another engine writes here (index={}, epoch={there}, ours={ours})", batch.index);
            return Err(SinkError::new(crate::SinkErrorKind::TakenOver, message));
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for MemorySink {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        let work = |store: &mut Store| {
            store.writes += 1;
            let alone = batch.documents.len() == 1;
            let mut outcomes = Vec::with_capacity(batch.documents.len());
            for document in &batch.documents {
                let scripted = self.faults.take_outcome(&document.key.to_id());
                let outcome = scripted.unwrap_or_else(|| store.size_outcome(document, alone));
                if outcome == Outcome::Durable {
                    self.check_epoch(store, batch, document)?;
                    store.put(batch, document);
                }
                outcomes.push(outcome);
            }
            Ok(outcomes)
        };
        self.perform(Call::Write, work).await
    }

    fn capabilities(&self) -> Capabilities {
        self.store().capabilities
    }

    fn progress(&self) -> Option<&dyn ProgressStore> {
        Some(self)
    }

    async fn prepare(&self, _indexes: &[IndexMapping]) -> Result<()> {
        self.perform(Call::Prepare, |_| Ok(())).await
    }

    async fn clear(&self, index: &IndexName, version: Version) -> Result<()> {
        self.perform(Call::Clear, |store| {
            store.clear(index, version);
            Ok(())
        })
        .await
    }

    async fn begin_generation(&self, index: &IndexMapping, generation: Generation) -> Result<()> {
        self.perform(Call::BeginGeneration, |store| {
            store.begin(&index.index, generation);
            Ok(())
        })
        .await
    }

    async fn finish_generation(&self, index: &IndexName, generation: Generation) -> Result<()> {
        self.perform(Call::FinishGeneration, |store| {
            store.finish(index, generation);
            Ok(())
        })
        .await
    }

    async fn close(&self) -> Result<()> {
        self.perform(Call::Close, |store| {
            store.closes += 1;
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl ProgressStore for MemorySink {
    async fn load(&self) -> Result<Option<Progress>> {
        self.perform(Call::Load, |store| Ok(store.progress.clone())).await
    }

    async fn save(&self, progress: &Progress) -> Result<()> {
        self.perform(Call::Save, |store| {
            self.epoch.fetch_max(progress.epoch.0, Ordering::Relaxed);
            store.progress = Some(progress.clone());
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests;
