//! What one cycle did, told as it goes.

use millstream_core::Result;
use serde::{Deserialize, Serialize};

use crate::model::Timestamp;
use crate::store::{Counts, ReportState, Store};

/// Errors and log lines that a report holds, of each; the others are counted.
const LINES_MAX: usize = 50;

/// Counts, errors and log lines of one cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CycleReport {
    /// Streams that were discovered.
    pub streams_discovered: u64,
    /// Streams whose description was new or another.
    pub streams_written: u64,
    /// Streams that were fetched well.
    pub streams_fetched: u64,
    /// Streams that failed, in whole or in part.
    pub streams_failed: u64,
    /// Rows that were fetched.
    pub rows_fetched: u64,
    /// Rows that were not there.
    pub rows_new: u64,
    /// Rows that were there and looked otherwise.
    pub rows_changed: u64,
    /// Rows that were there as they are.
    pub rows_unchanged: u64,
    /// Rows that the source has no more.
    pub rows_withdrawn: u64,
    /// Rows that were skipped: no instant, no number, no such column.
    pub rows_refused: u64,
    /// Rows that are left for the next cycle.
    pub rows_deferred: u64,
    /// Transitions of streams' states that were stored.
    pub status_events: u64,
    /// What went wrong, at most 50.
    pub errors: Vec<String>,
    /// Errors beyond those.
    pub errors_more: u64,
    /// What else is worth telling, at most 50 lines.
    pub log: Vec<String>,
    /// Lines beyond those.
    pub log_more: u64,
}

impl CycleReport {
    /// Notes what went wrong.
    pub(crate) fn error(&mut self, words: impl Into<String>) {
        let words = words.into();
        tracing::warn!(error = words, "a cycle of a polled source met an error");
        if self.errors.len() < LINES_MAX { self.errors.push(words) } else { self.errors_more += 1 }
    }

    /// Notes what is worth telling.
    pub(crate) fn log(&mut self, words: impl Into<String>) {
        if self.log.len() < LINES_MAX { self.log.push(words.into()) } else { self.log_more += 1 }
    }

    pub(crate) fn count(&mut self, counts: Counts) {
        self.rows_new += counts.new;
        self.rows_changed += counts.changed;
        self.rows_unchanged += counts.unchanged;
        self.rows_withdrawn += counts.withdrawn;
    }

    /// How it went, once it is over.
    pub(crate) fn state(&self) -> ReportState {
        let did_something = self.streams_fetched > 0 || self.status_events > 0;
        match (self.errors.is_empty(), did_something) {
            (true, _) => ReportState::Completed,
            (false, true) => ReportState::Partial,
            (false, false) => ReportState::Failed,
        }
    }
}

/// The report of the cycle that is running, and its place in the store.
pub(crate) struct ReportBook {
    pub number: i64,
    pub report: CycleReport,
    store: Store,
}

impl ReportBook {
    pub(crate) async fn open(store: &Store, kind: &str, at: Timestamp) -> Result<Self> {
        let report = CycleReport::default();
        let number = store.open_report(kind, at, &text(&report)).await?;
        Ok(Self { number, report, store: store.clone() })
    }

    /// Writes what is known so far. A report that can't be written holds nothing up.
    pub(crate) async fn write(&self) {
        if let Err(error) = self.store.write_report(self.number, ReportState::Open, None, &text(&self.report)).await {
            tracing::warn!(%error, "a report could not be written");
        }
    }

    pub(crate) async fn close(self, state: ReportState, at: Timestamp) -> Result<()> {
        self.store.write_report(self.number, state, Some(at), &text(&self.report)).await
    }
}

/// Closes reports that an earlier run left open.
pub(crate) async fn close_left(store: &Store, at: Timestamp) -> Result<()> {
    for left in store.open_reports().await? {
        let mut report: CycleReport = serde_json::from_value(left.body).unwrap_or_default();
        report.error("the cycle was cut short: the process ended");
        store.write_report(left.number, ReportState::Failed, Some(at), &text(&report)).await?;
    }
    Ok(())
}

fn text(report: &CycleReport) -> String {
    serde_json::to_string(report).expect("a report is plain data")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_holds_fifty_errors_and_counts_the_others() {
        let mut report = CycleReport::default();
        (0..53).for_each(|number| report.error(format!("{number}")));
        (0..51).for_each(|number| report.log(format!("{number}")));
        assert_eq!((report.errors.len(), report.errors_more), (50, 3));
        assert_eq!((report.log.len(), report.log_more), (50, 1));
        assert_eq!(report.state(), ReportState::Failed);
        report.streams_fetched = 1;
        assert_eq!(report.state(), ReportState::Partial);
    }
}
