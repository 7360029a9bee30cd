//! What a snapshot must wait for (H1): a transaction that was open while coverage changed is decoded by the old rules.

use std::sync::{Mutex, PoisonError};

use millstream_core::{Result, SourceError};
use millstream_model::{Fence, Position};
use millstream_postgres::sqlx;
use millstream_postgres::{Connections, classify, slot::parse_position};

use crate::{Readiness, StartLine};

/// The line of now: everything that begins from here on is decoded by the rules of now.
pub(crate) async fn read_start_line(connections: &Connections) -> Result<StartLine> {
    let mut lease = connections.get().await?;
    let (xmax, position): (String, String) =
        sqlx::query_as("select pg_snapshot_xmax(pg_current_snapshot())::text, pg_current_wal_insert_lsn()::text")
            .fetch_one(&mut *lease)
            .await
            .map_err(|error| classify("can't read the start line", error))?;
    lease.keep();
    let unknown = || SourceError::decode("the server gave a snapshot of an unknown form");
    let xmax = xmax.parse().map_err(|_| unknown())?;
    Ok(StartLine(Fence::new(xmax, parse_position(&position).ok_or_else(unknown)?)))
}

/// Remembers from which position on a standby has seen all that a line waits for.
#[derive(Debug, Default)]
pub(crate) struct Crossed(Mutex<Option<(StartLine, Position)>>);

impl Crossed {
    fn get(&self, line: &StartLine) -> Option<Position> {
        let crossed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A later line includes an earlier one.
        crossed.filter(|(crossed, _)| crossed >= line).map(|(_, position)| position)
    }

    fn set(&self, line: StartLine, position: Position) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((line, position));
    }
}

/// True once every transaction that was open at the line has ended, on the primary and where snapshots are read.
pub(crate) async fn readiness(
    primary: &Connections,
    read: Option<&Connections>,
    crossed: &Crossed,
    line: &StartLine,
) -> Result<Readiness> {
    if *line == StartLine::NONE {
        return Ok(Readiness::Ready);
    }
    let position = match crossed.get(line) {
        Some(position) => position,
        None => match ended(primary, line.0.transaction()).await? {
            Ok(position) => {
                crossed.set(*line, position);
                position
            }
            Err(waiting) => return Ok(Readiness::Waiting(waiting)),
        },
    };
    let Some(read) = read else { return Ok(Readiness::Ready) };
    let replayed = replayed(read).await?;
    if replayed.is_none_or(|replayed| replayed >= position) {
        return Ok(Readiness::Ready);
    }
    let replayed = replayed.unwrap_or_default();
    Ok(Readiness::Waiting(vec![format!("the standby to replay up to {position} (replayed={replayed})")]))
}

/// The log's end if all transactions before `line` have ended; else who they are.
async fn ended(primary: &Connections, line: u64) -> Result<Result<Position, Vec<String>>> {
    let mut lease = primary.get().await?;
    // The snapshot is taken before the position is read: all that it sees has ended before there.
    let (xmin, position): (String, String) =
        sqlx::query_as("select pg_snapshot_xmin(pg_current_snapshot())::text, pg_current_wal_insert_lsn()::text")
            .fetch_one(&mut *lease)
            .await
            .map_err(|error| classify("can't tell which transactions are open", error))?;
    let unknown = || SourceError::decode("the server gave a snapshot of an unknown form");
    let xmin: u64 = xmin.parse().map_err(|_| unknown())?;
    if xmin >= line {
        lease.keep();
        return Ok(Ok(parse_position(&position).ok_or_else(unknown)?));
    }
    // Ids of 32 bits on a circle: one is before another if it is less than half the circle behind it.
    let low = i64::from(line as u32);
    let waiting: Vec<String> = sqlx::query_scalar(
        "select format('transaction %s of %s (pid=%s, application=%s, state=%s), open for %s s', \
            backend_xid, coalesce(usename, 'unknown'), pid, application_name, coalesce(state, 'unknown'), \
            coalesce(extract(epoch from now() - xact_start)::int8, 0)) \
         from pg_stat_activity where backend_xid is not null \
           and mod(backend_xid::text::int8 - $1 + 6442450944, 4294967296) < 2147483648 \
         union all \
         select format('prepared transaction %L of %s, open for %s s', gid, owner, \
            extract(epoch from now() - prepared)::int8) \
         from pg_prepared_xacts \
         where mod(transaction::text::int8 - $1 + 6442450944, 4294967296) < 2147483648",
    )
    .bind(low)
    .fetch_all(&mut *lease)
    .await
    .map_err(|error| classify("can't tell which transactions are open", error))?;
    lease.keep();
    if waiting.is_empty() {
        // It may have just ended, or belong to a role whose activity is hidden from ours.
        return Ok(Err(vec![format!("transactions older than {line} (oldest={xmin})")]));
    }
    Ok(Err(waiting))
}

/// How far a standby has replayed; `None`: it is a primary.
async fn replayed(read: &Connections) -> Result<Option<Position>> {
    let mut lease = read.get().await?;
    let text: Option<String> =
        sqlx::query_scalar("select case when pg_is_in_recovery() then pg_last_wal_replay_lsn()::text end")
            .fetch_one(&mut *lease)
            .await
            .map_err(|error| classify("can't tell how far the standby has replayed", error))?;
    lease.keep();
    Ok(text.as_deref().and_then(parse_position))
}
