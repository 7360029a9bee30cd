use std::fmt::Write;

use serde_json::Value;

/// A status for people. What an older or newer host does not say is left out.
pub fn describe(status: &Value) -> String {
    let mut text = format!("{}: {}", word(status, "name"), word(status, "state"));
    let mut add = |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a string takes anything");
    if let Some(detail) = status["detail"].as_str() {
        add(format_args!(" ({detail})"));
    }
    if let Some(restarts) = status["restarts"].as_u64().filter(|restarts| *restarts > 0) {
        add(format_args!(", started again {restarts} times"));
    }
    if let Some(stage) = status["limiting_stage"].as_str() {
        add(format_args!(", limited by {stage}"));
    }
    for (name, index) in status["indexes"].as_object().into_iter().flatten() {
        add(format_args!("\nindex {name}: {}", word(index, "state")));
        match index["rows_done"].as_u64() {
            Some(_) if index["state"] == "backfilling" => add(format_args!("{}", progress(index))),
            Some(rows @ 1..) => add(format_args!(", filled with {rows} rows")),
            _ => {}
        }
        if let Some(detail) = index["detail"].as_str() {
            add(format_args!(" ({detail})"));
        }
    }
    for sink in status["sinks_failing"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        add(format_args!("\nsink {sink}: failing"));
    }
    match (status["confirmed"].as_str(), status["lag_bytes"].as_u64()) {
        (Some(confirmed), Some(lag)) => add(format_args!("\nconfirmed {confirmed}, {lag} bytes behind")),
        (Some(confirmed), None) => add(format_args!("\nconfirmed {confirmed}")),
        _ => {}
    }
    if let Some(seconds) = status["heartbeat_seconds"].as_f64() {
        add(format_args!("\nheartbeat {seconds:.3} s"));
    }
    if let Some(open) = status["tickets_open"].as_u64().filter(|open| *open > 0) {
        let age = status["oldest_ticket_seconds"].as_f64().unwrap_or_default();
        add(format_args!("\n{open} change batches under way, the oldest for {age:.1} s"));
    }
    if let Some(open) = status["dead_letters_open"].as_u64().filter(|open| *open > 0) {
        add(format_args!("\n{open} documents in the dead letters"));
    }
    if let Some(error) = status["last_error"].as_str() {
        let ago = status["last_error_seconds"].as_f64().map(|seconds| format!(", {seconds:.0} s ago"));
        add(format_args!("\nlast error{}: {error}", ago.unwrap_or_default()));
    }
    text
}

fn word<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().filter(|word| !word.is_empty()).unwrap_or("?")
}

fn progress(index: &Value) -> String {
    let done = index["rows_done"].as_u64().unwrap_or_default();
    let expected = index["rows_expected"].as_u64().map(|rows| format!(" of about {rows}")).unwrap_or_default();
    let left = index["eta_seconds"].as_u64().map(|seconds| format!(", {seconds} s left")).unwrap_or_default();
    format!(", {done}{expected} rows{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_told_in_lines() {
        let status = serde_json::json!({
            "name": "shop", "state": "starting", "detail": "waits for the slot", "restarts": 2, "limiting_stage": "build",
            "indexes": {
                "orders": { "state": "live", "detail": null, "rows_done": 7 },
                "users": { "state": "backfilling", "rows_done": 10, "rows_expected": 40, "eta_seconds": 3 },
            },
            "sinks_failing": ["audit"], "confirmed": "0/16B3748", "lag_bytes": 120, "heartbeat_seconds": 0.0123,
            "tickets_open": 3, "oldest_ticket_seconds": 1.25, "dead_letters_open": 1, "last_error": "source: gone", "last_error_seconds": 75.2,
        });
        let expected = "shop: starting (waits for the slot), started again 2 times, limited by build\n\
            index orders: live, filled with 7 rows\n\
            index users: backfilling, 10 of about 40 rows, 3 s left\n\
            sink audit: failing\n\
            confirmed 0/16B3748, 120 bytes behind\n\
            heartbeat 0.012 s\n\
            3 change batches under way, the oldest for 1.2 s\n\
            1 documents in the dead letters\n\
            last error, 75 s ago: source: gone";
        assert_eq!(describe(&status), expected);
        assert_eq!(describe(&serde_json::json!({})), "?: ?");
    }
}
