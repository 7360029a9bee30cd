use std::path::PathBuf;

use clap::builder::FalseyValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum};

/// Keeps denormalised documents in step with the rows they are made of.
#[derive(Debug, Parser)]
#[command(name = "millstream", version, arg_required_else_help = true)]
pub struct Cli {
    /// The configuration file.
    #[arg(long, global = true, env = "MILLSTREAM_CONFIG", default_value = "millstream.yaml", value_name = "FILE")]
    pub config: PathBuf,
    /// How logs are written to standard error.
    #[arg(long, global = true, env = "MILLSTREAM_LOG_FORMAT", default_value = "text", value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// Which logs are written: a level, or levels by module such as `info,millstream=debug`.
    #[arg(long, global = true, env = "RUST_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    #[command(subcommand)]
    pub command: Command,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keeps the documents in step until it is told to stop.
    Run(RunArgs),
    /// Holds configuration, schemas and database against each other; changes nothing.
    Check(CheckArgs),
    /// Prints the statements that the database lacks, or runs them.
    Provision(ProvisionArgs),
    /// Prints one document as it would be written now, or its query.
    Preview(PreviewArgs),
    /// Prints a JSON schema, by which editors complete and check files.
    JsonSchema(JsonSchemaArgs),
    /// Says what a running host is doing.
    Status(StatusArgs),
    /// Makes a running host take no more changes.
    Pause,
    /// Makes a paused host take changes again.
    Resume,
    /// Makes a running host fill an index again.
    Backfill(BackfillArgs),
    /// Says what a running host's polled source is doing, or orders it.
    Source(SourceArgs),
}

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Ends once every index is live and all that the log held at the start is durable.
    #[arg(long, env = "MILLSTREAM_UNTIL_IDLE", value_parser = FalseyValueParser::new())]
    pub until_idle: bool,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Prints the findings as JSON.
    #[arg(long, env = "MILLSTREAM_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
    /// Checks the files only; asks no database.
    #[arg(long, env = "MILLSTREAM_OFFLINE", value_parser = FalseyValueParser::new())]
    pub offline: bool,
}

#[derive(Debug, Args)]
pub struct ProvisionArgs {
    /// Runs what `manage` allows, and prints what is left.
    #[arg(long, env = "MILLSTREAM_APPLY", value_parser = FalseyValueParser::new())]
    pub apply: bool,
}

#[derive(Debug, Args)]
pub struct PreviewArgs {
    /// The index.
    pub index: String,
    /// The document's id, as sinks see it.
    pub id: String,
    /// Prints the query instead.
    #[arg(long, env = "MILLSTREAM_SQL", value_parser = FalseyValueParser::new())]
    pub sql: bool,
}

#[derive(Debug, Args)]
pub struct JsonSchemaArgs {
    /// Of which file.
    #[arg(default_value = "config")]
    pub of: SchemaOf,
}

/// What a JSON schema is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// The configuration.
    Config,
    /// An index's schema.
    Index,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Prints it as JSON.
    #[arg(long, env = "MILLSTREAM_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct BackfillArgs {
    /// The index.
    pub index: String,
}

#[derive(Debug, Args)]
pub struct SourceArgs {
    /// `pause`, `resume`, `trigger`, `full`, `resync`, `release_brake`, `audit`, `set_interval`, or one of the back end's own.
    /// Without it, the streams and the last cycles are told.
    pub order: Option<String>,
    /// What the order needs, as JSON: `{"streams": ["products"]}` for `resync` and `release_brake`, `{"seconds": 60}` for
    /// `set_interval`.
    #[arg(requires = "order", value_name = "JSON")]
    pub payload: Option<String>,
    /// Names the order: one that is given again with the same name is not run again, and says what came of it. A new name for
    /// each call, unless set.
    #[arg(long, requires = "order")]
    pub id: Option<String>,
    /// Does not wait until the order is done.
    #[arg(long, requires = "order", env = "MILLSTREAM_NO_WAIT", value_parser = FalseyValueParser::new())]
    pub no_wait: bool,
    /// Prints the answer as JSON.
    #[arg(long, env = "MILLSTREAM_JSON", value_parser = FalseyValueParser::new())]
    pub json: bool,
}
