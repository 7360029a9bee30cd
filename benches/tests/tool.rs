//! The tool as a program: a tiny run, and what is made of its result. Nothing here is timed.

#![allow(clippy::unwrap_used, missing_docs)] // A test that meets the unexpected may panic.

use std::path::Path;
use std::process::{Command, Output};

use millstream_bench::limit::{Shape, correlated_sql};
use millstream_bench::result::{BenchResult, Latency, Line, Machine, ScenarioResult};
use millstream_bench::server::{Server, session};
use millstream_bench::shop::{self, Sizes};
use millstream_tests::{Folder, HostConfig, free_port};

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_millstream-bench")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_tiny_run_leaves_a_result_and_a_page_that_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let ran = bench(&["run", "backfill-nested", "drain-children", "--pairs", "2", "--scale", "0.002", "--out", out]);
    assert!(ran.status.success(), "{}", said(&ran));
    let result = BenchResult::read(&folder.path().join("result.json")).unwrap();
    assert_eq!(result.scenarios.len(), 2);
    for scenario in &result.scenarios {
        let name = &scenario.name;
        assert_eq!((scenario.engine.len(), scenario.limit.len()), (2, 2), "{name}");
        assert!(scenario.engine.iter().chain(&scenario.limit).all(|rate| *rate > 0.0), "{name}: {scenario:?}");
        assert!(scenario.ratio > 0.0 && scenario.rss_bytes_max > 0 && !scenario.advice.is_empty(), "{name}");
        assert_eq!(scenario.stages.len(), 4, "{name}");
    }
    let nested = &result.scenarios[0];
    // Of 200 users some are archived or deleted.
    assert!(nested.figures["documents"] > 150.0 && nested.figures["documents"] <= 200.0, "{nested:?}");
    let drained = &result.scenarios[1];
    assert!(drained.figures["changes"] >= 100.0 && drained.figures["builds_per_touch"] <= 1.0, "{drained:?}");
    let page = std::fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert!(page.contains("backfill-nested") && !page.contains("http"), "the page asks for nothing");
    let explained = bench(&["explain", folder.path().join("result.json").to_str().unwrap()]);
    assert!(said(&explained).contains("drain-children: "), "{}", said(&explained));
}

#[test]
fn the_schema_of_the_result_is_the_one_that_is_documented() {
    let documented = include_str!("../result.schema.json");
    assert_eq!(documented, BenchResult::json_schema(), "run: cargo x bench schema > benches/result.schema.json");
}

/// A result with one scenario of this ratio and latency.
fn made_up(folder: &Path, name: &str, ratio: f64, p50: f64) -> String {
    let latency = Latency { p50, p90: p50, p99: p50, max: p50, count: 10, curve: Vec::new() };
    let scenario = ScenarioResult {
        name: "drain".to_owned(),
        sink: "null".to_owned(),
        engine: vec![ratio * 1000.0],
        limit: vec![1000.0],
        ratio,
        lines: vec![Line { name: "copy-correlated".to_owned(), samples: vec![1000.0], ratio }],
        rss_bytes_max: 1,
        latency_ms: Some(latency),
        ..ScenarioResult::default()
    };
    let machine = Machine { cores: 2, cpu: String::new(), memory_bytes: 0, system: String::new(), load: 0.0 };
    let result = BenchResult {
        format: BenchResult::FORMAT,
        commit: "unknown".to_owned(),
        started: 0,
        machine,
        postgres: [].into(),
        scale: 1.0,
        unoptimised: true,
        scenarios: vec![scenario],
    };
    let path = folder.join(name);
    result.write(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn comparing_fails_beyond_a_budget_and_only_then() {
    let folder = tempfile::tempdir().unwrap();
    let before = made_up(folder.path(), "a.json", 0.80, 1.0);
    let code = |after: &str, more: &[&str]| bench(&[&["compare", &before, after], more].concat()).status.code();
    assert_eq!(code(&before, &[]), Some(0));
    assert_eq!(code(&made_up(folder.path(), "better.json", 0.95, 0.5), &[]), Some(0));
    assert_eq!(code(&made_up(folder.path(), "a-little.json", 0.76, 1.0), &[]), Some(0));
    assert_eq!(code(&made_up(folder.path(), "a-little.json", 0.76, 1.0), &["--budget", "ratio=0.02"]), Some(1));
    assert_eq!(code(&made_up(folder.path(), "worse.json", 0.60, 1.0), &[]), Some(1));
    assert_eq!(code(&made_up(folder.path(), "slower.json", 0.80, 1.6), &[]), Some(1));
    std::fs::write(folder.path().join("none.json"), "{}").unwrap();
    assert_eq!(code(folder.path().join("none.json").to_str().unwrap(), &[]), Some(2));
}

#[test]
fn metrics_of_a_host_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let before = folder.path().join("before");
    let after = folder.path().join("after");
    std::fs::write(&before, "millstream_stage_seconds_sum{engine=\"x\",stage=\"resolve\"} 5\n").unwrap();
    std::fs::write(&after, "millstream_stage_seconds_sum{engine=\"x\",stage=\"resolve\"} 24\n").unwrap();
    let files = [before.to_str().unwrap(), after.to_str().unwrap()];
    let explained = bench(&["explain", "--metrics", files[0], files[1], "--seconds", "10"]);
    assert!(said(&explained).contains("raise resolvers (now 2)"), "{}", said(&explained));
}

#[tokio::test]
async fn the_query_by_hand_gives_what_the_engine_s_own_gives() {
    let mut server = Server::start(None).await.unwrap();
    server.fill(&Sizes::at(0.002)).await.unwrap();
    let database = server.database("shapes").await.unwrap();
    let folder = Folder::new();
    let mut config = HostConfig::new(&database.name, &database.url);
    let indexes = ["users", "users-flat"];
    indexes.iter().for_each(|index| {
        config.index(index, shop::schema(index).unwrap());
    });
    let config = millstream::config::Config::load(config.write(&folder, free_port())).unwrap();
    let mut sql = session(&database.url).await.unwrap();
    for index in indexes {
        let ours = Shape::Correlated(correlated_sql(&config, index).await.unwrap()).over(1, 1_000);
        let theirs = Shape::SetBased(shop::set_based(index).unwrap()).over(1, 1_000);
        let sorted = |query: &str| format!("select md5(d::jsonb::text) from ({query}) as q (d) order by 1");
        let ours = sql.rows(&sorted(&ours)).await;
        assert!(ours.len() > 150, "{index}: {}", ours.len());
        assert_eq!(ours, sql.rows(&sorted(&theirs)).await, "{index}");
    }
    sql.close().await;
    server.remove(&database).await.unwrap();
    server.close().await.unwrap();
}
