//! One clock for several processes of a machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// Nanoseconds since 1970: what every process of the machine agrees on.
pub fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// The seconds between two of them; 0 when they are the wrong way round.
pub fn seconds_between(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64 / 1e9
}
