use std::fmt::Write;

use serde_json::Value;

/// What a source says of itself, for people. What it does not say is left out.
pub fn describe(state: &Value) -> String {
    let mut text = String::new();
    let mut add = |part: std::fmt::Arguments<'_>| text.write_fmt(part).expect("a string takes anything");
    add(format_args!("{}", if state["paused"] == true { "paused: no cycle begins by itself" } else { "at work" }));
    for stream in state["streams"].as_array().into_iter().flatten() {
        add(format_args!("\nstream {}: {}", word(&stream["key"]), word(&stream["mode"])));
        if let Some(since) = stream["since"].as_str() {
            add(format_args!(", up to {since}"));
        }
        if stream["gone"] == true {
            add(format_args!(", gone from the source"));
        }
        if let Some(brake) = stream["brake"].as_str() {
            add(format_args!(", the brake is on: {brake}"));
        }
    }
    for report in state["reports"].as_array().into_iter().flatten() {
        add(format_args!("\ncycle {} ({}): {}", report["number"], word(&report["kind"]), word(&report["state"])));
        let counts = report["body"].as_object().into_iter().flatten();
        let counts: Vec<String> = counts
            .filter(|(_, count)| count.as_u64().is_some_and(|count| count > 0))
            .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
            .collect();
        if !counts.is_empty() {
            add(format_args!(", {}", counts.join(", ")));
        }
        for error in report["body"]["errors"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            add(format_args!("\n  {error}"));
        }
    }
    text
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_in_lines() {
        let state = serde_json::json!({
            "paused": true,
            "streams": [
                { "key": "products", "mode": "reconciled", "gone": false, "since": null, "brake": "12 of 40 rows would go" },
                { "key": "weights", "mode": "append", "gone": true, "since": "2026-01-02T03:04:05Z", "brake": null },
            ],
            "reports": [{
                "number": 7, "kind": "full", "state": "partial",
                "body": { "streams_fetched": 1, "rows_new": 0, "errors": ["weights: no such file"] },
            }],
        });
        let expected = "paused: no cycle begins by itself\n\
            stream products: reconciled, the brake is on: 12 of 40 rows would go\n\
            stream weights: append, up to 2026-01-02T03:04:05Z, gone from the source\n\
            cycle 7 (full): partial, streams fetched 1\n  weights: no such file";
        assert_eq!(describe(&state), expected);
        assert_eq!(describe(&serde_json::json!({})), "at work");
    }
}
