//! A few values that outlive a run: who the store belongs to, whether it is paused, how often it asks.

use std::time::Duration;

use millstream_core::{Result, SourceError};
use millstream_model::Position;

use super::Store;
use super::sql::{Sql, Tx, values};

/// What outlives a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Kept {
    /// True: no cycle begins by itself.
    pub paused: bool,
    /// Set by a command.
    pub every: Option<Duration>,
    /// True once a discovery has registered all that there was.
    pub discovered: bool,
}

impl Store {
    pub(crate) async fn kept(&self) -> Result<Kept> {
        let mut kept = Kept::default();
        for row in self.sql().fetch("select name, value from millstream_store", &[]).await? {
            let value = row.text(1)?;
            match row.text(0)?.as_str() {
                "paused" => kept.paused = value == "1",
                "every_ms" => kept.every = value.parse().ok().map(Duration::from_millis),
                "discovered" => kept.discovered = value == "1",
                _ => {}
            }
        }
        Ok(kept)
    }

    pub(crate) async fn keep_paused(&self, paused: bool) -> Result<()> {
        self.keep("paused", if paused { "1" } else { "0" }).await
    }

    pub(crate) async fn keep_every(&self, every: Duration) -> Result<()> {
        self.keep("every_ms", &every.as_millis().to_string()).await
    }

    pub(crate) async fn keep_discovered(&self) -> Result<()> {
        self.keep("discovered", "1").await
    }

    async fn keep(&self, name: &str, value: &str) -> Result<()> {
        let mut tx = self.sql().begin().await?;
        keep_in(&mut tx, name, value).await?;
        tx.commit().await
    }

    /// Makes the store one source system's, or sees that it is.
    ///
    /// # Errors
    /// `Setup` when it is another's.
    pub(crate) async fn claim(&self, system: &str) -> Result<()> {
        let found = look(self.sql(), "system").await?;
        match found {
            Some(found) if found != system => Err(SourceError::setup(format!(
                "the store belongs to another source system (found={found}, expected={system})"
            ))
            .with_remedy("give each source system its own store")),
            Some(_) => Ok(()),
            None => self.keep("system", system).await,
        }
    }

    /// Tells one store from another.
    pub(crate) async fn id(&self) -> Result<String> {
        look(self.sql(), "id").await?.ok_or_else(|| SourceError::setup("the store has lost its identity"))
    }

    /// The highest position that any ack had.
    pub(crate) async fn acked(&self) -> Result<Position> {
        Ok(Position(look(self.sql(), "acked").await?.and_then(|acked| acked.parse().ok()).unwrap_or(0)))
    }
}

/// Notes the highest position that any ack had.
pub(super) async fn keep_acked(tx: &mut Tx, position: Position) -> Result<()> {
    let found = tx.fetch("select value from millstream_store where name = 'acked'", &[]).await?;
    let found = found.first().map(|row| row.text(0)).transpose()?.and_then(|acked| acked.parse::<u64>().ok());
    if found.is_none_or(|found| found < position.0) {
        keep_in(tx, "acked", &position.0.to_string()).await?;
    }
    Ok(())
}

async fn keep_in(tx: &mut Tx, name: &str, value: &str) -> Result<()> {
    const KEEP: &str = "insert into millstream_store (name, value) values ($1, $2) \
                        on conflict (name) do update set value = excluded.value";
    tx.execute(KEEP, &values![name, value]).await?;
    Ok(())
}

async fn look(sql: &Sql, name: &str) -> Result<Option<String>> {
    let rows = sql.fetch("select value from millstream_store where name = $1", &values![name]).await?;
    rows.first().map(|row| row.text(0)).transpose()
}
