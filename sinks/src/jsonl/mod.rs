//! Documents as JSON Lines, in a file or on standard output.

mod file;
mod line;
mod stdout;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use millstream_model::{IndexMapping, IndexName, Version};

use self::file::FileStore;
use self::stdout::StdoutStore;
use crate::files::blocking;
use crate::{Capabilities, Outcome, Progress, ProgressStore, Refill, Result, Sink, WriteBatch};

/// Writes one line a document: `{"index":"users","op":"upsert","id":"42","version":12345,"doc":{…}}`, `"op":"delete"` without
/// `doc`, and `{"index":"users","op":"clear","version":…}` where every document of an index goes. The last line wins.
///
/// A document's text is passed through untouched. One that holds a line break is rejected: it would break the file's lines.
///
/// All work on the file is done under one lock on a thread for blocking work. A call that was begun runs to its end even if its
/// future is dropped, and the next call waits for it: once [`close`](Sink::close) has returned, nothing writes any more.
pub struct JsonlSink {
    // Held by the thread that works on the file, never across an await.
    store: Arc<Mutex<Store>>,
}

/// Where the lines go.
enum Store {
    File(FileStore),
    Stdout(StdoutStore),
}

impl JsonlSink {
    /// Appends to a file, made durable by fsync before a document is called durable. Nothing is opened yet.
    ///
    /// [`Progress`] is kept beside the file (`<path>.progress.json`), with the offset up to which the lines were durable when
    /// it was saved. When the file is opened it is cut back to that offset: lines beyond were never confirmed to the source.
    /// If it is missing or shorter, or no line ends there, all its indexes are filled again. While another process has the
    /// file, opening it says [`Held`](crate::SinkErrorKind::Held), which the engine waits out. A full disk leaves no torn line
    /// and is tried again; a failed fsync is final until the next run opens the file anew.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self { store: Arc::new(Mutex::new(Store::File(FileStore::new(path.into())))) }
    }

    /// Writes to standard output. Nothing is remembered beyond this process, so each start fills every index again.
    ///
    /// Redirected into a file it is made durable by fsync; in a pipe a document is durable once the pipe has taken it. A
    /// reader that went away, or any other failed write, is final: part of a line may be out.
    pub fn stdout() -> Self {
        Self { store: Arc::new(Mutex::new(Store::Stdout(StdoutStore::new()))) }
    }

    #[cfg(test)]
    fn over(store: StdoutStore) -> Self {
        Self { store: Arc::new(Mutex::new(Store::Stdout(store))) }
    }

    async fn with<T: Send + 'static>(&self, work: impl FnOnce(&mut Store) -> Result<T> + Send + 'static) -> Result<T> {
        let store = self.store.clone();
        // A poisoned lock is taken all the same: the store notes down a write before it begins it.
        blocking(move || work(&mut store.lock().unwrap_or_else(PoisonError::into_inner))).await
    }

    async fn append(&self, lines: Vec<u8>) -> Result<()> {
        self.with(move |store| match store {
            Store::File(file) => file.append(&lines),
            Store::Stdout(stdout) => stdout.append(&lines),
        })
        .await
    }
}

#[async_trait]
impl Sink for JsonlSink {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        let (lines, outcomes) = line::batch(batch);
        if !lines.is_empty() {
            self.append(lines).await?;
        }
        Ok(outcomes)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_refill(Refill::Clear)
    }

    fn progress(&self) -> Option<&dyn ProgressStore> {
        Some(self)
    }

    async fn prepare(&self, _indexes: &[IndexMapping]) -> Result<()> {
        self.with(|store| match store {
            Store::File(file) => file.ready(),
            Store::Stdout(stdout) => stdout.ready(),
        })
        .await
    }

    async fn inspect(&self, _indexes: &[IndexMapping]) -> Result<()> {
        self.with(|store| match store {
            Store::File(file) => file.inspect(),
            Store::Stdout(_) => Ok(()),
        })
        .await
    }

    async fn clear(&self, index: &IndexName, version: Version) -> Result<()> {
        self.append(line::clear(index, version)).await
    }

    async fn close(&self) -> Result<()> {
        self.with(|store| {
            match store {
                Store::File(file) => file.close(),
                Store::Stdout(stdout) => stdout.close(),
            }
            Ok(())
        })
        .await
    }
}

#[async_trait]
impl ProgressStore for JsonlSink {
    async fn load(&self) -> Result<Option<Progress>> {
        self.with(|store| match store {
            Store::File(file) => file.load(),
            Store::Stdout(stdout) => Ok(stdout.load()),
        })
        .await
    }

    async fn peek(&self) -> Result<Option<Progress>> {
        self.with(|store| match store {
            Store::File(file) => file.peek(),
            Store::Stdout(stdout) => Ok(stdout.load()),
        })
        .await
    }

    async fn save(&self, progress: &Progress) -> Result<()> {
        let progress = progress.clone();
        self.with(move |store| match store {
            Store::File(file) => file.save(progress),
            Store::Stdout(stdout) => stdout.save(progress),
        })
        .await
    }
}

#[cfg(test)]
mod tests;
