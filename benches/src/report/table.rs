use std::fmt::Write as _;

use crate::numbers::{mebibytes, median, shown};
use crate::result::{BenchResult, ScenarioResult};

/// The result as a table of text, a line a scenario, with what was missed and the advice below.
pub fn table(result: &BenchResult) -> String {
    let mut rows = vec![
        ["scenario", "unit", "engine", "limit", "line", "ratio", "p50 ms", "p99 ms", "rss", "targets"]
            .map(str::to_owned),
    ];
    rows.extend(result.scenarios.iter().map(row));
    let mut text = String::new();
    let widths: Vec<usize> =
        (0..rows[0].len()).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(&mut text, cells.join("  ").trim_end());
    }
    line(&mut text, "");
    for scenario in &result.scenarios {
        for other in scenario.lines.iter().skip(1) {
            line(
                &mut text,
                &format!(
                    "{}: {} of {} ({} {})",
                    scenario.name,
                    shown(other.ratio),
                    other.name,
                    shown(median(&other.samples)),
                    scenario.unit
                ),
            );
        }
        for step in &scenario.steps {
            let latency = step.latency_ms.as_ref().map_or("nothing came".to_owned(), |latency| {
                format!("p50 {} ms, p99 {} ms", shown(latency.p50), shown(latency.p99))
            });
            line(
                &mut text,
                &format!(
                    "{}: offered {}/s, achieved {}/s, {latency}",
                    scenario.name,
                    shown(step.offered),
                    shown(step.achieved)
                ),
            );
        }
        for target in scenario.targets.iter().filter(|target| !target.met) {
            let bound = match (target.at_least, target.at_most) {
                (Some(least), _) => format!("at least {}", shown(least)),
                (None, most) => format!("at most {}", shown(most.unwrap_or(0.0))),
            };
            let value = target.value.map_or("not measured".to_owned(), shown);
            line(&mut text, &format!("{}: MISSED {}: {value}, should be {bound}", scenario.name, target.metric));
        }
        line(&mut text, &format!("{}: {}", scenario.name, scenario.advice));
    }
    line(&mut text, "");
    let machine = &result.machine;
    line(
        &mut text,
        &format!(
            "commit {}, scale {}, {} cores ({}), load {}, Postgres {}{}",
            result.commit,
            result.scale,
            machine.cores,
            machine.cpu,
            machine.load,
            result.postgres.get("server_version").map_or("?", String::as_str),
            if result.unoptimised { "; BUILT WITHOUT OPTIMISATION: no figure counts" } else { "" }
        ),
    );
    text
}

fn line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a string takes anything");
}

fn row(scenario: &ScenarioResult) -> [String; 10] {
    let missed = scenario.targets.iter().filter(|target| !target.met).count();
    let latency = |of: fn(&crate::result::Latency) -> f64| {
        scenario.latency_ms.as_ref().map_or(String::new(), |latency| shown(of(latency)))
    };
    [
        scenario.name.clone(),
        scenario.unit.clone(),
        shown(median(&scenario.engine)),
        shown(median(&scenario.limit)),
        scenario.lines.first().map(|line| line.name.clone()).unwrap_or_default(),
        format!("{:.2}", scenario.ratio),
        latency(|latency| latency.p50),
        latency(|latency| latency.p99),
        mebibytes(scenario.rss_bytes_max),
        format!("{}/{}", scenario.targets.len() - missed, scenario.targets.len()),
    ]
}
