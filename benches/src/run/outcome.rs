use std::collections::BTreeMap;

use super::stage::{EngineRun, Stage};
use crate::clock::seconds_between;
use crate::explain::Evidence;
use crate::meters::Metrics;
use crate::numbers::{Latencies, median, share};
use crate::processes::{Look, WHO, cpu_between, rss_max};
use crate::result::{Line, Point, ScenarioResult, Step, TargetResult};
use crate::scenario::Target;

/// What is gathered while a scenario runs, pair by pair.
#[derive(Default)]
pub(crate) struct Outcome {
    engine: Vec<f64>,
    lines: BTreeMap<usize, (String, Vec<f64>)>,
    cpu: Vec<BTreeMap<String, f64>>,
    seconds: Vec<f64>,
    rss: u64,
    figures: BTreeMap<String, Vec<f64>>,
    evidence: Option<Evidence>,
    series: Vec<Point>,
    pub latency: Latencies,
    pub limit_latency: Latencies,
    pub steps: Vec<Step>,
}

impl Outcome {
    /// Adds one run of the engine: its rate, and how much its metrics grew.
    pub fn engine(&mut self, stage: &Stage, rate: f64, run: &EngineRun, grown: &Metrics) {
        let seconds = seconds_between(run.from, run.to);
        let cpu = cpu_between(&run.looks, run.from, run.to);
        self.engine.push(rate);
        self.rss = self.rss.max(rss_max(&run.looks, run.from, run.to));
        let mut evidence = Evidence::of(grown, seconds, stage.builders(), stage.resolvers());
        evidence.build_batch = stage.setting("build_batch", 500) as f64;
        if stage.postmaster > 0 && seconds > 0.0 {
            // Others on the machine use its cores, too.
            let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
            evidence.cores = cpu.get("machine").map(|used| used / (seconds * cores));
            evidence.walsender = cpu.get("walsender").map(|used| used / seconds);
        }
        self.evidence = Some(evidence);
        self.series = series(run);
        self.cpu.push(cpu);
        self.seconds.push(seconds);
    }

    /// Adds one sample of a line; `order` is its place among the scenario's lines.
    pub fn line(&mut self, order: usize, name: &str, value: f64) {
        self.lines.entry(order).or_insert_with(|| (name.to_owned(), Vec::new())).1.push(value);
    }

    /// Adds one sample of another figure; the result has the median.
    pub fn figure(&mut self, name: &str, value: f64) {
        self.figures.entry(name.to_owned()).or_default().push(value);
    }

    pub fn result(self, stage: &Stage) -> ScenarioResult {
        let lines: Vec<Line> = self
            .lines
            .into_values()
            .map(|(name, samples)| {
                let ratios: Vec<f64> =
                    self.engine.iter().zip(&samples).map(|(engine, line)| share(*engine, *line)).collect();
                Line { name, ratio: median(&ratios), samples }
            })
            .collect();
        let names: Vec<&str> = WHO
            .into_iter()
            .filter(|who| stage.postmaster > 0 || matches!(*who, "engine" | "bench" | "machine"))
            .collect();
        let of = |who: &str| median(&self.cpu.iter().filter_map(|cpu| cpu.get(who).copied()).collect::<Vec<_>>());
        let mut figures: BTreeMap<String, f64> =
            self.figures.iter().map(|(name, values)| (name.clone(), median(values))).collect();
        if let Some(evidence) = &self.evidence {
            figures.insert("out_of_tickets".to_owned(), evidence.out_of_tickets);
            if let Some(cores) = evidence.cores {
                figures.insert("cores_share".to_owned(), cores);
            }
        }
        let ratio = lines.first().map_or(0.0, |line| line.ratio);
        let mut result = ScenarioResult {
            name: stage.scenario.name.clone(),
            description: stage.scenario.description.clone(),
            sink: stage.options.sink.word().to_owned(),
            unit: stage.scenario.unit.word().to_owned(),
            limit: lines.first().map(|line| line.samples.clone()).unwrap_or_default(),
            engine: self.engine,
            ratio,
            lines,
            rss_bytes_max: self.rss,
            cpu_seconds: names.iter().map(|who| ((*who).to_owned(), of(who))).collect(),
            seconds: median(&self.seconds),
            latency_ms: self.latency.summary(),
            limit_latency_ms: self.limit_latency.summary(),
            figures,
            steps: self.steps,
            targets: Vec::new(),
            stages: self.evidence.as_ref().map(|evidence| evidence.stages.clone()).unwrap_or_default(),
            advice: self.evidence.map(|evidence| evidence.advice()).unwrap_or_default(),
            settings: stage.settings.clone(),
            series: self.series,
        };
        result.targets = stage.scenario.target.iter().map(|target| judge(target, &result)).collect();
        result
    }
}

fn judge(target: &Target, result: &ScenarioResult) -> TargetResult {
    let value = match target.metric.as_str() {
        "ratio" => Some(result.ratio),
        "rss_bytes_max" => Some(result.rss_bytes_max as f64),
        name => result.figures.get(name).copied(),
    };
    let met = value.is_some_and(|value| {
        target.at_least.is_none_or(|least| value >= least) && target.at_most.is_none_or(|most| value <= most)
    });
    TargetResult { metric: target.metric.clone(), at_least: target.at_least, at_most: target.at_most, value, met }
}

/// The points of one run, from its samples and looks.
fn series(run: &EngineRun) -> Vec<Point> {
    let within = |at: u64| at + 300_000_000 >= run.from && at <= run.to + 300_000_000;
    let samples = run.samples.iter().filter(|sample| within(sample.at)).collect::<Vec<_>>();
    let captured = "millstream_changes_captured_total";
    let built = "millstream_documents_built_total";
    let mut points = Vec::new();
    for pair in samples.windows(2) {
        let (before, sample) = (pair[0], pair[1]);
        let seconds = seconds_between(before.at, sample.at);
        let rate = |name: &str| share(sample.metrics.sum(name, &[]) - before.metrics.sum(name, &[]), seconds).max(0.0);
        points.push(Point {
            seconds: seconds_between(run.from, sample.at),
            changes_per_second: rate(captured),
            documents_per_second: rate(built),
            depths: sample.depths().into_iter().map(|(name, depth, _)| (name, depth)).collect(),
            tickets: sample.status["tickets_open"].as_f64().unwrap_or(0.0),
            cores: cores(&run.looks, before.at, sample.at),
            rss_bytes: run.looks.iter().rev().find(|look| look.at <= sample.at).map_or(0, |look| look.rss),
        });
    }
    points
}

fn cores(looks: &[Look], from: u64, to: u64) -> BTreeMap<String, f64> {
    let first = looks.iter().rev().find(|look| look.at <= from).or(looks.first());
    let last = looks.iter().rev().find(|look| look.at <= to).or(looks.first());
    let (Some(first), Some(last)) = (first, last) else { return BTreeMap::new() };
    let seconds = seconds_between(first.at, last.at);
    let used =
        WHO.iter().enumerate().map(|(who, name)| ((*name).to_owned(), share(last.cpu[who] - first.cpu[who], seconds)));
    used.collect()
}
