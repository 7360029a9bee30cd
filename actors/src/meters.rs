use std::collections::BTreeMap;
use std::sync::Arc;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use millstream_model::IndexName;

/// The metrics of one engine, as handles: made once, when the engine starts, so that a host may install its recorder before.
///
/// Every name begins with `millstream_`; labels are `engine`, `index`, `sink`, `stage`, `op` and `kind`, never a key.
#[derive(Clone)]
pub struct Meters {
    engine: Arc<str>,
    /// Rows told by the source.
    pub captured_upserts: Counter,
    /// Deletes told by the source.
    pub captured_deletes: Counter,
    /// Truncates told by the source.
    pub captured_truncates: Counter,
    /// Rows whose documents are known.
    pub resolved: Counter,
    /// Rows that no document reads.
    pub without_document: Counter,
    /// Reads that did not see what had touched the document.
    pub fence_waits: Counter,
    /// Rows in a change batch.
    pub change_rows: Histogram,
    /// Seconds of one resolve call.
    pub resolve_seconds: Histogram,
    /// Seconds of one build query.
    pub build_seconds: Histogram,
    /// Seconds from a batch's admission until all of it is durable.
    pub durable_seconds: Histogram,
    /// Documents in one build.
    pub build_documents: Histogram,
    /// Seconds that capture waited for room in front of the resolvers.
    pub capture_blocked: Histogram,
    /// Seconds that capture had no ticket left: as many change batches as may be were under way.
    pub tickets_blocked: Histogram,
    /// Seconds that a resolver waited for room in the lanes.
    pub resolve_blocked: Histogram,
    /// Seconds that a builder waited for room in front of the sinks.
    pub build_blocked: Histogram,
    /// Open tickets.
    pub tickets_open: Gauge,
    /// Seconds since the oldest open ticket was admitted.
    pub oldest_ticket_seconds: Gauge,
    /// Unix time of the last confirmation.
    pub last_ack_timestamp: Gauge,
    /// Confirmations.
    pub acks: Counter,
    indexes: Arc<BTreeMap<IndexName, IndexMeters>>,
    sinks: Arc<Vec<SinkMeters>>,
}

/// The metrics of one index.
#[derive(Clone)]
pub struct IndexMeters {
    /// Touches.
    pub touches: Counter,
    /// Documents read.
    pub builds: Counter,
    /// Documents that were there.
    pub built: Counter,
    /// Documents that were written, by every sink together.
    pub written: Counter,
    /// Documents that were removed, by every sink together.
    pub deleted: Counter,
    /// Documents that a sink rejected or that could not be built.
    pub rejected: Counter,
    /// Documents written to the dead letters.
    pub dead_lettered: Counter,
    /// Rows that a backfill has done.
    pub backfill_rows: Counter,
    /// Rows that it expects.
    pub backfill_expected: Gauge,
    states: Arc<[(&'static str, Gauge)]>,
}

/// The metrics of one sink.
#[derive(Clone)]
pub struct SinkMeters {
    /// Seconds of one write.
    pub write_seconds: Histogram,
    /// Documents in one write.
    pub write_documents: Histogram,
    /// Writes tried again.
    pub retries: Counter,
}

impl IndexMeters {
    /// Sets the gauge of one state to 1 and all others to 0.
    pub fn set_state(&self, state: &str) {
        for (name, gauge) in self.states.iter() {
            gauge.set(if *name == state { 1.0 } else { 0.0 });
        }
    }
}

impl Meters {
    /// Makes every handle with the recorder that is installed now; counters start at 0.
    pub fn new<'a>(
        engine: &str,
        indexes: impl IntoIterator<Item = &'a IndexName>,
        sinks: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let engine: Arc<str> = engine.into();
        crate::describe::describe();
        zero_rare(&engine);
        let label = || engine.to_string();
        let captured =
            |op: &'static str| zero(counter!("millstream_changes_captured_total", "engine" => label(), "op" => op));
        let seconds =
            |stage: &'static str| histogram!("millstream_stage_seconds", "engine" => label(), "stage" => stage);
        let blocked =
            |stage: &'static str| histogram!("millstream_blocked_seconds", "engine" => label(), "stage" => stage);
        let batch = |stage: &'static str| histogram!("millstream_batch_size", "engine" => label(), "stage" => stage);
        Self {
            captured_upserts: captured("upsert"),
            captured_deletes: captured("delete"),
            captured_truncates: captured("truncate"),
            resolved: zero(counter!("millstream_changes_resolved_total", "engine" => label())),
            without_document: zero(counter!("millstream_changes_without_document_total", "engine" => label())),
            fence_waits: zero(counter!("millstream_fence_waits_total", "engine" => label())),
            change_rows: batch("capture"),
            resolve_seconds: seconds("resolve"),
            build_seconds: seconds("build"),
            durable_seconds: seconds("commit_to_durable"),
            build_documents: batch("build"),
            capture_blocked: blocked("capture"),
            tickets_blocked: blocked("tickets"),
            resolve_blocked: blocked("resolve"),
            build_blocked: blocked("build"),
            tickets_open: gauge!("millstream_tickets_open", "engine" => label()),
            oldest_ticket_seconds: gauge!("millstream_oldest_ticket_age_seconds", "engine" => label()),
            last_ack_timestamp: gauge!("millstream_last_ack_timestamp_seconds", "engine" => label()),
            acks: zero(counter!("millstream_acks_total", "engine" => label())),
            indexes: Arc::new(indexes.into_iter().map(|index| (index.clone(), index_meters(&engine, index))).collect()),
            sinks: Arc::new(sinks.into_iter().map(|sink| sink_meters(&engine, sink)).collect()),
            engine,
        }
    }

    /// The engine's name.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// One index's.
    ///
    /// # Panics
    /// When the index is not one of those that were named at the start.
    pub fn of_index(&self, index: &IndexName) -> &IndexMeters {
        self.indexes.get(index).expect("meters are made for every index")
    }

    /// One sink's, by its number.
    pub fn of_sink(&self, sink: usize) -> &SinkMeters {
        &self.sinks[sink]
    }

    /// Counts an error or a restart: rare, so the handle is not kept.
    pub fn error(&self, stage: &'static str, kind: &'static str) {
        counter!("millstream_errors_total", "engine" => self.engine.to_string(), "stage" => stage, "kind" => kind)
            .increment(1);
    }

    /// Counts a retry in place.
    pub fn retry(&self, stage: &'static str) {
        counter!("millstream_retries_total", "engine" => self.engine.to_string(), "stage" => stage).increment(1);
    }
}

fn index_meters(engine: &str, index: &IndexName) -> IndexMeters {
    let count = |name: &'static str| zero(counter!(name, "engine" => engine.to_owned(), "index" => index.to_string()));
    let states = ["waiting", "backfilling", "live", "held", "needs_backfill"].map(|state| {
        let labels = [("engine", engine.to_owned()), ("index", index.to_string()), ("state", state.to_owned())];
        (state, gauge!("millstream_index_state", &labels))
    });
    IndexMeters {
        touches: count("millstream_touches_total"),
        builds: count("millstream_builds_total"),
        built: count("millstream_documents_built_total"),
        written: count("millstream_documents_written_total"),
        deleted: count("millstream_documents_deleted_total"),
        rejected: count("millstream_documents_rejected_total"),
        dead_lettered: count("millstream_documents_dead_lettered_total"),
        backfill_rows: count("millstream_backfill_rows_done_total"),
        backfill_expected: gauge!("millstream_backfill_rows_expected", "engine" => engine.to_owned(), "index" => index.to_string()),
        states: states.into(),
    }
}

fn sink_meters(engine: &str, sink: &str) -> SinkMeters {
    let labels = [("engine", engine.to_owned()), ("sink", sink.to_owned())];
    let stage = [("engine", engine.to_owned()), ("sink", sink.to_owned()), ("stage", "write".to_owned())];
    SinkMeters {
        write_seconds: histogram!("millstream_stage_seconds", &stage),
        write_documents: histogram!("millstream_batch_size", &stage),
        retries: zero(counter!("millstream_sink_retries_total", &labels)),
    }
}

/// Lets the rare counters start at 0, so that an alert on their rate sees the first one, too.
fn zero_rare(engine: &str) {
    const SOURCE: &[&str] = &["connection", "setup", "held", "gap", "decode", "query", "unknown_column", "unsupported"];
    const SINK: &[&str] = &["retry", "setup", "broken", "taken_over"];
    const RUN: &[&str] = &["ticket_dropped", "panic", "ended_early"];
    let stages: [(&'static str, &[&[&'static str]]); 4] =
        [("resolve", &[SOURCE]), ("build", &[SOURCE]), ("sink", &[SINK]), ("run", &[SOURCE, SINK, RUN])];
    for (stage, lists) in stages {
        for kind in lists.iter().flat_map(|list| list.iter().copied()) {
            counter!("millstream_errors_total", "engine" => engine.to_owned(), "stage" => stage, "kind" => kind)
                .increment(0);
        }
    }
    for stage in ["resolve", "build", "backfill"] {
        counter!("millstream_retries_total", "engine" => engine.to_owned(), "stage" => stage).increment(0);
    }
}

fn zero(counter: Counter) -> Counter {
    counter.increment(0);
    counter
}
