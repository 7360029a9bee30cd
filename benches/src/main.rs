//! The program behind `cargo x bench`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use millstream_bench::compare::{Budget, Budgets, compare};
use millstream_bench::engine::{HostArgs, host};
use millstream_bench::explain::Evidence;
use millstream_bench::meters::Metrics;
use millstream_bench::report::{page, table};
use millstream_bench::run::{Bench, Options, SinkKind};
use millstream_bench::sweep::sweep;
use millstream_bench::{BenchResult, Result, Scenario};

/// How fast, next to the limit of the same minute, and which setting made it so?
#[derive(Debug, Parser)]
#[command(name = "cargo x bench")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs scenarios beside their limit lines; writes result.json and report.html, prints a table.
    Run(Run),
    /// Walks builders, batch bytes, channel capacity and connections; prints the knee of each and the settings to paste.
    Sweep(Sweep),
    /// Holds a result against an earlier one; fails when anything is worse by more than its budget.
    Compare(Compare),
    /// Says which stage limits, and which setting to move.
    Explain(Explain),
    /// Lists the scenarios.
    List,
    /// Prints the JSON Schema of result.json.
    Schema,
    /// The engine under measure; started by the others.
    #[command(hide = true)]
    Engine(HostArgs),
}

#[derive(Debug, Args)]
struct Run {
    /// Scenarios, or files of your own (*.toml); without any, all.
    names: Vec<String>,
    /// Pairs of engine and limit; the result is the median.
    #[arg(long, default_value_t = 3)]
    pairs: usize,
    #[command(flatten)]
    common: Common,
    /// Where result.json, report.html and the engines' logs go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct Sweep {
    /// The scenario.
    #[arg(default_value = "backfill-nested")]
    name: String,
    /// Pairs of engine and limit at each point.
    #[arg(long, default_value_t = 1)]
    pairs: usize,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct Common {
    /// Where documents go.
    #[arg(long, value_enum, default_value_t = SinkKind::Null)]
    sink: SinkKind,
    /// How many times the default amount of data (100 k users, 400 k orders, 1.2 M items).
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// A Postgres server to use instead of one of our own; databases are made there, and dropped.
    #[arg(long)]
    url: Option<String>,
    /// A setting of the engine, as in its configuration.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    settings: Vec<(String, String)>,
}

#[derive(Debug, Args)]
struct Compare {
    /// The earlier result.
    before: PathBuf,
    /// The later one.
    after: PathBuf,
    /// By how much a metric may be worse, as a part: ratio=0.05.
    #[arg(long = "budget", value_name = "METRIC=PART")]
    budgets: Vec<Budget>,
}

#[derive(Debug, Args)]
struct Explain {
    /// A result.json; or, with --metrics, nothing.
    #[arg(required_unless_present = "metrics")]
    result: Option<PathBuf>,
    /// Two files of what a host's /metrics said, before and after.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], requires = "seconds")]
    metrics: Option<Vec<PathBuf>>,
    /// The seconds between them.
    #[arg(long)]
    seconds: Option<f64>,
    /// The engine's builders.
    #[arg(long, default_value_t = 4)]
    builders: usize,
    /// The engine's resolvers.
    #[arg(long, default_value_t = 2)]
    resolvers: usize,
}

fn setting(text: &str) -> Result<(String, String)> {
    let (key, value) = text.split_once('=').ok_or("write a setting as KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    // Both providers of TLS are built in, so that neither is the default by itself.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => {
            let done = runtime.block_on(act(cli.verb));
            runtime.shutdown_background();
            done
        }
        Err(error) => Err(format!("can't start threads: {error}")),
    };
    match done {
        Ok(code) => code,
        Err(message) => {
            eprintln!("bench: {message}");
            ExitCode::from(2)
        }
    }
}

async fn act(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Run(args) => run(args).await,
        Verb::Sweep(args) => sweep_settings(args).await,
        Verb::Compare(args) => hold_against(&args),
        Verb::Explain(args) => explain(&args),
        Verb::List => {
            for name in Scenario::names() {
                println!("{name:<16} {}", Scenario::named(name)?.description);
            }
            Ok(ExitCode::SUCCESS)
        }
        Verb::Schema => {
            print!("{}", BenchResult::json_schema());
            Ok(ExitCode::SUCCESS)
        }
        Verb::Engine(args) => host(args).await.map(|()| ExitCode::SUCCESS),
    }
}

async fn run(args: Run) -> Result<ExitCode> {
    let names =
        if args.names.is_empty() { Scenario::names().iter().map(ToString::to_string).collect() } else { args.names };
    let scenarios = names.iter().map(|name| Scenario::named(name)).collect::<Result<Vec<_>>>()?;
    std::fs::create_dir_all(&args.out)
        .map_err(|error| format!("can't make the folder (path={}): {error}", args.out.display()))?;
    let options = options(args.common, args.pairs, Some(args.out.clone()));
    let mut bench = Bench::open(&options).await?;
    let result = tokio::select! {
        biased;
        // Dropping the bench ends the server and every engine.
        _ = tokio::signal::ctrl_c() => return Err("stopped by Ctrl-C".to_owned()),
        result = bench.all(&scenarios, &options) => result?,
    };
    bench.close().await?;
    result.write(&args.out.join("result.json"))?;
    write(&args.out.join("report.html"), &page(&result))?;
    print!("{}", table(&result));
    println!("\nwritten: {0}/result.json, {0}/report.html", args.out.display());
    Ok(ExitCode::SUCCESS)
}

async fn sweep_settings(args: Sweep) -> Result<ExitCode> {
    let scenario = Scenario::named(&args.name)?;
    let options = options(args.common, args.pairs, None);
    let mut bench = Bench::open(&options).await?;
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => return Err("stopped by Ctrl-C".to_owned()),
        swept = sweep(&mut bench, &scenario, &options) => swept?,
    };
    bench.close().await?;
    Ok(ExitCode::SUCCESS)
}

fn options(common: Common, pairs: usize, logs: Option<PathBuf>) -> Options {
    let Common { sink, scale, url, settings } = common;
    Options { pairs: pairs.max(1), sink, scale, url, settings: settings.into_iter().collect(), logs, quiet: false }
}

fn write(path: &Path, text: &str) -> Result {
    std::fs::write(path, text).map_err(|error| format!("can't write the report (path={}): {error}", path.display()))
}

/// Exits 0 when all is within budget, 1 when not, 2 when there is nothing to compare.
fn hold_against(args: &Compare) -> Result<ExitCode> {
    let (before, after) = (BenchResult::read(&args.before)?, BenchResult::read(&args.after)?);
    let differences = compare(&before, &after, &Budgets::default().with(&args.budgets));
    if differences.is_empty() {
        return Err("the results have no scenario in common".to_owned());
    }
    differences.iter().for_each(|difference| println!("{difference}"));
    let beyond = differences.iter().filter(|difference| difference.is_beyond()).count();
    println!("{} figures, {beyond} beyond their budget", differences.len());
    Ok(if beyond > 0 { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

fn explain(args: &Explain) -> Result<ExitCode> {
    if let (Some(files), Some(seconds)) = (&args.metrics, args.seconds) {
        let read = |path: &PathBuf| {
            let text = std::fs::read_to_string(path);
            text.map(|text| Metrics::parse(&text))
                .map_err(|error| format!("can't read metrics (path={}): {error}", path.display()))
        };
        let evidence = Evidence::of(&read(&files[1])?.since(&read(&files[0])?), seconds, args.builders, args.resolvers);
        println!("{}", evidence.advice());
    }
    if let Some(path) = &args.result {
        for scenario in BenchResult::read(path)?.scenarios {
            println!("{}: {}", scenario.name, scenario.advice);
            for stage in scenario.stages {
                let (busy, blocked) = (stage.busy * 100.0, stage.blocked * 100.0);
                println!("    {:<8} {:>2} at work {busy:>3.0} %, blocked {blocked:>3.0} %", stage.name, stage.workers);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
