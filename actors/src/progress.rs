use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_model::{Epoch, IndexName, Position, Version};
use millstream_sinks::{IndexProgress, Progress, ProgressStore};
use tokio::sync::oneshot;

use crate::retry::Waits;
use crate::{Failure, Settings, SinkSet, Versions};

/// One sink's progress: where it is kept, and what is kept there now.
pub struct SinkProgress {
    /// The sink's name.
    pub name: String,
    /// Where.
    pub store: Arc<dyn ProgressStore>,
    /// What.
    pub progress: Progress,
}

/// The way to the progress actor.
#[derive(Clone, Debug)]
pub struct ProgressDesk(flume::Sender<Request>);

#[derive(Debug)]
struct Request {
    change: Change,
    done: oneshot::Sender<()>,
}

#[derive(Debug)]
enum Change {
    Position(Position),
    Memo(String),
    Index { index: IndexName, sinks: SinkSet, progress: IndexProgress },
}

impl ProgressDesk {
    /// The desk and the mailbox behind it.
    pub fn open(places: usize) -> (Self, ProgressMailbox) {
        let (tx, rx) = flume::bounded(places);
        (Self(tx), ProgressMailbox(rx))
    }

    /// Saves, in every sink, a position that may then be confirmed. True once durable; false when the run is ending.
    pub async fn save_position(&self, position: Position) -> bool {
        self.save(Change::Position(position)).await
    }

    /// Saves, in every sink, what the capture is to be given by the next run. True once durable; false when the run is ending.
    pub async fn save_memo(&self, memo: String) -> bool {
        self.save(Change::Memo(memo)).await
    }

    /// Saves an index's progress in some sinks. True once durable; false when the run is ending.
    pub async fn save_index(&self, index: IndexName, sinks: SinkSet, progress: IndexProgress) -> bool {
        self.save(Change::Index { index, sinks, progress }).await
    }

    async fn save(&self, change: Change) -> bool {
        let (done, saved) = oneshot::channel();
        self.0.send_async(Request { change, done }).await.is_ok() && saved.await.is_ok()
    }
}

/// What the progress actor reads.
#[derive(Debug)]
pub struct ProgressMailbox(flume::Receiver<Request>);

/// Owns what must outlive a run: positions before they are confirmed, the state of each index, the epoch. The only one who
/// writes a progress store; knows nothing of documents.
///
/// Requests that wait together are saved together. A store that fails is tried again for ever: nothing is confirmed meanwhile.
pub struct ProgressActor {
    sinks: Vec<SinkProgress>,
    mailbox: ProgressMailbox,
    versions: Versions,
    settings: Settings,
}

/// Versions that may be handed out before the next save: an epoch is saved that many ahead of its use.
const VERSIONS_AHEAD: u64 = 1 << 31;

impl ProgressActor {
    /// An actor over the sinks, in the order of their numbers.
    pub fn new(sinks: Vec<SinkProgress>, mailbox: ProgressMailbox, versions: Versions, settings: Settings) -> Self {
        Self { sinks, mailbox, versions, settings }
    }

    /// Serves until every desk is gone.
    ///
    /// # Errors
    /// None: what can't be saved is tried again.
    pub async fn run(mut self) -> Result<(), Failure> {
        while let Ok(first) = self.mailbox.0.recv_async().await {
            let requests: Vec<Request> = std::iter::once(first).chain(self.mailbox.0.drain()).collect();
            let mut changed = SinkSet::default();
            for request in &requests {
                changed = changed.union(self.apply(&request.change));
            }
            for sink in changed.iter() {
                self.save(sink).await;
            }
            for request in requests {
                let _ = request.done.send(());
            }
        }
        Ok(())
    }

    /// Changes what is kept in memory; returns the sinks to save.
    fn apply(&mut self, change: &Change) -> SinkSet {
        match change {
            Change::Position(position) => {
                for source in self.sinks.iter_mut().filter_map(|sink| sink.progress.source.as_mut()) {
                    source.position = source.position.max(*position);
                }
                SinkSet::all(self.sinks.len())
            }
            Change::Memo(memo) => {
                self.sinks.iter_mut().for_each(|sink| sink.progress.memo = Some(memo.clone()));
                SinkSet::all(self.sinks.len())
            }
            Change::Index { index, sinks, progress } => {
                for (_, sink) in self.sinks.iter_mut().enumerate().filter(|(number, _)| sinks.contains(*number)) {
                    sink.progress.indexes.insert(index.clone(), progress.clone());
                }
                *sinks
            }
        }
    }

    async fn save(&mut self, sink: usize) {
        let ahead: Epoch = Version(self.versions.last().0 + VERSIONS_AHEAD).epoch();
        let Some(sink) = self.sinks.get_mut(sink) else { return };
        sink.progress.epoch = sink.progress.epoch.max(ahead);
        sink.progress.format = Progress::FORMAT;
        save(sink, &self.settings).await;
    }
}

/// Saves one sink's progress, trying again for ever.
pub async fn save(sink: &SinkProgress, settings: &Settings) {
    let mut waits = Waits::new(settings, 0);
    while let Err(error) = sink.store.save(&sink.progress).await {
        tracing::warn!(sink = sink.name, %error, "progress could not be saved; trying again");
        tokio::time::sleep(waits.longer()).await;
    }
}

/// The highest epoch that any of them keeps.
pub fn highest_epoch(sinks: &[SinkProgress]) -> Epoch {
    sinks.iter().map(|sink| sink.progress.epoch).max().unwrap_or_default()
}

/// What each sink keeps of one index, by the sinks' numbers.
pub fn of_index<'a>(sinks: &'a [SinkProgress], index: &IndexName) -> BTreeMap<usize, &'a IndexProgress> {
    let kept =
        |(number, sink): (usize, &'a SinkProgress)| sink.progress.indexes.get(index).map(|progress| (number, progress));
    sinks.iter().enumerate().filter_map(kept).collect()
}
