//! Which source this is, and how far it trails.

use millstream_core::{Result, SourceError};
use millstream_model::Position;
use millstream_postgres::slot::{Slot, parse_position};
use millstream_postgres::sqlx;
use millstream_postgres::{Connections, classify};

use super::pump::Marks;
use super::wire::Session;
use crate::{Fork, Lag, SlotState, SourceIdentity};

/// Asks by a replication session of its own: only that tells the timeline of now and where the earlier ones ended.
pub(crate) async fn identity(connections: &Connections, slot: &str) -> Result<SourceIdentity> {
    // An ordinary connection first: it finds out a pooler in between.
    let mut lease = connections.get().await?;
    let database: i64 = sqlx::query_scalar("select oid::int8 from pg_database where datname = current_database()")
        .fetch_one(&mut *lease)
        .await
        .map_err(|error| classify("can't tell which database this is", error))?;
    let found = Slot::read(&mut lease, slot).await?;
    lease.keep();
    let mut session = Session::connect(connections.settings()).await?;
    let unknown = || SourceError::decode("the server did not identify itself as Postgres does");
    let rows = session.query("IDENTIFY_SYSTEM").await?;
    let row = rows.first().ok_or_else(unknown)?;
    let text = |at: usize| -> Result<&str> {
        row.get(at).and_then(Option::as_deref).and_then(|bytes| std::str::from_utf8(bytes).ok()).ok_or_else(unknown)
    };
    let timeline: u32 = text(1)?.parse().map_err(|_| unknown())?;
    let head = parse_position(text(2)?).ok_or_else(unknown)?;
    let system = text(0)?.to_owned();
    let forks = if timeline > 1 { forks(&mut session, timeline).await? } else { Vec::new() };
    drop(session);
    Ok(SourceIdentity {
        system: format!("{system}/{database}"),
        timeline,
        forks,
        head,
        durable: found.as_ref().and_then(|slot| slot.confirmed),
        lost: found.as_ref().and_then(Slot::lost),
    })
}

async fn forks(session: &mut Session, timeline: u32) -> Result<Vec<Fork>> {
    let rows = session.query(&format!("TIMELINE_HISTORY {timeline}")).await?;
    let content = rows.first().and_then(|row| row.get(1)).and_then(Option::as_deref).unwrap_or_default();
    Ok(parse_history(&String::from_utf8_lossy(content)))
}

/// Reads a history file: a line an ended timeline, `1<TAB>0/5000060<TAB>reason`.
fn parse_history(content: &str) -> Vec<Fork> {
    content
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(Fork { timeline: words.next()?.parse().ok()?, at: parse_position(words.next()?)? })
        })
        .collect()
}

/// One query.
pub(crate) async fn lag(connections: &Connections, slot: &str, marks: Option<&Marks>) -> Result<Lag> {
    let mut lease = connections.get().await?;
    let head: String = sqlx::query_scalar("select pg_current_wal_flush_lsn()::text")
        .fetch_one(&mut *lease)
        .await
        .map_err(|error| classify("can't read the log's position", error))?;
    let found = Slot::read(&mut lease, slot).await?;
    lease.keep();
    let head = parse_position(&head);
    let confirmed = found.as_ref().and_then(|slot| slot.confirmed);
    let behind = |position: Option<Position>| Some(head?.0.saturating_sub(position?.0));
    let received = marks.map(|marks| marks.received.get()).filter(|position| position.0 > 0);
    Ok(Lag {
        head,
        confirmed,
        received_bytes: behind(received),
        confirmed_bytes: behind(confirmed),
        age: None,
        slot: found.map(|slot| SlotState {
            status: slot.wal_status.unwrap_or_else(|| "unknown".to_owned()),
            safe_bytes: slot.safe_bytes,
            restart: slot.restart,
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p16_a_history_file_tells_where_timelines_ended() {
        let forks = parse_history("1\t0/5000060\tno recovery target specified\n\n2\t1/A0\tbefore 2000-01-01\n# x\n");
        let at = |timeline, at| Fork { timeline, at: Position(at) };
        assert_eq!(forks, [at(1, 0x500_0060), at(2, (1 << 32) | 0xA0)]);
    }
}
