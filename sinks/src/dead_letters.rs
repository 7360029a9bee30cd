use async_trait::async_trait;
use millstream_model::{IndexName, RowKey, Version};

use crate::Result;

/// Keeps what could not be built or written.
#[async_trait]
pub trait DeadLetters: Send + Sync {
    /// Writes these, durably, in order.
    ///
    /// # Errors
    /// Nothing is known of any of them: they are written again.
    async fn write(&self, letters: &[DeadLetter]) -> Result<()>;

    /// Those that are open: written as such and not resolved since.
    ///
    /// # Errors
    /// When they can't be read.
    async fn open(&self) -> Result<Vec<DeadLetter>>;
}

/// A document that could not be built or written, or that now could.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    /// Its index.
    pub index: IndexName,
    /// Its root row's key.
    pub key: RowKey,
    /// What failed: `build` or `write`.
    pub kind: String,
    /// Why, without the document's contents.
    pub reason: String,
    /// The sink that rejected it; `None` when it could not be built.
    pub sink: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// The version that failed (or that succeeded).
    pub version: Version,
    /// Whether it still fails.
    pub state: DeadLetterState,
}

/// Whether a dead letter still fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeadLetterState {
    /// It does; the sink keeps what it had.
    Open,
    /// A later version was written.
    Resolved,
}
