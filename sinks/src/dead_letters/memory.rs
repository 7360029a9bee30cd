use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use super::{DeadLetter, DeadLetters, fold};
use crate::Result;

/// Keeps dead letters in memory, for tests. Clones share what they keep.
#[derive(Clone, Debug, Default)]
pub struct MemoryDeadLetters {
    letters: Arc<Mutex<Vec<DeadLetter>>>,
}

impl MemoryDeadLetters {
    /// Keeps none yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// All that were written, in order, resolved ones included.
    pub fn written(&self) -> Vec<DeadLetter> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl DeadLetters for MemoryDeadLetters {
    async fn write(&self, letters: &[DeadLetter]) -> Result<()> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(letters);
        Ok(())
    }

    async fn open(&self) -> Result<Vec<DeadLetter>> {
        Ok(fold(self.written()))
    }
}
