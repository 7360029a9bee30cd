//! Whose turn it is (P15).
//!
//! The slot is taken only when streaming begins, but what the sinks keep is read, and an epoch saved, before that. So the turn
//! is a lock in the database: taken on the replication session before anything else, and gone with it.

use std::sync::PoisonError;
use std::time::Duration;

use millstream_core::{Result, SourceError, SourceErrorKind};
use millstream_postgres::quote;
use millstream_postgres::slot::{self, Slot};
use tokio::time::Instant;

use super::PostgresCapture;
use super::wire::Session;

/// How often a slot that is held is asked for again.
const HELD_RETRY: Duration = Duration::from_millis(250);

/// Has the server never end the session for being idle: before it streams, it may wait for long.
const NEVER_ENDED: &str =
    "(select count(set_config(name, '0', false)) from pg_settings where name = 'idle_session_timeout')";

/// A database without an encoding is told as it is: a text that is not UTF-8, in a column that nobody uses, stops nothing.
const AS_IT_IS: &str = "case when current_setting('server_encoding') = 'SQL_ASCII' \
                        then set_config('client_encoding', 'SQL_ASCII', false) end";

/// Tries the lock, one for each slot's name, and tells who has it.
fn try_lock(slot: &str) -> String {
    let lock = format!("hashtextextended({}, 0)", quote::literal(&format!("millstream slot {slot}")));
    format!(
        "select pg_try_advisory_lock({lock}), {NEVER_ENDED}, {AS_IT_IS}, \
         (select format('pid=%s, application=%s', l.pid, coalesce(a.application_name, 'unknown')) \
          from pg_locks l left join pg_stat_activity a on a.pid = l.pid \
          where l.locktype = 'advisory' and l.granted and l.objsubid = 1 \
          and l.database = (select oid from pg_database where datname = current_database()) \
          and (l.classid::int8 << 32) | l.objid::int8 = {lock})"
    )
}

impl PostgresCapture {
    /// Comes back with the turn, once nobody holds the slot.
    pub(super) async fn take_turn(&self) -> Result<()> {
        self.leave_turn();
        let (begun, mut told) = (Instant::now(), false);
        let session = loop {
            let held = match self.held_by().await? {
                Some(held) => held,
                None => match self.session().await {
                    Ok(session) => break Some(session),
                    Err(error) if error.kind() == SourceErrorKind::Held => error,
                    // What is wrong with our rights or the server's settings is told whole by what comes next.
                    Err(error) if error.kind() == SourceErrorKind::Setup => break None,
                    Err(error) => return Err(error),
                },
            };
            if self.settings.slot_wait.is_some_and(|wait| begun.elapsed() >= wait) {
                return Err(held);
            }
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(%held, "waits for the replication slot");
                self.waiting.set(Some(format!("waits for the replication slot: {held}")));
            }
            tokio::time::sleep(HELD_RETRY).await;
        };
        if told {
            tracing::info!(slot = %self.settings.slot, "got the replication slot");
        }
        *self.turn.lock().unwrap_or_else(PoisonError::into_inner) = session;
        Ok(())
    }

    /// Gives the turn back, unless a stream has it.
    pub(super) fn leave_turn(&self) {
        drop(self.turn_taken());
    }

    pub(super) fn turn_taken(&self) -> Option<Session> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A replication session that has the turn.
    ///
    /// # Errors
    /// `Held` when another session has it.
    pub(super) async fn session(&self) -> Result<Session> {
        let session = Session::connect(self.connections.settings()).await;
        let mut session = session.map_err(|error| self.connections.judge(error))?;
        let slot = &self.settings.slot;
        let row = session.query(&try_lock(slot)).await?.into_iter().next().unwrap_or_default();
        if row.first().is_some_and(|locked| locked.as_deref() == Some(b"t")) {
            return Ok(session);
        }
        let holder = row.into_iter().last().flatten();
        let holder = holder.map(|text| String::from_utf8_lossy(&text).into_owned());
        Err(slot::taken("about to be used by", slot, holder.as_deref().unwrap_or("pid=unknown, application=unknown")))
    }

    /// The error that names who has the slot, if somebody has.
    pub(super) async fn held_by(&self) -> Result<Option<SourceError>> {
        let mut lease = self.connections.get().await.map_err(|error| self.connections.judge(error))?;
        let slot = Slot::read(&mut lease, &self.settings.slot).await?;
        lease.keep();
        Ok(slot.and_then(|slot| slot.held()))
    }
}
