use std::fmt;
use std::future::Future;

use millstream_core::{SourceError, SourceErrorKind};
use millstream_sinks::SinkError;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Alarm;

/// Why a run ended before it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The source failed.
    #[error("source: {0}")]
    Source(#[from] SourceError),
    /// A sink failed for good.
    #[error("sink {name}: {error}")]
    Sink {
        /// Its name.
        name: String,
        /// How.
        #[source]
        error: SinkError,
    },
    /// A ticket was dropped unsettled: a fault of ours, answered by a new run from the last ack.
    #[error("a ticket was dropped unsettled (stage={0}); this is a bug")]
    TicketDropped(&'static str),
    /// An actor panicked: a fault of ours, answered by a new run from the last ack.
    #[error("an actor panicked (actor={0}); this is a bug")]
    Panicked(String),
    /// An actor ended although nothing had asked it to.
    #[error("an actor ended early (actor={0})")]
    EndedEarly(String),
}

impl Failure {
    /// True when a new run can't help: somebody must mend something, or another engine has taken over.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Source(error) => !matches!(error.kind(), SourceErrorKind::Connection | SourceErrorKind::Query),
            Self::Sink { error, .. } => error.kind().is_permanent(),
            Self::TicketDropped(_) | Self::Panicked(_) | Self::EndedEarly(_) => false,
        }
    }

    /// A fixed word for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Source(error) => error.kind().as_str(),
            Self::Sink { error, .. } => error.kind().as_str(),
            Self::TicketDropped(_) => "ticket_dropped",
            Self::Panicked(_) => "panic",
            Self::EndedEarly(_) => "ended_early",
        }
    }
}

/// How the engine talks to all actors of a run at once.
#[derive(Clone, Debug, Default)]
pub struct Signals {
    /// Take nothing new; finish what is under way.
    pub drain: CancellationToken,
    /// Nothing new will come: end when nothing is held.
    pub finish: CancellationToken,
    /// Stop now.
    pub abort: CancellationToken,
    /// Raised by a lost ticket.
    pub alarm: Alarm,
}

/// How one actor ended.
#[derive(Debug)]
pub struct Ended {
    /// Its name.
    pub actor: String,
    /// `Ok`: it had nothing left to do.
    pub result: Result<(), Failure>,
}

/// All actors of one run. Dropping it aborts them.
#[derive(Default)]
pub struct Actors {
    tasks: JoinSet<Ended>,
    names: Vec<(tokio::task::Id, String)>,
}

impl fmt::Debug for Actors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Actors").field("running", &self.tasks.len()).finish()
    }
}

impl Actors {
    /// Spawns one.
    pub fn spawn<F>(&mut self, name: impl Into<String>, actor: F)
    where
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let name = name.into();
        let own = name.clone();
        let handle = self.tasks.spawn(async move { Ended { actor: own, result: actor.await } });
        self.names.push((handle.id(), name));
    }

    /// Waits for the next one to end; `None` when all have. A panic is an end, too. Cancel safe.
    pub async fn next(&mut self) -> Option<Ended> {
        match self.tasks.join_next_with_id().await? {
            Ok((_, ended)) => Some(ended),
            Err(error) => {
                let name = self.names.iter().find(|(id, _)| *id == error.id()).map(|(_, name)| name.clone());
                let actor = name.unwrap_or_default();
                let result = if error.is_cancelled() { Ok(()) } else { Err(Failure::Panicked(actor.clone())) };
                Some(Ended { actor, result })
            }
        }
    }

    /// Ends those that are left at their next await, and waits until every one has ended.
    pub async fn abort(&mut self) {
        self.tasks.abort_all();
        while self.tasks.join_next().await.is_some() {}
    }
}
