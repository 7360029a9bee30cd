//! The configuration file: what it may say, and what it says.
//!
//! [`Config::load`] reads the file and the schemas that it names. Every error tells the file, the line, the path in it, what is
//! wrong and what to write instead; no error shows the value of a variable or of a secret.

#[cfg(feature = "postgres")]
mod address;
mod check;
mod check_polling;
mod engine;
mod error;
mod http_json;
mod indexes;
mod json_schema;
mod load;
mod name;
mod polling;
mod sinks;
mod source;
mod sql_table;
mod units;
mod variables;

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::engine::EngineSection;
pub use self::error::ConfigError;
pub use self::http_json::{
    HttpJsonSection, HttpStreamSection, LinkSection, NumberPagesSection, PagesSection, SinceSection, TokenPagesSection,
};
pub use self::indexes::{IndexSection, OnError, SchemaSource};
pub use self::json_schema::json_schema;
pub use self::name::Name;
pub use self::polling::{
    ColumnTypeSection, CsvFolderSection, Floor, PollingSection, PostgresStoreSection, SqliteStoreSection, StoreSection,
};
pub use self::sinks::{DeadLettersSection, FileSection, LettersSection, NullSection, SinkSection};
pub use self::source::{
    Gap, Heartbeat, Manage, PostgresSection, RowLevelSecurity, SlotWait, SourceSection, TlsSection,
};
pub use self::sql_table::{
    DeleteLogSection, LookBackSection, SqlTableSection, StraySection, TableSection, UnitSection, Zone,
};
pub use self::units::{Bytes, Span};

/// A configuration file.
///
/// A scalar may say `${A}` (the environment's `A`, which must be set), `${A:-default}` (where it is not set or empty),
/// `${A:?message}` (else an error with this message) and `$$` (a dollar sign). These are replaced after the file was parsed,
/// so a value never changes the file's shape; they are not replaced inside inline schemas. Paths are relative to the file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Config {
    /// The format's version: 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1))]
    pub version: u32,
    /// The engine's name: it labels every metric.
    pub name: Name,
    /// Where the rows are.
    pub source: SourceSection,
    /// Where documents go, by name. All of them must have a document before it counts as durable.
    pub sinks: BTreeMap<Name, SinkSection>,
    /// Where documents go that can't be built or are refused. Without it, an index with `on_error: dead_letter` is an error.
    pub dead_letters: Option<DeadLettersSection>,
    /// A folder for the progress of sinks that keep none themselves. Default: `millstream-progress`.
    #[serde(default = "progress_folder")]
    pub progress: PathBuf,
    /// The families of documents, by name.
    pub indexes: BTreeMap<Name, IndexSection>,
    /// Metrics, health and status; without it nothing listens.
    pub http: Option<HttpSection>,
    /// Pause, resume and backfill; without it nothing listens.
    pub control: Option<ControlSection>,
    /// Values to tune.
    #[serde(default)]
    pub engine: EngineSection,
}

/// Where metrics, health and status are served.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpSection {
    /// Address and port, such as `127.0.0.1:9464`. Port 0 takes a free one.
    #[serde(deserialize_with = "name::address")]
    #[schemars(with = "String")]
    pub listen: std::net::SocketAddr,
}

/// Where the engine is controlled.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ControlSection {
    /// Address and port, another one than that of `http`.
    #[serde(deserialize_with = "name::address")]
    #[schemars(with = "String")]
    pub listen: std::net::SocketAddr,
    /// A file that holds the token which callers must show. A closing line break is not part of it.
    pub token_file: PathBuf,
}

fn one() -> u32 {
    1
}

fn progress_folder() -> PathBuf {
    "millstream-progress".into()
}

#[cfg(test)]
mod tests;
