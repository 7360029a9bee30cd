//! What cycles tell through the `metrics` facade.

use std::time::Duration;

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram,
};

use super::report::CycleReport;
use crate::model::Timestamp;
use crate::store::ReportState;

/// A number of a report.
type Count = fn(&CycleReport) -> u64;

/// Handles, made with the recorder that is installed when a run begins; counters start at 0.
pub(crate) struct Meters {
    cycles: [(ReportState, Counter); 3],
    seconds: Histogram,
    last: Gauge,
    rows: [(Count, Counter); 7],
    streams_failed: Counter,
    status_events: Counter,
    brakes: Gauge,
    paused: Gauge,
    unreachable: Gauge,
}

impl Meters {
    pub(crate) fn new(engine: &str) -> Self {
        describe();
        let label = || engine.to_owned();
        let cycles = |state: ReportState| {
            let kind = state.as_str();
            (state, zero(counter!("millstream_polling_cycles_total", "engine" => label(), "kind" => kind)))
        };
        let rows = |op: &'static str| zero(counter!("millstream_polling_rows_total", "engine" => label(), "op" => op));
        Self {
            cycles: [ReportState::Completed, ReportState::Partial, ReportState::Failed].map(cycles),
            seconds: histogram!("millstream_polling_cycle_seconds", "engine" => label()),
            last: gauge!("millstream_polling_last_cycle_timestamp_seconds", "engine" => label()),
            rows: [
                (|report| report.rows_fetched, rows("fetched")),
                (|report| report.rows_new, rows("new")),
                (|report| report.rows_changed, rows("changed")),
                (|report| report.rows_unchanged, rows("unchanged")),
                (|report| report.rows_withdrawn, rows("withdrawn")),
                (|report| report.rows_refused, rows("refused")),
                (|report| report.rows_deferred, rows("deferred")),
            ],
            streams_failed: zero(counter!("millstream_polling_streams_failed_total", "engine" => label())),
            status_events: zero(counter!("millstream_polling_status_events_total", "engine" => label())),
            brakes: gauge!("millstream_polling_brakes_on", "engine" => label()),
            paused: gauge!("millstream_polling_paused", "engine" => label()),
            unreachable: gauge!("millstream_polling_source_unreachable", "engine" => label()),
        }
    }

    /// A cycle is over.
    pub(crate) fn cycle(&self, report: &CycleReport, state: ReportState, took: Duration, ended: Timestamp) {
        if let Some((_, cycles)) = self.cycles.iter().find(|(one, _)| *one == state) {
            cycles.increment(1);
        }
        self.seconds.record(took);
        self.last.set(ended.micros() as f64 / 1e6);
        for (count, rows) in &self.rows {
            rows.increment(count(report));
        }
        self.streams_failed.increment(report.streams_failed);
        self.status_events.increment(report.status_events);
    }

    /// How things stand.
    pub(crate) fn standing(&self, brakes: usize, paused: bool, unreachable: bool) {
        self.brakes.set(brakes as f64);
        self.paused(paused);
        self.unreachable.set(f64::from(u8::from(unreachable)));
    }

    pub(crate) fn paused(&self, paused: bool) {
        self.paused.set(f64::from(u8::from(paused)));
    }
}

fn describe() {
    for (name, help) in COUNTERS {
        describe_counter!(name, Unit::Count, help);
    }
    for (name, unit, help) in GAUGES {
        describe_gauge!(name, unit, help);
    }
    describe_histogram!("millstream_polling_cycle_seconds", Unit::Seconds, "How long a look at a polled source took.");
}

const COUNTERS: [(&str, &str); 4] = [
    ("millstream_polling_cycles_total", "Looks at a polled source, by how they went."),
    ("millstream_polling_rows_total", "Rows of a polled source, by what became of them."),
    ("millstream_polling_streams_failed_total", "Streams that failed in a look, in whole or in part."),
    ("millstream_polling_status_events_total", "Transitions of streams' states that were stored."),
];

const GAUGES: [(&str, Unit, &str); 4] = [
    ("millstream_polling_last_cycle_timestamp_seconds", Unit::Seconds, "Unix time of the end of the last look."),
    (
        "millstream_polling_brakes_on",
        Unit::Count,
        "Streams that wait for somebody to say that a loss of many rows is true.",
    ),
    ("millstream_polling_paused", Unit::Count, "1 while no look begins by itself, else 0."),
    ("millstream_polling_source_unreachable", Unit::Count, "1 while the source can't be reached, else 0."),
];

fn zero(counter: Counter) -> Counter {
    counter.increment(0);
    counter
}
