//! Walks the settings, one axis after the other, and finds the knee of each: the smallest value that is nearly as good as the best.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::Result;
use crate::numbers::{median, share, shown};
use crate::run::{Bench, Options};
use crate::scenario::Scenario;

/// Within so much of the best counts as being as good.
const NEARLY: f64 = 0.95;

/// One setting's values, smallest first. Several settings may move together.
struct Axis {
    name: &'static str,
    /// Values, each as `key: value` pairs of the configuration's `engine`.
    values: &'static [&'static [(&'static str, &'static str)]],
}

/// Every axis, in the order of the walk: what moves most comes first.
const AXES: [Axis; 4] = [
    Axis {
        name: "builders",
        values: &[
            &[("builders", "1")],
            &[("builders", "2")],
            &[("builders", "4")],
            &[("builders", "8")],
            &[("builders", "16")],
        ],
    },
    Axis {
        name: "batch bytes",
        values: &[
            &[("build_bytes", "256KiB"), ("build_batch", "100")],
            &[("build_bytes", "1MiB"), ("build_batch", "250")],
            &[("build_bytes", "2MiB"), ("build_batch", "500")],
            &[("build_bytes", "4MiB"), ("build_batch", "1000")],
            &[("build_bytes", "8MiB"), ("build_batch", "2000")],
        ],
    },
    Axis {
        name: "channel capacity",
        values: &[
            &[("change_batches", "4"), ("lane_batches", "1"), ("sink_batches", "2")],
            &[("change_batches", "8"), ("lane_batches", "2"), ("sink_batches", "4")],
            &[("change_batches", "16"), ("lane_batches", "4"), ("sink_batches", "8")],
            &[("change_batches", "32"), ("lane_batches", "8"), ("sink_batches", "16")],
        ],
    },
    Axis { name: "connections", values: &[&[("resolvers", "1")], &[("resolvers", "2")], &[("resolvers", "4")]] },
];

/// One measured point of the walk.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The value, as a person reads it.
    pub value: String,
    /// The engine's rate over the limit's: rates alone sway with the machine.
    pub ratio: f64,
    /// The engine's rate.
    pub rate: f64,
    /// Its memory at most, in bytes.
    pub rss: u64,
}

/// Walks all axes for a scenario; what was measured and the settings to paste, as text.
///
/// # Errors
/// When a run fails.
pub async fn sweep(bench: &mut Bench, scenario: &Scenario, options: &Options) -> Result<String> {
    let mut settings: BTreeMap<String, String> = BTreeMap::new();
    let mut text = String::new();
    let mut line = |line: String| {
        println!("{line}");
        writeln!(text, "{line}").expect("a string takes anything");
    };
    for axis in &AXES {
        line(format!("{}:", axis.name));
        let mut measured = Vec::new();
        for value in axis.values {
            let mut options = options.clone();
            options.settings = settings.clone();
            options.settings.extend(value.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
            let result = bench.scenario(scenario, &options).await?;
            let shown_value = value.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", ");
            let point = Measured {
                value: shown_value,
                ratio: result.ratio,
                rate: median(&result.engine),
                rss: result.rss_bytes_max,
            };
            let (ratio, rate) = (shown(point.ratio), shown(point.rate));
            line(format!(
                "  {:<60} ratio {ratio}, {rate} {}, {}",
                point.value,
                result.unit,
                crate::numbers::mebibytes(point.rss)
            ));
            measured.push(point);
        }
        let knee = knee(&measured);
        line(format!("  knee: {}", measured[knee].value));
        settings.extend(axis.values[knee].iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    }
    let number =
        |name: &str, default: usize| settings.get(name).and_then(|value| value.parse().ok()).unwrap_or(default);
    let connections = number("builders", 4) + number("resolvers", 2) + 3;
    line(format!("\n# For {}: {connections} connections to the database", scenario.name));
    line("engine:".to_owned());
    for (key, value) in &settings {
        line(format!("  {key}: {value}"));
    }
    Ok(text)
}

/// The first point that is nearly as good as the best.
pub fn knee(measured: &[Measured]) -> usize {
    let best = measured.iter().map(|point| point.ratio).fold(0.0, f64::max);
    measured.iter().position(|point| share(point.ratio, best) >= NEARLY).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_the_smallest_value_that_is_nearly_as_good() {
        let point = |ratio| Measured { value: String::new(), ratio, rate: 0.0, rss: 0 };
        assert_eq!(knee(&[point(0.3), point(0.6), point(0.79), point(0.8), point(0.77)]), 2);
        assert_eq!(knee(&[point(0.8), point(0.8)]), 0);
    }
}
