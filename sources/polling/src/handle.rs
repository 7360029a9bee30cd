use std::sync::Arc;

use millstream_core::{Result, SourceError};
use serde::Serialize;
use serde_json::Value as Json;

use crate::capture::Shared;
use crate::model::{Mode, StreamKey, Timestamp};
use crate::store::{CommandOutcome, CommandState, KeptCommand, KeptReport, Received};

/// An order to the driver or to the backend.
#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    /// Names it: one that is sent again within 90 days is not run again.
    pub id: String,
    /// `pause`, `resume`, `trigger`, `full`, `resync`, `release_brake`, `audit`, `set_interval`, or one of the backend's own.
    pub name: String,
    /// `resync` and `release_brake`: `{"streams": ["name"]}`; `set_interval`: `{"seconds": 60}`; the backend's own: as it likes.
    pub payload: Json,
}

impl Command {
    /// A command without a payload.
    pub fn new(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: id.into(), name: name.into(), payload: Json::Null }
    }

    /// Adds a payload.
    #[must_use]
    pub fn with_payload(mut self, payload: Json) -> Self {
        self.payload = payload;
        self
    }
}

/// One stream, as it stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StreamStatus {
    /// Its key.
    pub key: StreamKey,
    /// How its rows follow the source.
    pub mode: Mode,
    /// True: the source no longer has it.
    pub gone: bool,
    /// The newest acked instant.
    pub since: Option<Timestamp>,
    /// Why the brake is on.
    pub brake: Option<String>,
}

/// Commands, reports and the state of streams, for a host. Cheap to clone.
#[derive(Clone)]
pub struct PollingHandle {
    shared: Arc<Shared>,
}

impl PollingHandle {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Sends a command and waits until it is done; one that came before is not run again, and answers what it came to then.
    ///
    /// Dropping the future is safe: the command goes on, and [`outcome`](Self::outcome) tells of it.
    ///
    /// # Errors
    /// When the store fails, or no driver is running.
    pub async fn command(&self, command: Command) -> Result<CommandOutcome> {
        // Armed before it is sent.
        let mut ended = self.shared.ended.subscribe();
        let id = command.id.clone();
        let mut outcome = self.submit(command).await?;
        while outcome.state == CommandState::Running {
            // The sender lives in `self`.
            let _ = ended.changed().await;
            outcome = self.outcome(&id).await?.unwrap_or(outcome);
        }
        Ok(outcome)
    }

    /// Sends a command and does not wait for it.
    ///
    /// # Errors
    /// When the store fails, or no driver is running.
    pub async fn submit(&self, command: Command) -> Result<CommandOutcome> {
        let store = self.shared.store().await?;
        if let Some(known) = store.outcome(&command.id).await? {
            return Ok(known);
        }
        let not_running =
            || SourceError::setup("no driver is running to take the command").with_remedy("start the engine");
        let inbox = self.shared.inbox().ok_or_else(not_running)?;
        // A place first: what was noted must also run.
        let place = inbox.reserve().await.map_err(|_| not_running())?;
        let command = KeptCommand { id: command.id, name: command.name, payload: command.payload };
        match store.receive(&command, self.shared.settings().now()).await? {
            Received::Known(outcome) => Ok(outcome),
            Received::New => {
                place.send(command);
                Ok(CommandOutcome { state: CommandState::Running, result: Json::Null })
            }
        }
    }

    /// What came of a command so far; `None`: nobody sent it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn outcome(&self, id: &str) -> Result<Option<CommandOutcome>> {
        self.shared.store().await?.outcome(id).await
    }

    /// The last reports, newest first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn reports(&self, limit: u32) -> Result<Vec<KeptReport>> {
        self.shared.store().await?.reports(limit).await
    }

    /// Every stream that was ever registered, in order of its key.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn streams(&self) -> Result<Vec<StreamStatus>> {
        let streams = self.shared.store().await?.streams().await?;
        let of = |stream: crate::store::Registered| StreamStatus {
            key: stream.stream.key().clone(),
            mode: stream.mode,
            gone: stream.gone,
            since: stream.since,
            brake: stream.brake,
        };
        Ok(streams.into_iter().map(of).collect())
    }

    /// True when no cycle begins by itself.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn is_paused(&self) -> Result<bool> {
        Ok(self.shared.store().await?.kept().await?.paused)
    }
}
