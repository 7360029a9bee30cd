use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::plot::{Curve, escaped, plot};
use super::table;
use crate::numbers::{mebibytes, median, shown};
use crate::result::{BenchResult, Latency, Point, ScenarioResult};

const STYLE: &str = "body{font:14px/1.5 system-ui,sans-serif;max-width:1140px;margin:2em auto;padding:0 1em;color:#222;background:#fff}\
h2{margin-top:2em;border-bottom:1px solid #ccc}pre{background:#f6f6f6;padding:1em;overflow-x:auto;font-size:12px}\
table{border-collapse:collapse;margin:1em 0}td,th{padding:2px 12px 2px 0;text-align:left;vertical-align:top}\
.missed{color:#b00;font-weight:600}.met{color:#060}figure{display:inline-block;width:540px;margin:0 8px 16px 0}\
figcaption{font-weight:600}svg{width:100%}svg text{font-size:9px;fill:#555}.grid{stroke:#e3e3e3}small{color:#555}";

/// The result as one HTML page that needs nothing but itself.
pub fn page(result: &BenchResult) -> String {
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Millstream bench, {commit}</title><style>{STYLE}</style>\
         <h1>Millstream bench</h1><p>The ratio is the result: the engine beside its limit, measured in turn in the same minutes. \
         Rates are of this machine.</p><pre>{table}</pre>",
        commit = escaped(&result.commit),
        table = escaped(&table(result)),
    );
    result.scenarios.iter().for_each(|scenario| section(&mut html, scenario));
    html.push_str("<h2>Server</h2><table>");
    for (name, value) in &result.postgres {
        row(&mut html, name, &escaped(value));
    }
    html.push_str("</table></html>\n");
    html
}

fn row(html: &mut String, name: &str, value: &str) {
    write!(html, "<tr><th>{}</th><td>{value}</td></tr>", escaped(name)).expect("a string takes anything");
}

fn section(html: &mut String, scenario: &ScenarioResult) {
    let heading = format!("<h2>{}</h2><p>{}</p><table>", escaped(&scenario.name), escaped(&scenario.description));
    html.push_str(&heading);
    let list = |values: &[f64]| values.iter().map(|value| shown(*value)).collect::<Vec<_>>().join(", ");
    let median_of =
        |values: &[f64]| format!("{} {} (pairs: {})", shown(median(values)), escaped(&scenario.unit), list(values));
    row(html, &format!("engine, sink {}", scenario.sink), &median_of(&scenario.engine));
    for line in &scenario.lines {
        row(html, &line.name, &format!("{}; ratio <b>{:.2}</b>", median_of(&line.samples), line.ratio));
    }
    for (name, latency) in [("latency", &scenario.latency_ms), ("latency of the limit", &scenario.limit_latency_ms)] {
        if let Some(Latency { p50, p90, p99, max, count, .. }) = latency {
            let [p50, p90, p99, max] = [p50, p90, p99, max].map(|value| shown(*value));
            row(html, name, &format!("p50 {p50} ms, p90 {p90} ms, p99 {p99} ms, longest {max} ms, of {count}"));
        }
    }
    row(html, "memory at most", &mebibytes(scenario.rss_bytes_max));
    let cpu =
        scenario.cpu_seconds.iter().map(|(who, used)| format!("{who} {}", shown(*used))).collect::<Vec<_>>().join(", ");
    row(html, "CPU seconds", &format!("{cpu}, in {} s", shown(scenario.seconds)));
    let percent = |part: f64| format!("{:.0} %", part * 100.0);
    for stage in &scenario.stages {
        let (busy, blocked) = (percent(stage.busy), percent(stage.blocked));
        let batch = if stage.batch > 0.0 { format!(", batches of {}", shown(stage.batch)) } else { String::new() };
        row(
            html,
            &format!("stage {} ({})", stage.name, stage.workers),
            &format!("busy {busy}, blocked {blocked}{batch}"),
        );
    }
    row(html, "advice", &escaped(&scenario.advice));
    for target in &scenario.targets {
        let bound = target.at_least.map_or_else(
            || format!("at most {}", shown(target.at_most.unwrap_or(0.0))),
            |least| format!("at least {}", shown(least)),
        );
        let value = target.value.map_or("not measured".to_owned(), shown);
        let (class, word) = if target.met { ("met", "met") } else { ("missed", "missed") };
        row(
            html,
            &format!("target {}", target.metric),
            &format!("{bound}: <span class=\"{class}\">{value}, {word}</span>"),
        );
    }
    for (name, value) in &scenario.figures {
        row(html, &name.replace('_', " "), &shown(*value));
    }
    for (name, value) in &scenario.settings {
        row(html, &format!("engine.{name}"), &escaped(value));
    }
    html.push_str("</table>");
    html.push_str(&plots(scenario));
}

fn plots(scenario: &ScenarioResult) -> String {
    let series = &scenario.series;
    let curve = |name: &str, of: &dyn Fn(&Point) -> f64| Curve {
        name: name.to_owned(),
        points: series.iter().map(|point| (point.seconds.max(0.0), of(point))).collect(),
    };
    let names = |of: &dyn Fn(&Point) -> Vec<String>| series.iter().flat_map(of).collect::<BTreeSet<String>>();
    let throughput = [
        curve("changes captured", &|point| point.changes_per_second),
        curve("documents built", &|point| point.documents_per_second),
    ];
    let depths: Vec<Curve> = names(&|point| point.depths.keys().cloned().collect())
        .iter()
        .map(|name| curve(name, &|point| point.depths.get(name).copied().unwrap_or(0.0)))
        .chain([curve("tickets", &|point| point.tickets)])
        .collect();
    let cores: Vec<Curve> = names(&|point| point.cores.keys().cloned().collect())
        .iter()
        .map(|name| curve(name, &|point| point.cores.get(name).copied().unwrap_or(0.0)))
        .collect();
    let memory = [curve("engine", &|point| point.rss_bytes as f64 / (1024.0 * 1024.0))];
    let latency: Vec<Curve> = [("engine", &scenario.latency_ms), ("limit", &scenario.limit_latency_ms)]
        .into_iter()
        .filter_map(|(name, latency)| {
            let curve = &latency.as_ref()?.curve;
            Some(Curve { name: name.to_owned(), points: curve.iter().map(|(at, ms)| (at * 100.0, *ms)).collect() })
        })
        .collect();
    let step = |name: &str, of: fn(&Latency) -> f64| {
        let points = scenario.steps.iter().filter_map(|step| Some((step.offered, of(step.latency_ms.as_ref()?))));
        Curve { name: name.to_owned(), points: points.collect() }
    };
    [
        plot("Throughput", "seconds", "per second", &throughput),
        plot("Queue depths", "seconds", "batches", &depths),
        plot("CPU by process", "seconds", "cores", &cores),
        plot("Memory", "seconds", "MiB", &memory),
        plot("Latency", "percent of changes", "milliseconds", &latency),
        plot(
            "Latency under load",
            "changes offered per second",
            "milliseconds",
            &[step("p50", |l| l.p50), step("p99", |l| l.p99)],
        ),
    ]
    .concat()
}
