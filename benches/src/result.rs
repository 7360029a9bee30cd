//! What a run finds out: `result.json`. Its schema is in `result.schema.json`, made from these types and checked in a test.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Result;

/// All that one run of the bench found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BenchResult {
    /// Version of this format: 1.
    pub format: u32,
    /// The commit that was measured; `+` behind it: with changes that are not committed.
    pub commit: String,
    /// When the run began: seconds since 1970.
    pub started: u64,
    /// On what it was measured.
    pub machine: Machine,
    /// The server's version, and the settings that matter.
    pub postgres: BTreeMap<String, String>,
    /// How many times the default amount of data.
    pub scale: f64,
    /// True when the engine was built without optimisation: then no figure counts.
    pub unoptimised: bool,
    /// Each scenario, in the order in which they ran.
    pub scenarios: Vec<ScenarioResult>,
}

impl BenchResult {
    /// The format that this version writes.
    pub const FORMAT: u32 = 1;

    /// Reads one from a file.
    ///
    /// # Errors
    /// When it can't be read, or is no result that this version understands.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("can't read the result (path={}): {error}", path.display()))?;
        let result: Self = serde_json::from_str(&text)
            .map_err(|error| format!("this is no result of the bench (path={}): {error}", path.display()))?;
        if result.format != Self::FORMAT {
            let (found, known) = (result.format, Self::FORMAT);
            return Err(format!(
                "the result has another format (path={}, format={found}, known={known})",
                path.display()
            ));
        }
        Ok(result)
    }

    /// Writes it to a file.
    ///
    /// # Errors
    /// When that can't be written.
    pub fn write(&self, path: &Path) -> Result {
        let text = serde_json::to_string_pretty(self).expect("a result has only string keys");
        std::fs::write(path, text).map_err(|error| format!("can't write the result (path={}): {error}", path.display()))
    }

    /// The JSON Schema of the format, as text.
    pub fn json_schema() -> String {
        let schema = schemars::schema_for!(Self);
        let mut text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
        text.push('\n');
        text
    }
}

/// On what it was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Cores that may be used.
    pub cores: usize,
    /// The processor's name.
    pub cpu: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// The kernel.
    pub system: String,
    /// The load of the last minute when the run began: more than a little spoils the figures.
    pub load: f64,
}

/// What one scenario found out. Rates are per second; the higher the better.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioResult {
    /// Its name.
    pub name: String,
    /// What was done.
    pub description: String,
    /// Where documents went: `null` or `jsonl`.
    pub sink: String,
    /// What is counted, per second; `1/ms` where the figure is one over the median latency.
    pub unit: String,
    /// The engine's figure in each pair.
    pub engine: Vec<f64>,
    /// The limit line's figure in each pair: that of the first of `lines`.
    pub limit: Vec<f64>,
    /// The median of the pairs' ratios, engine over limit: the result.
    pub ratio: f64,
    /// Every limit line.
    pub lines: Vec<Line>,
    /// The most memory that the engine had, in bytes.
    pub rss_bytes_max: u64,
    /// CPU seconds of one pair's engine run (the median), by process: `engine`, `postgres` (all of its processes), `walsender` (also in `postgres`), `bench`, `machine` (every process there is).
    pub cpu_seconds: BTreeMap<String, f64>,
    /// How long one engine run took: seconds, the median.
    pub seconds: f64,
    /// Latency of the engine, where it was measured.
    pub latency_ms: Option<Latency>,
    /// Latency of the limit line, where it was measured.
    pub limit_latency_ms: Option<Latency>,
    /// Other figures, by name.
    pub figures: BTreeMap<String, f64>,
    /// Steps of a load that rises.
    pub steps: Vec<Step>,
    /// What was to be reached.
    pub targets: Vec<TargetResult>,
    /// How busy each stage was, in the order in which data meets them.
    pub stages: Vec<Stage>,
    /// Which stage limits, and what to do about it.
    pub advice: String,
    /// The engine's settings that were not left at their defaults.
    pub settings: BTreeMap<String, String>,
    /// The course of the last engine run.
    pub series: Vec<Point>,
}

/// One limit line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Its name: `copy-correlated`, `copy-set-based`, `stream`, `bare-loop`, `near`, `offered`.
    pub name: String,
    /// Its figure in each pair.
    pub samples: Vec<f64>,
    /// The median of the pairs' ratios, engine over line.
    pub ratio: f64,
}

/// Latencies, in milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Latency {
    /// Half were below.
    pub p50: f64,
    /// Nine in ten were below.
    pub p90: f64,
    /// 99 in 100 were below.
    pub p99: f64,
    /// The longest.
    pub max: f64,
    /// How many were measured.
    pub count: u64,
    /// Quantiles and their latencies, for the plot.
    pub curve: Vec<(f64, f64)>,
}

/// One step of a load that rises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Changes a second that were to be made.
    pub offered: f64,
    /// Changes a second whose documents arrived, until the last one had.
    pub achieved: f64,
    /// From when a change was to be made until its document was durable: waiting counts.
    pub latency_ms: Option<Latency>,
}

/// What was to be reached, and what was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetResult {
    /// The figure: `ratio`, `rss_bytes_max`, or one of `figures`.
    pub metric: String,
    /// It should be at least this.
    pub at_least: Option<f64>,
    /// It should be at most this.
    pub at_most: Option<f64>,
    /// What it was; nothing when it was not measured.
    pub value: Option<f64>,
    /// Whether that is good enough.
    pub met: bool,
}

/// How busy one stage was: shares of the run's time, each from 0 to 1, of all its workers together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// `capture`, `resolve`, `build` or `sink`.
    pub name: String,
    /// How many workers it has.
    pub workers: usize,
    /// At work: in a query or a write.
    pub busy: f64,
    /// Waiting for room in front of the next stage.
    pub blocked: f64,
    /// The mean of its batches: rows or documents.
    pub batch: f64,
}

/// The run at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Seconds since it began.
    pub seconds: f64,
    /// Changes a second since the point before.
    pub changes_per_second: f64,
    /// Documents built a second since the point before.
    pub documents_per_second: f64,
    /// Batches in front of each stage.
    pub depths: BTreeMap<String, f64>,
    /// Change batches under way.
    pub tickets: f64,
    /// Cores used since the point before, by process.
    pub cores: BTreeMap<String, f64>,
    /// The engine's memory, in bytes.
    pub rss_bytes: u64,
}
