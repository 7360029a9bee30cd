//! One report a cycle, written as it grows.

use millstream_core::Result;
use serde::Serialize;

use super::Store;
use super::sql::{SqlRow, values};
use crate::model::Timestamp;

/// How a cycle went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReportState {
    /// It is running.
    Open,
    /// All went well.
    Completed,
    /// Some of it did.
    Partial,
    /// Nothing did, or it was cut short.
    Failed,
}

impl ReportState {
    /// The state as the store spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Completed => "completed",
            Self::Partial => "partial",
            Self::Failed => "failed",
        }
    }

    fn parse(text: &str) -> Self {
        match text {
            "open" => Self::Open,
            "completed" => Self::Completed,
            "partial" => Self::Partial,
            _ => Self::Failed,
        }
    }
}

/// A report as it is kept.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeptReport {
    /// Counts up with each cycle.
    pub number: i64,
    /// `incremental`, `full`, `resync` or `audit`.
    pub kind: String,
    /// How it went.
    pub state: ReportState,
    /// When it began.
    pub started: Timestamp,
    /// When it ended; `None` while it runs.
    pub ended: Option<Timestamp>,
    /// Counts, errors and log: a [`CycleReport`](crate::CycleReport) as JSON.
    pub body: serde_json::Value,
}

/// Reports that are kept; older ones are removed.
const KEPT: i64 = 1000;

impl Store {
    /// Opens a report; its number.
    pub(crate) async fn open_report(&self, kind: &str, at: Timestamp, body: &str) -> Result<i64> {
        let mut tx = self.sql().begin().await?;
        const OPEN: &str = "insert into millstream_reports (kind, state, started, body) values ($1, 'open', $2, $3) \
                            returning number";
        let rows = tx.fetch(OPEN, &values![kind, at.micros(), body]).await?;
        let number = rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or_default();
        tx.execute("delete from millstream_reports where number <= $1", &values![number - KEPT]).await?;
        tx.commit().await?;
        Ok(number)
    }

    /// Writes a report as it is by now, or as it ended.
    pub(crate) async fn write_report(
        &self,
        number: i64,
        state: ReportState,
        ended: Option<Timestamp>,
        body: &str,
    ) -> Result<()> {
        const WRITE: &str = "update millstream_reports set state = $2, ended = $3, body = $4 where number = $1";
        let ended = ended.map(Timestamp::micros);
        self.sql().execute(WRITE, &values![number, state.as_str(), ended, body]).await?;
        Ok(())
    }

    /// The last reports, newest first.
    ///
    /// # Errors
    /// When the store can't be read.
    pub async fn reports(&self, limit: u32) -> Result<Vec<KeptReport>> {
        const LAST: &str = "select number, kind, state, started, ended, body from millstream_reports \
                            order by number desc limit $1";
        let rows = self.sql().fetch(LAST, &values![i64::from(limit)]).await?;
        rows.iter().map(read).collect()
    }

    /// Reports that were never closed.
    pub(crate) async fn open_reports(&self) -> Result<Vec<KeptReport>> {
        const OPEN: &str = "select number, kind, state, started, ended, body from millstream_reports \
                            where state = 'open' order by number";
        let rows = self.sql().fetch(OPEN, &[]).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &SqlRow) -> Result<KeptReport> {
    Ok(KeptReport {
        number: row.integer(0)?,
        kind: row.text(1)?,
        state: ReportState::parse(&row.text(2)?),
        started: Timestamp::from_micros(row.integer(3)?),
        ended: row.integer_or_null(4)?.map(Timestamp::from_micros),
        body: serde_json::from_str(&row.text(5)?).unwrap_or_default(),
    })
}
