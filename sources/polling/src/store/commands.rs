//! Commands that were received, and what came of them: one that is delivered again is not run again.

use millstream_core::Result;
use serde::Serialize;
use serde_json::Value as Json;

use super::Store;
use super::sql::{SqlRow, values};
use crate::model::Timestamp;

/// How far a command is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CommandState {
    /// Taken, not yet done.
    Running,
    /// Done.
    Done,
    /// It failed; it is not run again.
    Failed,
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CommandOutcome {
    /// How far it is.
    pub state: CommandState,
    /// Its result, or `{"error": "…"}`.
    pub result: Json,
}

/// A command as it is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptCommand {
    pub id: String,
    pub name: String,
    pub payload: Json,
}

/// What to do with a command that came in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Received {
    /// Run it.
    New,
    /// It came before: this came of it so far.
    Known(CommandOutcome),
}

impl Store {
    /// Notes a command before it runs.
    pub(crate) async fn receive(&self, command: &KeptCommand, at: Timestamp) -> Result<Received> {
        const RECEIVE: &str = "insert into millstream_commands (id, name, payload, state, received) \
                               values ($1, $2, $3, 'running', $4) on conflict (id) do nothing";
        let payload = command.payload.to_string();
        let values = values![command.id.as_str(), command.name.as_str(), payload, at.micros()];
        if self.sql().execute(RECEIVE, &values).await? > 0 {
            return Ok(Received::New);
        }
        match self.outcome(&command.id).await? {
            Some(outcome) => Ok(Received::Known(outcome)),
            None => Ok(Received::New),
        }
    }

    /// Keeps what came of a command.
    pub(crate) async fn finish(&self, id: &str, outcome: &CommandOutcome, at: Timestamp) -> Result<()> {
        let state = match outcome.state {
            CommandState::Running => "running",
            CommandState::Done => "done",
            CommandState::Failed => "failed",
        };
        const FINISH: &str = "update millstream_commands set state = $2, result = $3, ended = $4 where id = $1";
        self.sql().execute(FINISH, &values![id, state, outcome.result.to_string(), at.micros()]).await?;
        Ok(())
    }

    /// What came of a command so far; `None`: nobody sent it.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn outcome(&self, id: &str) -> Result<Option<CommandOutcome>> {
        let rows =
            self.sql().fetch("select state, result from millstream_commands where id = $1", &values![id]).await?;
        rows.first().map(read).transpose()
    }

    /// Forgets commands that ended before a moment.
    pub(crate) async fn forget_commands(&self, before: Timestamp) -> Result<()> {
        const FORGET: &str = "delete from millstream_commands where ended < $1";
        self.sql().execute(FORGET, &values![before.micros()]).await?;
        Ok(())
    }

    /// Commands that were taken and not done when the driver ended, in the order in which they came.
    pub(crate) async fn unfinished(&self) -> Result<Vec<KeptCommand>> {
        const LEFT: &str =
            "select id, name, payload from millstream_commands where state = 'running' order by received, id";
        let rows = self.sql().fetch(LEFT, &[]).await?;
        let of = |row: &SqlRow| {
            let payload = serde_json::from_str(&row.text(2)?).unwrap_or_default();
            Ok(KeptCommand { id: row.text(0)?, name: row.text(1)?, payload })
        };
        rows.iter().map(of).collect()
    }
}

fn read(row: &SqlRow) -> Result<CommandOutcome> {
    let state = match row.text(0)?.as_str() {
        "running" => CommandState::Running,
        "done" => CommandState::Done,
        _ => CommandState::Failed,
    };
    let result = row.text_or_null(1)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(CommandOutcome { state, result })
}
