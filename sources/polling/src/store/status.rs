//! Transitions of streams' own states.

use millstream_cdc::Line;
use millstream_core::Result;

use super::Store;
use super::changes;
use super::sql::values;
use super::streams::upsert;
use crate::model::{ColumnType, StreamKey, Timestamp};

/// A state that began at a moment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    pub at: Timestamp,
    pub status: String,
    pub message: Option<String>,
}

impl Store {
    /// Stores those of a stream's states that are transitions: newer than the last that is stored, and another one.
    pub(crate) async fn land_status(&self, stream: &StreamKey, line: Line, mut states: Vec<State>) -> Result<u64> {
        states.sort_by_key(|state| state.at);
        let dialect = self.dialect();
        let mut tx = self.sql().begin().await?;
        const LAST: &str = "select instant_text, status from (select {} as instant_text, status, instant from status_events \
                            where stream = $1 order by instant desc limit 1) last";
        let sql = LAST.replace("{}", &dialect.text_of("instant"));
        let found = tx.fetch(sql, &values![stream.as_str()]).await?;
        let mut last = match found.first() {
            Some(row) => Some((Timestamp::parse(&row.text(0)?), row.text(1)?)),
            None => None,
        };
        let mut pending = Vec::new();
        for state in states {
            let is_transition =
                last.as_ref().is_none_or(|(at, status)| Some(state.at) > *at && state.status != *status);
            if !is_transition {
                continue;
            }
            let instant = dialect.cast(2, ColumnType::Timestamp);
            let sql =
                format!("insert into status_events (stream, instant, status, message) values ($1, {instant}, $3, $4)");
            let at = state.at.to_string();
            tx.execute(sql, &values![stream.as_str(), at, state.status.as_str(), state.message]).await?;
            let key = [("stream", stream.as_str()), ("instant", &dialect.instant(state.at))];
            pending.push(upsert("status_events", &key));
            last = Some((Some(state.at), state.status));
        }
        changes::write(&mut tx, line, &pending).await?;
        tx.commit().await?;
        Ok(pending.len() as u64)
    }
}
