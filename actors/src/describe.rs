use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Tells the recorder that is installed now what every metric of ours means, and its unit.
pub(crate) fn describe() {
    for (name, unit, help) in COUNTERS {
        describe_counter!(*name, *unit, *help);
    }
    for (name, unit, help) in GAUGES {
        describe_gauge!(*name, *unit, *help);
    }
    for (name, unit, help) in HISTOGRAMS {
        describe_histogram!(*name, *unit, *help);
    }
}

type Described = (&'static str, Unit, &'static str);

const COUNTERS: &[Described] = &[
    ("millstream_changes_captured_total", Unit::Count, "Rows told by the source, by operation."),
    ("millstream_changes_resolved_total", Unit::Count, "Rows whose documents are known."),
    ("millstream_changes_without_document_total", Unit::Count, "Rows that no document reads."),
    ("millstream_touches_total", Unit::Count, "Documents that may have changed; many touches may share one build."),
    ("millstream_builds_total", Unit::Count, "Documents asked for from the source."),
    ("millstream_documents_built_total", Unit::Count, "Documents that were there."),
    ("millstream_documents_written_total", Unit::Count, "Documents written, by every sink together."),
    ("millstream_documents_deleted_total", Unit::Count, "Documents removed, by every sink together."),
    ("millstream_documents_rejected_total", Unit::Count, "Documents that a sink rejected or that could not be built."),
    ("millstream_documents_dead_lettered_total", Unit::Count, "Documents written to the dead letters."),
    ("millstream_fence_waits_total", Unit::Count, "Reads that came before what they had to see, and were repeated."),
    ("millstream_acks_total", Unit::Count, "Positions confirmed to the source."),
    ("millstream_backfill_rows_done_total", Unit::Count, "Rows that backfills have done; durable ones only."),
    ("millstream_errors_total", Unit::Count, "Errors and ended runs, by stage and kind."),
    ("millstream_retries_total", Unit::Count, "Queries tried again in place, by stage."),
    ("millstream_sink_retries_total", Unit::Count, "Writes tried again, by sink."),
];

const GAUGES: &[Described] = &[
    ("millstream_build_info", Unit::Count, "1; the label says which version runs."),
    ("millstream_tickets_open", Unit::Count, "Change batches under way."),
    ("millstream_oldest_ticket_age_seconds", Unit::Seconds, "Since the oldest of them was admitted; 0 without one."),
    ("millstream_last_ack_timestamp_seconds", Unit::Seconds, "Unix time of the last confirmation to the source."),
    ("millstream_channel_depth", Unit::Count, "Batches that wait in front of a stage."),
    ("millstream_channel_capacity", Unit::Count, "Batches that can wait in front of a stage."),
    ("millstream_index_state", Unit::Count, "1 for the state that the index is in, else 0."),
    ("millstream_backfill_rows_expected", Unit::Count, "Rows that a backfill has to do, as the source estimates them."),
    ("millstream_heartbeat_seconds", Unit::Seconds, "How long our own message took through the source's log to us."),
    ("millstream_lag_bytes", Unit::Bytes, "Log between the source's head and what was received, or confirmed."),
    ("millstream_lag_seconds", Unit::Seconds, "For sources without a log: since the newest change that is durable."),
    ("millstream_slot_confirmed_position", Unit::Bytes, "The slot's confirmed position in the source's log."),
    ("millstream_slot_restart_position", Unit::Bytes, "From where on the source keeps its log for us."),
    ("millstream_slot_wal_status", Unit::Count, "1 for what the source says of the log it keeps for us, else 0."),
    (
        "millstream_slot_safe_bytes",
        Unit::Bytes,
        "Log that may still be written before the slot is lost; +Inf while max_slot_wal_keep_size sets no limit.",
    ),
];

const HISTOGRAMS: &[Described] = &[
    ("millstream_stage_seconds", Unit::Seconds, "How long one call of a stage took; commit_to_durable: a whole batch."),
    ("millstream_blocked_seconds", Unit::Seconds, "How long a stage waited for room in front of the next."),
    ("millstream_batch_size", Unit::Count, "Rows or documents in one batch, by stage."),
];
