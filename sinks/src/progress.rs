use std::collections::BTreeMap;

use async_trait::async_trait;
use millstream_model::{Epoch, Generation, IndexName, SourcePoint};
use serde::{Deserialize, Serialize};

use crate::Result;

/// Keeps [`Progress`], durably.
#[async_trait]
pub trait ProgressStore: Send + Sync {
    /// What was saved last, less the indexes whose documents are no longer there; `None` when nothing ever was.
    ///
    /// # Errors
    /// When it can't be read or understood.
    async fn load(&self) -> Result<Option<Progress>>;

    /// What [`load`](Self::load) would give. Changes nothing, and holds nothing afterwards.
    ///
    /// # Errors
    /// As `load`.
    async fn peek(&self) -> Result<Option<Progress>> {
        self.load().await
    }

    /// Replaces what is kept, whole or not at all; durable when it returns.
    ///
    /// # Errors
    /// What was kept before is still there.
    async fn save(&self, progress: &Progress) -> Result<()>;
}

/// What is kept about one sink's documents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Version of this format. A newer one than ours is refused.
    pub format: u32,
    /// The highest epoch in which anything may have been written.
    pub epoch: Epoch,
    /// Which source the documents came from.
    pub source: Option<SourcePoint>,
    /// What the capture asked to be given back: how the tables looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memo: Option<String>,
    /// Each index's own.
    pub indexes: BTreeMap<IndexName, IndexProgress>,
}

impl Progress {
    /// The format that this version writes.
    pub const FORMAT: u32 = 1;
}

/// What is kept about one index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexProgress {
    /// Version of how the two hashes are made: with another one they are taken over, not compared.
    pub hash_version: u32,
    /// Hash of the normalised schema that it was filled with.
    pub schema_hash: String,
    /// Hash of the mapping that it was filled with.
    pub mapping_hash: String,
    /// The filling that serves or is being made.
    pub generation: Generation,
    /// How far filling got.
    pub state: FillState,
}

/// How far an index is filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FillState {
    /// Must be filled (again): why.
    NeedsBackfill(String),
    /// Being filled: all keys up to this one are durable; `None`: none yet.
    Backfilling(Option<Vec<(String, String)>>),
    /// In step.
    Live,
}
