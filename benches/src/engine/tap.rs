use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

use async_trait::async_trait;
use millstream::model::{Generation, IndexMapping, IndexName, Version};
use millstream::sinks::{Capabilities, Outcome, ProgressStore, Result, Sink, WriteBatch};

use super::Event;
use crate::clock::now_ns;

/// Hands everything on to another sink and tells when it was durable there.
pub(super) struct Tap<S> {
    pub inner: S,
    pub told: Sender<Event>,
    pub last_write: Arc<AtomicU64>,
    /// Tell of every document, not only when the last one was written.
    pub each: bool,
}

#[async_trait]
impl<S: Sink> Sink for Tap<S> {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        let outcomes = self.inner.write(batch).await?;
        let at = now_ns();
        self.last_write.store(at, Ordering::Relaxed);
        if self.each {
            for document in &batch.documents {
                let event = Event::Written(batch.index.as_str().to_owned(), document.key.to_id(), at);
                // Nobody listens any more when the process is ending.
                let _ = self.told.send(event);
            }
        }
        Ok(outcomes)
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn progress(&self) -> Option<&dyn ProgressStore> {
        self.inner.progress()
    }

    async fn prepare(&self, indexes: &[IndexMapping]) -> Result<()> {
        self.inner.prepare(indexes).await
    }

    async fn clear(&self, index: &IndexName, version: Version) -> Result<()> {
        self.inner.clear(index, version).await
    }

    async fn begin_generation(&self, index: &IndexMapping, generation: Generation) -> Result<()> {
        self.inner.begin_generation(index, generation).await?;
        let _ = self.told.send(Event::Begun(index.index.to_string(), now_ns()));
        Ok(())
    }

    async fn finish_generation(&self, index: &IndexName, generation: Generation) -> Result<()> {
        self.inner.finish_generation(index, generation).await?;
        let _ = self.told.send(Event::Finished(index.to_string(), now_ns()));
        Ok(())
    }

    async fn close(&self) -> Result<()> {
        self.inner.close().await
    }
}
