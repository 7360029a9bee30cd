use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;

use crate::{Outcome, Result, Sink, WriteBatch};

/// Calls every document durable and keeps none: what everything but the sink costs.
#[derive(Debug, Default)]
pub struct NullSink {
    documents: AtomicU64,
    bytes: AtomicU64,
}

impl NullSink {
    /// A sink that has taken nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Documents taken so far, tombstones included.
    pub fn documents(&self) -> u64 {
        self.documents.load(Ordering::Relaxed)
    }

    /// Bytes taken so far, as [`Document::size`](millstream_model::Document::size) counts them.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Sink for NullSink {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        let bytes: usize = batch.documents.iter().map(|document| document.size()).sum();
        self.documents.fetch_add(batch.documents.len() as u64, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(vec![Outcome::Durable; batch.documents.len()])
    }
}
