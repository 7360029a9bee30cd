//! Medians, percentiles, and how figures are written.

use hdrhistogram::Histogram;

use crate::result::Latency;

/// The middle value, or the mean of the two in the middle; 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// Part of a whole; 0 of nothing.
pub fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Latencies, to three digits, in microseconds.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        Self(Histogram::new(3).expect("three digits can be kept"))
    }
}

impl Latencies {
    /// Adds one, in nanoseconds.
    pub fn add_ns(&mut self, ns: u64) {
        self.0.record((ns / 1_000).max(1)).expect("the histogram grows by itself");
    }

    /// Adds all of another's.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("the histogram grows by itself");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The summary; `None` of none.
    pub fn summary(&self) -> Option<Latency> {
        let at = |quantile| self.0.value_at_quantile(quantile) as f64 / 1_000.0;
        let points = [0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0];
        (self.count() > 0).then(|| Latency {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: self.0.max() as f64 / 1_000.0,
            count: self.count(),
            curve: points.map(|quantile| (quantile, at(quantile))).to_vec(),
        })
    }
}

/// A figure with as many digits as it deserves: `1234567`, `123`, `1.23`, `0.00123`.
pub fn shown(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        large if large >= 100.0 => format!("{value:.0}"),
        some if some >= 10.0 => format!("{value:.1}"),
        some if some >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// Bytes, in MiB.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / (1024.0 * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn latencies_come_out_in_milliseconds() {
        let mut latencies = Latencies::default();
        (1..=1000).for_each(|ms| latencies.add_ns(ms * 1_000_000));
        let summary = latencies.summary().unwrap();
        assert!((summary.p50 - 500.0).abs() < 5.0 && (summary.p99 - 990.0).abs() < 5.0, "{summary:?}");
        assert_eq!(Latencies::default().summary(), None);
    }
}
