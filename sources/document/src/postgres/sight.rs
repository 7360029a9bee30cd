//! What a statement could see, on a primary and on a standby.

use std::sync::atomic::{AtomicBool, Ordering};

use millstream_core::{Result, SourceError};
use millstream_model::Position;
use millstream_postgres::sqlx::{self, postgres::PgConnection};
use millstream_postgres::{Snapshot, classify};

/// The expression that a reading statement shows once: its snapshot, and whether the server is a standby.
pub(super) const SIGHT: &str =
    "pg_current_snapshot()::text || case when pg_is_in_recovery() then ' standby' else '' end";

/// Whether the node that is read is a standby: found out by the reads themselves, so that a primary is never asked twice.
#[derive(Default)]
pub(super) struct Node {
    standby: AtomicBool,
}

/// How far a standby had replayed before the statement began; `None` on what was last known as a primary.
#[derive(Clone, Copy)]
pub(super) struct Replayed(Option<Position>);

impl Node {
    /// To be called before the reading statement.
    pub async fn before(&self, connection: &mut PgConnection) -> Result<Replayed> {
        if !self.standby.load(Ordering::Relaxed) {
            return Ok(Replayed(None));
        }
        let query = "select case when pg_is_in_recovery() \
                     then coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::int8 end";
        let replayed: Option<i64> = sqlx::query_scalar(query)
            .fetch_one(connection)
            .await
            .map_err(|error| classify("can't ask the standby how far it has replayed", error))?;
        // It may have been promoted since.
        self.standby.store(replayed.is_some(), Ordering::Relaxed);
        Ok(Replayed(replayed.map(|position| Position(position.unsigned_abs()))))
    }

    /// What the statement's [`SIGHT`] says; `None` when it turns out to have been read on a standby without
    /// [`before`](Self::before) having known: read again.
    pub fn sight(&self, replayed: Replayed, text: &str) -> Result<Option<Snapshot>> {
        let (snapshot, on_standby) = match text.strip_suffix(" standby") {
            Some(snapshot) => (snapshot, true),
            None => (text, false),
        };
        let snapshot = Snapshot::parse(snapshot)?;
        match (on_standby, replayed.0) {
            (true, None) => {
                self.standby.store(true, Ordering::Relaxed);
                Ok(None)
            }
            (true, Some(position)) => Ok(Some(snapshot.on_standby(position))),
            // Promoted between the two statements: it sees all that it had replayed, and its own transactions.
            (false, _) => Ok(Some(snapshot)),
        }
    }
}

/// The error of a server that says it is a standby each time it is said not to be one.
pub(super) fn unsteady() -> SourceError {
    SourceError::connection("the server turned into a standby while it was read")
}
