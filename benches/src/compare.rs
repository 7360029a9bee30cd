//! Holds one result against an earlier one: is anything worse by more than its budget?

use std::collections::BTreeMap;
use std::str::FromStr;

use crate::numbers::{share, shown};
use crate::result::{BenchResult, ScenarioResult};

/// By how much a figure may be worse, as a part of what it was.
const BUDGETS: [(&str, f64); 5] =
    [("ratio", 0.10), ("rss_bytes_max", 0.15), ("cpu_per_unit", 0.20), ("latency_p50", 0.25), ("latency_p99", 0.50)];

/// How much worse each metric may get.
#[derive(Clone, Debug, PartialEq)]
pub struct Budgets(BTreeMap<String, f64>);

impl Default for Budgets {
    fn default() -> Self {
        Self(BUDGETS.iter().map(|(name, part)| ((*name).to_owned(), *part)).collect())
    }
}

impl Budgets {
    /// With others for some.
    #[must_use]
    pub fn with(mut self, budgets: &[Budget]) -> Self {
        self.0.extend(budgets.iter().map(|budget| (budget.metric.clone(), budget.part)));
        self
    }
}

/// A budget as it is written: `ratio=0.05`.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    metric: String,
    part: f64,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let known = || BUDGETS.map(|(name, _)| name).join(", ");
        let (metric, part) =
            text.split_once('=').ok_or_else(|| format!("write a budget as METRIC=PART; metrics: {}", known()))?;
        if !BUDGETS.iter().any(|(name, _)| *name == metric) {
            return Err(format!("there is no metric {metric}; there are: {}", known()));
        }
        let part = part.parse().map_err(|_| format!("a budget is a part, such as 0.1, not {part:?}"))?;
        Ok(Self { metric: metric.to_owned(), part })
    }
}

/// One figure beside the earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The scenario.
    pub scenario: String,
    /// The metric.
    pub metric: String,
    /// What it was.
    pub before: f64,
    /// What it is.
    pub after: f64,
    /// By how much it is worse, as a part of what it was; negative: better.
    pub worse: f64,
    /// By how much it may be.
    pub budget: f64,
}

impl Difference {
    /// True when it is worse by more than it may be.
    pub fn is_beyond(&self) -> bool {
        self.worse > self.budget
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scenario, metric, before, after, worse, budget } = self;
        let word = if *worse > 0.0 { "worse" } else { "better" };
        let beyond =
            if self.is_beyond() { format!("  BEYOND ITS BUDGET of {:.0} %", budget * 100.0) } else { String::new() };
        write!(
            f,
            "{scenario} {metric}: {} -> {}, {:.1} % {word}{beyond}",
            shown(*before),
            shown(*after),
            worse.abs() * 100.0
        )
    }
}

/// Every figure that both results have, scenario by scenario; scenarios of one alone are left out.
pub fn compare(before: &BenchResult, after: &BenchResult, budgets: &Budgets) -> Vec<Difference> {
    let mut differences = Vec::new();
    for new in &after.scenarios {
        let same = |old: &&ScenarioResult| old.name == new.name && old.sink == new.sink;
        let Some(old) = before.scenarios.iter().find(same) else { continue };
        let new_figures = figures(new);
        for (metric, was, more_is_better) in figures(old) {
            let Some((_, is, _)) = new_figures.iter().find(|(name, ..)| *name == metric) else { continue };
            let worse = share(if more_is_better { was - is } else { is - was }, was);
            let budget = budgets.0.get(metric).copied().unwrap_or(f64::INFINITY);
            let (scenario, metric) = (new.name.clone(), metric.to_owned());
            differences.push(Difference { scenario, metric, before: was, after: *is, worse, budget });
        }
    }
    differences
}

/// Name, value, and whether more is better. What does not depend on how fast the machine is, as far as that goes.
fn figures(scenario: &ScenarioResult) -> Vec<(&'static str, f64, bool)> {
    let mut figures = vec![("ratio", scenario.ratio, true), ("rss_bytes_max", scenario.rss_bytes_max as f64, false)];
    // CPU of engine and database together, for each unit of work.
    let used: f64 = ["engine", "postgres"].iter().filter_map(|who| scenario.cpu_seconds.get(*who)).sum();
    let units = crate::numbers::median(&scenario.engine) * scenario.seconds;
    if used > 0.0 && units > 0.0 {
        figures.push(("cpu_per_unit", used / units, false));
    }
    if let Some(latency) = &scenario.latency_ms {
        figures.extend([("latency_p50", latency.p50, false), ("latency_p99", latency.p99, false)]);
    }
    figures
}
