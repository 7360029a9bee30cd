//! The program `millstream`: the reference host of the engine.
//!
//! `cli` says what can be asked; `run` hosts the engine, with `serve`, `control` and `until_idle` around it; `check`, `provision`
//! and `preview` look at the source without an engine; `ask` talks to a running host, `status` and `source` word its answers. `exit` says what each ending means.
//! Documents and reports go to standard output, logs and errors to standard error.

mod ask;
mod check;
mod cli;
mod control;
mod exit;
mod findings;
mod json_schema;
mod logs;
mod preview;
mod print;
mod provision;
mod run;
mod serve;
mod signals;
mod source;
mod status;
mod until_idle;

use std::process::ExitCode;

use clap::Parser;
use millstream::config::Config;

use crate::cli::{Cli, Command};
use crate::exit::{Exit, Outcome};

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = logs::install(&cli).and_then(|()| act(&cli));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(exit) => {
            logs::tell(&exit, cli.log_format);
            exit.code()
        }
    }
}

fn act(cli: &Cli) -> Outcome {
    // Both providers of TLS are built in, so that neither is the default by itself.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = || Config::load(&cli.config).map_err(|error| Exit::configuration(error.to_string()));
    let partly = || Config::load_partly(&cli.config).map_err(|error| Exit::configuration(error.to_string()));
    match &cli.command {
        Command::Run(args) => block_on(run::run(config()?, args))?,
        Command::Check(args) if args.offline => check::check_files(&partly()?.1, args),
        Command::Check(args) => block_on(check::check(config()?, args))?,
        Command::Provision(args) => block_on(provision::provision(config()?, args))?,
        Command::Preview(args) => block_on(preview::preview(config()?, args))?,
        Command::JsonSchema(args) => json_schema::json_schema(args),
        Command::Status(args) => ask::status(&partly()?, args),
        Command::Pause => ask::control(&partly()?, "pause"),
        Command::Resume => ask::control(&partly()?, "resume"),
        Command::Source(args) => ask::source(&partly()?, args),
        Command::Backfill(args) => ask::control(&partly()?, &format!("backfill/{}", args.index)),
    }
}

fn block_on<F: Future>(future: F) -> Result<F::Output, Exit> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Exit::permanent(format!("can't start threads: {error}")))?;
    let output = runtime.block_on(future);
    // What still runs (a connection that hangs) must not hold up the end.
    runtime.shutdown_background();
    Ok(output)
}
