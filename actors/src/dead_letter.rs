use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::FixedState;
use millstream_model::{DocumentId, IndexName, RowKey, Version};
use millstream_sinks::{DeadLetter, DeadLetterState, DeadLetters};
use tokio::sync::oneshot;

use crate::retry::Waits;
use crate::{Failure, Settings};

/// The way to the dead-letter actor.
#[derive(Clone, Debug)]
pub struct DeadLetterDesk {
    requests: flume::Sender<Request>,
    open: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Request {
    Open { letters: Vec<DeadLetter>, done: oneshot::Sender<()> },
    Written { sink: Arc<str>, index: IndexName, documents: Vec<(RowKey, Version)>, done: oneshot::Sender<()> },
}

impl DeadLetterDesk {
    /// Writes letters durably. True once they are; false when the run is ending.
    pub async fn write(&self, letters: Vec<DeadLetter>) -> bool {
        let (done, written) = oneshot::channel();
        self.requests.send_async(Request::Open { letters, done }).await.is_ok() && written.await.is_ok()
    }

    /// Open letters, for status pages.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A look at the number of open letters that does not keep the actor alive.
    pub fn watch_open(&self) -> impl Fn() -> usize + Send + 'static {
        let open = self.open.clone();
        move || open.load(Ordering::Relaxed)
    }

    /// Tells that documents are durable in a sink, so that letters about them are resolved. Costs nothing while none is open.
    /// True once that is durable, too; false when the run is ending.
    pub async fn written(
        &self,
        sink: &Arc<str>,
        index: &IndexName,
        documents: impl Iterator<Item = (RowKey, Version)>,
    ) -> bool {
        if self.open() == 0 {
            return true;
        }
        let (done, resolved) = oneshot::channel();
        let request =
            Request::Written { sink: sink.clone(), index: index.clone(), documents: documents.collect(), done };
        self.requests.send_async(request).await.is_ok() && resolved.await.is_ok()
    }
}

type OpenKey = (DocumentId, Option<Arc<str>>);

/// Owns the dead letters: what is open, and the store behind. A store that fails is tried again for ever: the tickets of what
/// it should keep stay open meanwhile.
pub struct DeadLetterActor {
    store: Arc<dyn DeadLetters>,
    requests: flume::Receiver<Request>,
    open: HashMap<OpenKey, DeadLetter, FixedState>,
    count: Arc<AtomicUsize>,
    settings: Settings,
}

impl DeadLetterActor {
    /// An actor over a store, and the way to it. `open` is what the store said is open.
    pub fn new(
        store: Arc<dyn DeadLetters>,
        open: Vec<DeadLetter>,
        places: usize,
        settings: Settings,
    ) -> (Self, DeadLetterDesk) {
        let (tx, rx) = flume::bounded(places);
        let open: HashMap<_, _, _> = open.into_iter().map(|letter| (key_of(&letter), letter)).collect();
        let count = Arc::new(AtomicUsize::new(open.len()));
        let desk = DeadLetterDesk { requests: tx, open: count.clone() };
        (Self { store, requests: rx, open, count, settings }, desk)
    }

    /// Serves until every desk is gone.
    ///
    /// # Errors
    /// None: what can't be written is tried again.
    pub async fn run(mut self) -> Result<(), Failure> {
        while let Ok(request) = self.requests.recv_async().await {
            let done = match request {
                Request::Open { letters, done } => {
                    self.write(&letters).await;
                    self.open.extend(letters.into_iter().map(|letter| (key_of(&letter), letter)));
                    done
                }
                Request::Written { sink, index, documents, done } => {
                    self.resolve(&sink, &index, documents).await;
                    done
                }
            };
            self.count.store(self.open.len(), Ordering::Relaxed);
            let _ = done.send(());
        }
        Ok(())
    }

    /// A document that a sink has written was built, too: letters about its build and about that sink are resolved.
    async fn resolve(&mut self, sink: &Arc<str>, index: &IndexName, documents: Vec<(RowKey, Version)>) {
        let mut resolved = Vec::new();
        for (key, version) in documents {
            let id = DocumentId { index: index.clone(), key };
            for about in [None, Some(sink.clone())] {
                let at = (id.clone(), about);
                // What was read before the failure says nothing of it.
                let is_older = self.open.get(&at).is_some_and(|letter| letter.version < version);
                if is_older && let Some(letter) = self.open.remove(&at) {
                    resolved.push(DeadLetter { state: DeadLetterState::Resolved, version, ..letter });
                }
            }
        }
        if !resolved.is_empty() {
            self.write(&resolved).await;
        }
    }

    async fn write(&self, letters: &[DeadLetter]) {
        let mut waits = Waits::new(&self.settings, 0);
        while let Err(error) = self.store.write(letters).await {
            tracing::warn!(%error, letters = letters.len(), "dead letters could not be written; trying again");
            tokio::time::sleep(waits.longer()).await;
        }
    }
}

fn key_of(letter: &DeadLetter) -> OpenKey {
    let id = DocumentId { index: letter.index.clone(), key: letter.key.clone() };
    (id, letter.sink.as_deref().map(Arc::from))
}

#[cfg(test)]
mod tests {
    use millstream_model::{Epoch, KeyColumns, Text};
    use millstream_sinks::MemoryDeadLetters;

    use super::*;

    fn key() -> RowKey {
        RowKey::new(KeyColumns::from(vec![Text::from("id")]), [Text::from("1")])
    }

    #[tokio::test]
    async fn p11_an_older_write_does_not_resolve_a_newer_dead_letter() {
        let store = Arc::new(MemoryDeadLetters::new());
        let (actor, desk) = DeadLetterActor::new(store.clone(), Vec::new(), 1, Settings::default());
        let version = |sequence| Version::new(Epoch(1), sequence);
        let letter = DeadLetter {
            index: "users".into(),
            key: key(),
            kind: "build".to_owned(),
            reason: "division by zero".to_owned(),
            sink: None,
            attempts: 1,
            version: version(5),
            state: DeadLetterState::Open,
        };
        let told = async move {
            assert!(desk.write(vec![letter]).await);
            let sink: Arc<str> = "disk".into();
            assert!(desk.written(&sink, &"users".into(), [(key(), version(4))].into_iter()).await);
            assert_eq!(desk.open(), 1, "what was read before the failure says nothing of it");
            assert!(desk.written(&sink, &"users".into(), [(key(), version(6))].into_iter()).await);
            assert_eq!(desk.open(), 0);
            assert_eq!(store.written().last().map(|letter| letter.state), Some(DeadLetterState::Resolved));
            drop(desk);
        };
        let (ended, ()) = tokio::join!(actor.run(), told);
        ended.unwrap();
    }
}
