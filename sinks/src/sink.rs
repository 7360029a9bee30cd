use std::time::Duration;

use async_trait::async_trait;
use millstream_model::{Document, Generation, IndexMapping, IndexName, Version};

use crate::{ProgressStore, Result};

/// A place for documents.
///
/// Only [`write`](Self::write) must be written; everything else has a default that suits a sink which keeps no progress and
/// is refilled in place. The engine calls one method at a time on a sink, so that a sink needs no lock of its own.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Writes one index's documents, in order; what it calls durable is durable when it returns. One outcome a document.
    ///
    /// A batch holds a document at most once. After an error the engine writes the same documents, or newer ones in their
    /// place, again: writing twice must do no harm.
    ///
    /// # Errors
    /// Nothing is known of any document of the batch.
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>>;

    /// What the sink can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    /// The progress kept where the documents are. `None`: the engine keeps it elsewhere.
    fn progress(&self) -> Option<&dyn ProgressStore> {
        None
    }

    /// Makes a place for each index, or checks it. Called before the first write of a run.
    ///
    /// # Errors
    /// When it can't be made or does not fit.
    async fn prepare(&self, _indexes: &[IndexMapping]) -> Result<()> {
        Ok(())
    }

    /// Looks whether [`prepare`](Self::prepare) would go well. Changes nothing, and holds nothing afterwards.
    ///
    /// # Errors
    /// As `prepare` would end.
    async fn inspect(&self, _indexes: &[IndexMapping]) -> Result<()> {
        Ok(())
    }

    /// Removes every document of an index, durably: the root table was truncated, or a refill by
    /// [`Refill::Clear`] begins.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    async fn clear(&self, _index: &IndexName, _version: Version) -> Result<()> {
        Ok(())
    }

    /// Begins to fill an index anew. Calling it again for the same generation does nothing.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    async fn begin_generation(&self, _index: &IndexMapping, _generation: Generation) -> Result<()> {
        Ok(())
    }

    /// Ends it: swaps the alias, or sweeps what the refill did not write. Calling it again does nothing.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    async fn finish_generation(&self, _index: &IndexName, _generation: Generation) -> Result<()> {
        Ok(())
    }

    /// Flushes and releases. The last call of a run.
    ///
    /// # Errors
    /// When what was not yet called durable could not be written; nothing that was called durable is affected.
    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Documents of one index to write together.
#[derive(Debug)]
pub struct WriteBatch {
    /// Their index.
    pub index: IndexName,
    /// The filling that they belong to.
    pub generation: Generation,
    /// The documents, each at most once.
    pub documents: Vec<Document>,
}

/// What became of one document.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Safe. A conflict with an equal or newer version of our own is success.
    Durable,
    /// Not now: try this one again, not before so long.
    Retry(Duration),
    /// Never: the reason, without the document's contents.
    Rejected(String),
    /// Too large for this sink in a batch; alone it is then rejected.
    TooLarge,
}

/// What a sink can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// True when it keeps versions and refuses older ones.
    pub versions: bool,
    /// How an index is filled again.
    pub refill: Refill,
    /// Bytes of documents in one batch, at most; a single larger document comes alone.
    pub batch_bytes_max: usize,
}

impl Default for Capabilities {
    /// No versions, refilled in place, batches of up to 4 MiB.
    fn default() -> Self {
        Self { versions: false, refill: Refill::None, batch_bytes_max: 4 * 1024 * 1024 }
    }
}

impl Capabilities {
    /// The same with another way to refill.
    #[must_use]
    pub fn with_refill(mut self, refill: Refill) -> Self {
        self.refill = refill;
        self
    }

    /// The same, keeping versions or not.
    #[must_use]
    pub fn with_versions(mut self, versions: bool) -> Self {
        self.versions = versions;
        self
    }

    /// The same with another bound of a batch, in bytes.
    #[must_use]
    pub fn with_batch_bytes_max(mut self, bytes: usize) -> Self {
        self.batch_bytes_max = bytes;
        self
    }
}

/// How a sink is filled again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refill {
    /// Two generations live beside each other; finishing swaps them.
    Alias,
    /// In place; finishing removes what was not written since it began.
    Sweep,
    /// It is emptied first.
    Clear,
    /// In place; what is gone from the source stays.
    None,
}
