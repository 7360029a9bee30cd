//! How do I …? `cargo x <verb>`. CI calls the same verbs as people do.

mod cargo;
mod postgres;
mod run;
mod verbs;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// What goes wrong here is for a person to read.
type Result<T = (), E = String> = std::result::Result<T, E>;

#[derive(Parser)]
#[command(name = "cargo x", about = "How do I …?")]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Formatting, lints and the links of the docs.
    Check,
    /// All that CI runs: check, then every test, the fast ones first.
    Test,
    /// Tests against a real Postgres.
    E2e(E2e),
    /// Seeded simulation.
    Sim(Sim),
    /// How fast, next to the limit of the same minute: run, sweep, compare, explain, list.
    Bench(Bench),
    /// A small shop whose documents stream by while its rows change.
    Demo(Demo),
    /// Finds or fetches a Postgres server, and prints the folder of its programs.
    Postgres {
        /// The server's major version; without it, what the machine has.
        major: Option<u32>,
    },
    /// Formats the code.
    Fmt,
    /// Builds the docs.
    Doc {
        /// Opens them in a browser.
        #[arg(long)]
        open: bool,
    },
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
struct E2e {
    #[command(subcommand)]
    other: Option<E2eOther>,
    /// Runs only tests whose names hold one of these.
    filters: Vec<String>,
    /// The server's major version; without it, what the machine has.
    #[arg(long, value_name = "MAJOR")]
    postgres: Option<u32>,
    /// For the test program itself, such as `-- --nocapture`.
    #[arg(last = true)]
    extra: Vec<String>,
}

#[derive(Subcommand)]
enum E2eOther {
    /// Random writers, kills and server restarts, compared with an oracle.
    Torture {
        /// How long, in minutes.
        #[arg(long, default_value = "5")]
        minutes: String,
        /// What chance begins with.
        #[arg(long)]
        seed: Option<u64>,
        /// The server's major version; without it, what the machine has.
        #[arg(long, value_name = "MAJOR")]
        postgres: Option<u32>,
        /// For the torture program itself.
        #[arg(last = true)]
        extra: Vec<String>,
    },
}

#[derive(Args)]
struct Sim {
    /// How many seeds.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Runs only tests whose names hold one of these.
    filters: Vec<String>,
    /// For the test program itself, such as `-- --nocapture`.
    #[arg(last = true)]
    extra: Vec<String>,
}

#[derive(Args)]
#[command(disable_help_flag = true)]
struct Bench {
    /// For the bench itself: `run NAME…`, `sweep`, `compare A.json B.json`, `explain`, `list`; `--help` tells more.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Args)]
struct Demo {
    /// What the documents are made of: rows of a Postgres, or a folder of CSV files without any server.
    #[arg(value_enum, default_value_t = DemoOf::Postgres)]
    of: DemoOf,
    /// Ends by itself after so many seconds; without it, at Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
    /// The server's major version; without it, what the machine has.
    #[arg(long, value_name = "MAJOR")]
    postgres: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DemoOf {
    Postgres,
    Polling,
}

fn main() -> ExitCode {
    let done = match Cli::parse().verb {
        Verb::Check => verbs::check(),
        Verb::Test => verbs::test(),
        Verb::E2e(E2e { other: Some(E2eOther::Torture { minutes, seed, postgres, extra }), .. }) => {
            verbs::torture(&minutes, seed, postgres, &extra)
        }
        Verb::E2e(E2e { filters, postgres, extra, .. }) => verbs::e2e(postgres, &filters, &extra),
        Verb::Sim(Sim { seeds, from, filters, extra }) => verbs::sim(seeds, from, &filters, &extra),
        Verb::Bench(Bench { arguments }) => verbs::bench(&arguments),
        Verb::Demo(Demo { of: DemoOf::Polling, seconds, .. }) => verbs::demo_of_files(seconds),
        Verb::Demo(Demo { seconds, postgres, .. }) => verbs::demo(seconds, postgres),
        Verb::Postgres { major } => postgres::find(major).map(|folder| println!("{}", folder.display())),
        Verb::Fmt => verbs::fmt(),
        Verb::Doc { open } => verbs::doc(open),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("cargo x: {message}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_call_is_understood() {
        for call in [
            "check",
            "test",
            "e2e",
            "e2e p5_ --postgres 13 -- --nocapture",
            "e2e --postgres 18",
            "e2e torture --minutes 5 --seed 7",
            "e2e torture --minutes 0.5 --postgres 13",
            "sim --seeds 10 --from 3",
            "bench run idle-latency backfill-nested --pairs 3 --scale 0.05 --out DIR",
            "bench compare A.json B.json --budget ratio=0.05",
            "bench --help",
            "demo --seconds 20",
            "postgres 13",
            "fmt",
            "doc",
        ] {
            let words = std::iter::once("cargo x").chain(call.split(' '));
            assert!(Cli::try_parse_from(words).is_ok(), "{call}");
        }
    }
}
