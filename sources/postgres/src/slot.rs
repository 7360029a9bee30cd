//! The replication slot: the durable point, as the server keeps it.

use std::time::Duration;

use millstream_core::{Result, SourceError};
use millstream_model::Position;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Row};

use crate::{classify, quote};

/// What the server says of a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slot {
    /// Its name.
    pub name: String,
    /// The decoder it was made for; `None` for a physical slot.
    pub plugin: Option<String>,
    /// The database it decodes.
    pub database: Option<String>,
    /// True for a slot that ends with its session.
    pub temporary: bool,
    /// The process that holds it.
    pub active_pid: Option<i32>,
    /// The holder's own name for itself.
    pub holder: Option<String>,
    /// The durable point.
    pub confirmed: Option<Position>,
    /// From where on the log is kept.
    pub restart: Option<Position>,
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// Bytes that may still be written before the log is lost.
    pub safe_bytes: Option<i64>,
    /// Why the server gave it up (16 and later).
    pub invalidation: Option<String>,
}

impl Slot {
    /// Reads one slot; `None` when there is none of this name.
    ///
    /// # Errors
    /// When the server can't be asked.
    pub async fn read(connection: &mut PgConnection, name: &str) -> Result<Option<Self>> {
        // Columns that only newer majors have are read through the row's JSON form.
        let query = "select s.slot_name::text, s.plugin::text, s.database::text, s.temporary, s.active_pid, \
             a.application_name, s.confirmed_flush_lsn::text, s.restart_lsn::text, s.wal_status, s.safe_wal_size, \
             coalesce(to_jsonb(s)->>'invalidation_reason', case when to_jsonb(s)->>'conflicting' = 'true' \
             then 'it conflicts with recovery' end) \
             from pg_replication_slots s left join pg_stat_activity a on a.pid = s.active_pid where s.slot_name = $1";
        let row = sqlx::query(query).bind(name).fetch_optional(connection).await;
        let row = row.map_err(|error| classify("can't read the replication slot", error))?;
        row.map(|row| Self::of(&row)).transpose().map_err(|error| classify("can't read the replication slot", error))
    }

    fn of(row: &PgRow) -> Result<Self, sqlx::Error> {
        let position = |at: usize| -> Result<Option<Position>, sqlx::Error> {
            Ok(row.try_get::<Option<String>, _>(at)?.and_then(|text| parse_position(&text)))
        };
        Ok(Self {
            name: row.try_get(0)?,
            plugin: row.try_get(1)?,
            database: row.try_get(2)?,
            temporary: row.try_get(3)?,
            active_pid: row.try_get(4)?,
            holder: row.try_get(5)?,
            confirmed: position(6)?,
            restart: position(7)?,
            wal_status: row.try_get(8)?,
            safe_bytes: row.try_get(9)?,
            invalidation: row.try_get(10)?,
        })
    }

    /// Why its log is gone, if it is.
    pub fn lost(&self) -> Option<String> {
        if self.wal_status.as_deref() != Some("lost") && self.invalidation.is_none() {
            return None;
        }
        let why = self.invalidation.as_deref().unwrap_or("the log it needed was removed");
        Some(format!("the server gave up the replication slot (slot={}, reason={why})", self.name))
    }

    /// Why it can't be ours: made for something else. `None` when it can.
    pub fn foreign(&self, database: &str) -> Option<String> {
        let name = &self.name;
        match (self.plugin.as_deref(), self.database.as_deref()) {
            (None, _) => Some(format!("the slot is a physical one (slot={name})")),
            (Some("pgoutput"), Some(found)) if found == database && !self.temporary => None,
            (Some("pgoutput"), Some(found)) if found == database => {
                Some(format!("the slot is temporary (slot={name})"))
            }
            (Some("pgoutput"), found) => Some(format!(
                "the slot belongs to another database (slot={name}, found={}, expected={database})",
                found.unwrap_or_default()
            )),
            (Some(plugin), _) => {
                Some(format!("the slot was made for another decoder (slot={name}, found={plugin}, expected=pgoutput)"))
            }
        }
    }

    /// The error that names who holds it.
    pub fn held(&self) -> Option<SourceError> {
        let pid = self.active_pid?;
        let holder = self.holder.as_deref().unwrap_or("unknown");
        Some(taken("held by", &self.name, &format!("pid={pid}, application={holder}")))
    }

    /// Makes it. Waits until every transaction that is open now has ended.
    ///
    /// # Errors
    /// When it is there already, no place is free, or the role may not.
    pub async fn create(connection: &mut PgConnection, name: &str) -> Result<()> {
        sqlx::query("select 1 from pg_create_logical_replication_slot($1, 'pgoutput')")
            .bind(name)
            .fetch_optional(connection)
            .await
            .map_err(|error| classify(&format!("can't create the replication slot (slot={name})"), error))?;
        Ok(())
    }

    /// Removes it, waiting up to `wait` for its holder to let go. One that is not there is fine.
    ///
    /// # Errors
    /// `Held` when it is still held then.
    pub async fn drop(connection: &mut PgConnection, name: &str, wait: Option<Duration>) -> Result<()> {
        let begun = tokio::time::Instant::now();
        loop {
            let Some(slot) = Self::read(connection, name).await? else { return Ok(()) };
            match slot.held() {
                None => break,
                Some(error) if wait.is_some_and(|wait| begun.elapsed() >= wait) => return Err(error),
                Some(_) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
        let statement = format!("select pg_drop_replication_slot({})", quote::literal(name));
        sqlx::query(AssertSqlSafe(statement))
            .execute(connection)
            .await
            .map_err(|error| classify(&format!("can't drop the replication slot (slot={name})"), error))?;
        Ok(())
    }
}

/// The error of a slot that another process has, or is about to have: `how` it has it, and who it is.
pub fn taken(how: &str, slot: &str, holder: &str) -> SourceError {
    SourceError::held(format!("the replication slot is {how} another process (slot={slot}, {holder})"))
        .with_remedy("stop that process, or give this engine a slot of its own")
}

/// True for a name that the server accepts: small letters, digits and underscores, at most 63.
pub fn is_slot_name(name: &str) -> bool {
    let letters = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'_';
    (1..=63).contains(&name.len()) && name.bytes().all(letters)
}

/// Reads `16/B374D848`.
pub fn parse_position(text: &str) -> Option<Position> {
    let (high, low) = text.split_once('/')?;
    let (high, low) = (u32::from_str_radix(high, 16).ok()?, u32::from_str_radix(low, 16).ok()?);
    Some(Position((u64::from(high) << 32) | u64::from(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        Slot {
            name: "millstream".into(),
            plugin: Some("pgoutput".into()),
            database: Some("shop".into()),
            temporary: false,
            active_pid: None,
            holder: None,
            confirmed: Some(Position(10)),
            restart: Some(Position(5)),
            wal_status: Some("reserved".into()),
            safe_bytes: None,
            invalidation: None,
        }
    }

    #[test]
    fn a_position_reads_back_as_it_is_shown() {
        assert_eq!(parse_position("16/B374D848").unwrap().to_string(), "16/B374D848");
        assert!(parse_position("16").is_none());
        assert!(parse_position("1/g").is_none());
    }

    #[test]
    fn p15_the_holder_is_named() {
        let held = Slot { active_pid: Some(812), holder: Some("shop-2".into()), ..slot() };
        let error = held.held().unwrap().to_string();
        assert!(error.contains("pid=812") && error.contains("shop-2") && error.contains("millstream"), "{error}");
        assert!(slot().held().is_none());
    }

    #[test]
    fn a_slot_of_others_is_told_from_ours() {
        assert_eq!(slot().foreign("shop"), None);
        assert!(slot().foreign("other").unwrap().contains("another database"));
        assert!(Slot { plugin: None, ..slot() }.foreign("shop").unwrap().contains("physical"));
        assert!(Slot { plugin: Some("wal2json".into()), ..slot() }.foreign("shop").unwrap().contains("wal2json"));
    }

    #[test]
    fn case_b5_a_lost_slot_says_why() {
        let lost = Slot { wal_status: Some("lost".into()), ..slot() };
        assert!(lost.lost().unwrap().contains("removed"));
        let idle = Slot { invalidation: Some("idle_timeout".into()), ..slot() };
        assert!(idle.lost().unwrap().contains("idle_timeout"));
        assert_eq!(slot().lost(), None);
    }

    #[test]
    fn slot_names_are_checked() {
        assert!(is_slot_name("a_1"));
        assert!(!is_slot_name("A") && !is_slot_name("") && !is_slot_name("a-b"));
    }
}
