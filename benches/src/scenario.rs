//! What is done: one TOML file a scenario, in `scenarios/`.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::Result;

/// Every scenario that comes with the bench: its name and its file.
const FILES: [(&str, &str); 12] = [
    ("capture", include_str!("../scenarios/capture.toml")),
    ("backfill-flat", include_str!("../scenarios/backfill-flat.toml")),
    ("backfill-nested", include_str!("../scenarios/backfill-nested.toml")),
    ("drain-roots", include_str!("../scenarios/drain-roots.toml")),
    ("drain-children", include_str!("../scenarios/drain-children.toml")),
    ("drain-hot", include_str!("../scenarios/drain-hot.toml")),
    ("drain-bulk", include_str!("../scenarios/drain-bulk.toml")),
    ("fan-out", include_str!("../scenarios/fan-out.toml")),
    ("idle-latency", include_str!("../scenarios/idle-latency.toml")),
    ("open-loop", include_str!("../scenarios/open-loop.toml")),
    ("far", include_str!("../scenarios/far.toml")),
    ("soak", include_str!("../scenarios/soak.toml")),
];

/// One thing to do, and what to hold it against.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// The file's name.
    #[serde(skip)]
    pub name: String,
    /// What is done, for a reader of the report.
    pub description: String,
    /// How it is done.
    pub kind: Kind,
    /// The indexes; each is a file in `src/shop`, or one of the tests' shop.
    pub indexes: Vec<String>,
    /// What is counted.
    pub unit: Unit,
    /// The limit lines; the first one gives the ratio.
    pub lines: Vec<LineKind>,
    /// SQL before the engine starts for the first time.
    #[serde(default)]
    pub setup: String,
    /// SQL that makes the changes of one pair. `:rows`, `:users`, `:orders`, `:products`, `:companies` and `:pair` are replaced.
    #[serde(default)]
    pub writes: String,
    /// How much is done at scale 1: rows, samples.
    #[serde(default)]
    pub rows: u64,
    /// How long it lasts at scale 1, in seconds, where time is what counts.
    #[serde(default)]
    pub seconds: f64,
    /// Changes a second: the steps of a load that rises, or the one of a soak.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// Milliseconds of round trip to the database.
    #[serde(default)]
    pub round_trip_ms: f64,
    /// Changes touch nothing: capture alone.
    #[serde(default)]
    pub capture_only: bool,
    /// Keys under `engine:` in the configuration.
    #[serde(default)]
    pub engine: BTreeMap<String, String>,
    /// What should be reached.
    #[serde(default)]
    pub target: Vec<Target>,
}

/// How a scenario is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// An index is filled.
    Backfill,
    /// Changes wait while the engine is away; then it works them off.
    Drain,
    /// One row that many documents use changes while others change, too.
    FanOut,
    /// One change at a time.
    Idle,
    /// Changes at fixed rates, whether or not the engine keeps up.
    OpenLoop,
    /// Changes of every kind for a long time.
    Soak,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Changed rows.
    Changes,
    /// Documents built.
    Documents,
    /// One over the median latency in milliseconds.
    PerMillisecond,
}

impl Unit {
    /// As the report shows it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Changes => "changes/s",
            Self::Documents => "documents/s",
            Self::PerMillisecond => "1/ms",
        }
    }
}

/// What an engine is held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineKind {
    /// `COPY` of the engine's own document query over all keys.
    CopyCorrelated,
    /// `COPY` of the fastest query by hand.
    CopySetBased,
    /// `pg_recvlogical` on the same publication.
    Stream,
    /// Commit, walsender, one query, and nothing between.
    BareLoop,
    /// The engine itself without the delay.
    Near,
    /// What was asked of it.
    Offered,
}

impl LineKind {
    /// As the result names it.
    pub fn word(self) -> &'static str {
        match self {
            Self::CopyCorrelated => "copy-correlated",
            Self::CopySetBased => "copy-set-based",
            Self::Stream => "stream",
            Self::BareLoop => "bare-loop",
            Self::Near => "near",
            Self::Offered => "offered",
        }
    }
}

/// What a figure should be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// `ratio`, `rss_bytes_max`, or the name of another figure.
    pub metric: String,
    /// At least this.
    pub at_least: Option<f64>,
    /// At most this.
    pub at_most: Option<f64>,
}

impl Scenario {
    /// Reads one.
    ///
    /// # Errors
    /// With the place and what is wrong.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let mut scenario: Self = toml::from_str(text).map_err(|error| format!("scenario {name}: {error}"))?;
        name.clone_into(&mut scenario.name);
        if scenario.lines.is_empty() {
            return Err(format!("scenario {name}: it names no limit line"));
        }
        Ok(scenario)
    }

    /// The one of a name, or the one in a file whose name ends in `.toml`.
    ///
    /// # Errors
    /// When there is none, with the names that there are.
    pub fn named(name: &str) -> Result<Self> {
        if name.ends_with(".toml") {
            let text = std::fs::read_to_string(name)
                .map_err(|error| format!("can't read the scenario (path={name}): {error}"))?;
            let stem = std::path::Path::new(name).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            return Self::parse(&stem.unwrap_or_default(), &text);
        }
        let file = FILES.iter().find(|(known, _)| *known == name);
        let (name, text) =
            file.ok_or_else(|| format!("there is no scenario {name}; there are: {}", Self::names().join(", ")))?;
        Self::parse(name, text)
    }

    /// The names of all.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// How many rows or samples at a scale: at least `least`.
    pub fn rows_at(&self, scale: f64, least: u64) -> u64 {
        ((self.rows as f64 * scale) as u64).max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_can_be_read() {
        for name in Scenario::names() {
            let scenario = Scenario::named(name).unwrap();
            assert!(!scenario.description.is_empty() && !scenario.indexes.is_empty(), "{name}");
            let needs_writes = matches!(scenario.kind, Kind::Drain | Kind::FanOut);
            assert_eq!(!scenario.writes.is_empty(), needs_writes, "{name}");
        }
    }

    #[test]
    fn an_unknown_scenario_is_told_with_those_there_are() {
        let error = Scenario::named("drain-chlidren").unwrap_err();
        assert!(error.contains("drain-children"), "{error}");
    }
}
