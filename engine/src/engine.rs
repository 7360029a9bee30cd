use std::sync::Arc;
use std::time::Duration;

use millstream_actors::{IndexEvent, Meters, Waits};
use millstream_cdc::SourceIdentity;
use millstream_core::SourceErrorKind;
use millstream_model::IndexName;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::builder::{EngineBuilder, OnGap};
use crate::error::{Drained, EndReason, StartError};
use crate::finding::Finding;
use crate::parts::Parts;
use crate::source_control::SourceControl;
use crate::status::{EngineState, EngineStatus, StatusBook};
use crate::supervisor::{Control, Desks, Supervisor};
use crate::{start, status};

/// An engine that has not been started.
pub struct Engine {
    parts: Parts,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("name", &self.parts.name).finish_non_exhaustive()
    }
}

impl Engine {
    /// Begins to put an engine together. The name labels every metric.
    pub fn builder(name: &str) -> EngineBuilder {
        EngineBuilder::new(name)
    }

    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// What keeps it from starting beside what its source's own check tells, and what a start would do by itself: whether the sinks
    /// can be written, and whether the source goes on where they left it. Changes nothing.
    ///
    /// # Errors
    /// When the source can't be asked.
    pub async fn check(&self) -> Result<Vec<Finding>, StartError> {
        self.look(true).await
    }

    /// The same, asking the source only if it will answer.
    pub(crate) async fn look(&self, ask_source: bool) -> Result<Vec<Finding>, StartError> {
        let parts = &self.parts;
        let (progress, refused) = start::look_at_sinks(parts).await;
        let mut found: Vec<Finding> = refused.iter().map(Finding::of_sink).collect();
        // Without all of the progress nobody knows what is gone on from.
        if !ask_source || progress.len() < parts.sinks.len() {
            return Ok(found);
        }
        found.extend(start::changed(parts, &progress).into_iter().map(Finding::of_refill));
        let looked = match start::outlook(parts, &progress).await {
            Ok(outlook) => {
                found.extend(outlook.gap.as_deref().map(Finding::of_answered_gap));
                found.extend(outlook.behind.iter().map(|sink| Finding::of_sink_behind(sink)));
                parts.capture.inspect(outlook.mode, start::memo(&progress).as_deref()).await
            }
            Err(error) => Err(error),
        };
        match looked {
            Err(error) if error.kind() == SourceErrorKind::Connection => return Err(error.into()),
            Err(error) if error.kind() == SourceErrorKind::Gap && parts.on_gap == OnGap::Backfill => {
                found.push(Finding::of_answered_gap(&error.to_string()));
            }
            Err(error) => found.push(Finding::of_source(&error)),
            Ok(()) => {}
        }
        Ok(found)
    }

    /// Starts it, once its indexes are held against the source. Metrics go to the recorder that is installed now.
    ///
    /// A source that can't be reached, or that another engine holds, is no error: the handle's status says so, and the engine goes
    /// on trying.
    ///
    /// # Errors
    /// When an index that was never filled does not agree with the source, or when trying again can't help.
    pub async fn start(self) -> Result<Handle, StartError> {
        let parts = Arc::new(self.parts);
        let names: Vec<IndexName> = parts.spec.indexes().map(|index| index.name.clone()).collect();
        let meters = Meters::new(&parts.name, &names, parts.sinks.iter().map(|sink| &*sink.name));
        metrics::gauge!("millstream_build_info", "engine" => parts.name.to_string(), "version" => env!("CARGO_PKG_VERSION")).set(1.0);
        match start::look(&parts).await {
            Ok(()) => {}
            Err(StartError::Source(error)) if error.kind() == SourceErrorKind::Connection => {
                tracing::warn!(%error, "the source can't be reached; trying again");
                parts.board.set_error(format_args!("source: {error}"));
            }
            Err(error) => return Err(error),
        }
        let book = Arc::new(StatusBook::new());
        book.update(&parts, |run| run.state = EngineState::Starting);
        let (paused, paused_rx) = watch::channel(false);
        let control =
            Control { shutdown: CancellationToken::new(), abort: CancellationToken::new(), paused: paused_rx };
        let (ended, ended_rx) = watch::channel(None);
        let desks = Desks::default();
        let waits = Waits::between(
            parts.settings.retry_first.max(Duration::from_millis(250)),
            Duration::from_secs(30),
            parts.seed,
        );
        let supervisor = Supervisor::new(parts.clone(), meters, book.clone(), control.clone(), desks.clone(), waits);
        let ticking = book.clone();
        tokio::spawn(async move {
            let reason = tokio::select! {
                biased;
                reason = supervisor.run() => reason,
                never = ticking.tick() => match never {},
            };
            ended.send_replace(Some(Arc::new(reason)));
        });
        Ok(Handle { parts, book, control, paused: Arc::new(paused), ended: ended_rx, desks })
    }
}

/// Talks to a running engine. Cloning it gives another handle of the same engine; dropping the last does not stop it.
#[derive(Clone)]
pub struct Handle {
    parts: Arc<Parts>,
    book: Arc<StatusBook>,
    control: Control,
    paused: Arc<watch::Sender<bool>>,
    ended: watch::Receiver<Option<Arc<EndReason>>>,
    desks: Desks,
}

impl Handle {
    /// What the engine is doing now.
    pub fn status(&self) -> EngineStatus {
        self.book.snapshot(&self.parts)
    }

    /// Follows what it is doing: a new value at least every quarter of a second while it runs.
    pub fn status_watch(&self) -> watch::Receiver<status::EngineStatus> {
        self.book.watch()
    }

    /// How long ago the supervisor was last seen at work: a second at most while it is well, whatever it waits for.
    pub fn last_tick(&self) -> Duration {
        self.book.last_tick()
    }

    /// Asks the source which one it is, where its head is and where the durable point stands. Cancel safe.
    ///
    /// # Errors
    /// When the source can't be asked.
    pub async fn source_identity(&self) -> millstream_core::Result<SourceIdentity> {
        self.parts.capture.identity().await
    }

    /// What gives orders to the source, where it takes some.
    pub fn source(&self) -> Option<Arc<dyn SourceControl>> {
        self.parts.control.clone()
    }

    /// Takes no more changes; what is under way is finished. The source keeps its log meanwhile.
    pub fn pause(&self) {
        self.paused.send_replace(true);
        self.book.update(&self.parts, |run| {
            if run.state == EngineState::Running {
                run.state = EngineState::Paused;
            }
        });
    }

    /// Takes changes again.
    pub fn resume(&self) {
        self.paused.send_replace(false);
        self.book.update(&self.parts, |run| {
            if run.state == EngineState::Paused {
                run.state = EngineState::Running;
            }
        });
    }

    /// Fills an index again, in every sink. Returns when that is noted, not when it is done; false when there is no such index or
    /// the engine is not at work.
    pub async fn backfill(&self, index: &str) -> bool {
        match self.desks.get(&IndexName::new(index)) {
            Some(desk) => desk.tell(IndexEvent::Refill { reason: "a backfill was asked for".to_owned() }).await,
            None => false,
        }
    }

    /// Waits until the engine has ended for good. Cancel safe.
    pub async fn wait(&self) -> Arc<EndReason> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().expect("waited for it"),
            Err(_) => Arc::new(EndReason::Shutdown(Drained::Aborted)),
        }
    }

    /// Finishes what is under way, at most for so long, then stops. Waits until every task has ended.
    pub async fn shutdown(&self, deadline: Duration) -> Arc<EndReason> {
        self.control.shutdown.cancel();
        match tokio::time::timeout(deadline, self.wait()).await {
            Ok(reason) => reason,
            Err(_) => {
                self.control.abort.cancel();
                self.wait().await
            }
        }
    }
}
