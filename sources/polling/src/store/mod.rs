//! The store: what was fetched, how far, and what has yet to be acked. The driver alone writes it.
//!
//! # For schema authors
//!
//! Documents are built from these tables like from any others. A stream of records is a table of the stream's key.
//!
//! | table | key | other columns |
//! |---|---|---|
//! | `streams` | `key` | `id`, `name`, `carries` (`readings`, `records`), `mode`, `unit`, `curve` (`curves.id`), `attributes` (JSON), `active` |
//! | `replicates` | `stream`, `name` | `replicate`, `active` |
//! | `readings` | `stream`, `instant`, `replicate` | `value` (a double) |
//! | `status_events` | `stream`, `instant` | `status`, `message` |
//! | `curves` | `key` | `id`, `name`, `points` (JSON: `[[signal, number], …]`), `attributes` (JSON) |
//! | *a stream of records* | its key columns | its columns, typed as configured, text otherwise; `millstream_digest` is the driver's |
//!
//! `stream` is `streams.key` everywhere. Tables that begin with `millstream_` are the driver's own. In Postgres they live in the
//! configured schema, with the server's own types (`timestamptz`, `numeric`, `jsonb`, `boolean`); in SQLite their schema is
//! `public`, and a column's declared type tells what its text means: `timestamp_text` (UTC,
//! `2026-01-31T12:00:00.000000Z`, sorts as moments do), `date_text`, `decimal_text` (all digits), `json_text`; `integer`, `real`
//! and `boolean` (0 or 1) are SQLite's own.
//!
//! # Why no fence is needed
//!
//! A change is told only after the transaction that made it was committed, and readers ask the same database: whatever began to
//! read after it was told sees it. (Postgres's log, in contrast, tells of a commit before others can see it.) So every change
//! carries [`Fence::NONE`](millstream_model::Fence::NONE), and documents must not be read from a standby of the store.

mod changes;
mod commands;
mod compare;
mod content;
mod curves;
mod dialect;
mod hold;
mod keep;
mod land;
mod migrate;
mod pins;
mod reports;
mod shape;
mod snapshot;
pub(crate) mod sql;
mod status;
mod streams;

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use millstream_core::{Result, SourceError, SourceSpec};
use millstream_model::{QualifiedTable, Secret, Text};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

pub use commands::{CommandOutcome, CommandState};
pub(crate) use commands::{KeptCommand, Received};
pub use compare::Counts;
pub(crate) use content::{digest_of, key_of, record_row};
pub use dialect::Dialect;
pub(crate) use hold::Hold;
pub(crate) use land::{Complete, Landing, Mark, Protected};
pub use reports::{KeptReport, ReportState};
pub(crate) use shape::{Row, Same, TableShape, reading_row};
pub(crate) use sql::{Sql, classify};
pub(crate) use status::State;
pub(crate) use streams::{Registered, Registration};

/// How many connections a store opens, at most, to Postgres.
const CONNECTIONS: u32 = 4;

/// Where a store lives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum StoreSettings {
    /// In one file, made if it is not there; beside it `-wal`, `-shm` and `.lock`. On a local disk.
    Sqlite {
        /// The file. Its folder is made if it is not there.
        path: PathBuf,
    },
    /// In a schema of a Postgres database, which is made if it is not there.
    Postgres {
        /// `postgres://user:password@host:port/database`.
        url: Secret,
        /// The schema. Default `public`.
        schema: String,
    },
}

impl StoreSettings {
    /// A store in a file.
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self::Sqlite { path: path.into() }
    }

    /// A store in the schema `public` of a Postgres database.
    pub fn postgres(url: Secret) -> Self {
        Self::Postgres { url, schema: "public".to_owned() }
    }
}

/// What was fetched, how far, and what has yet to be acked.
///
/// Cheap to clone; clones share its connections.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    settings: StoreSettings,
    sql: Sql,
    schema: String,
    // Held for a look or a change only, never across an await.
    spec: RwLock<Arc<SourceSpec>>,
}

impl Store {
    /// Opens a store, makes it or brings it up to date.
    ///
    /// # Errors
    /// `Connection` when it can't be reached, `Setup` when it is not ours or was written by a newer version.
    pub async fn open(settings: StoreSettings) -> Result<Self> {
        let (sql, schema) = match &settings {
            StoreSettings::Sqlite { path } => {
                if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                    // What can't be made is told of when the file is opened.
                    let _ = tokio::fs::create_dir_all(folder).await;
                }
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .create_if_missing(true)
                    .journal_mode(SqliteJournalMode::Wal)
                    // A lost commit would look like a store that went back in time.
                    .synchronous(SqliteSynchronous::Full)
                    .busy_timeout(Duration::from_secs(30))
                    .disable_statement_logging();
                let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
                let opened = pool.connect_with(options).await;
                let doing = || format!("the store can't be opened (path={})", path.display());
                (Sql::Sqlite(opened.map_err(|error| classify(&doing(), error))?), "public".to_owned())
            }
            StoreSettings::Postgres { url, schema } => {
                let pool = PgPoolOptions::new().max_connections(CONNECTIONS);
                let opened = pool.connect_with(options_of(url, schema)?).await;
                let doing = "the store can't be opened";
                (Sql::Postgres(opened.map_err(|error| classify(doing, error))?), schema.clone())
            }
        };
        migrate::migrate(&sql, &schema).await?;
        let spec = RwLock::new(Arc::new(SourceSpec::default()));
        Ok(Self { shared: Arc::new(Shared { settings, sql, schema, spec }) })
    }

    /// Which database it lives in.
    pub fn dialect(&self) -> Dialect {
        self.shared.sql.dialect()
    }

    /// A table of the store as changes name it.
    pub fn table(&self, name: &str) -> QualifiedTable {
        QualifiedTable::new(&self.shared.schema, name)
    }

    /// Says which columns link rows to documents: their values are kept with each change from now on.
    pub(crate) fn set_spec(&self, spec: &SourceSpec) {
        *self.shared.spec.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(spec.clone());
    }

    /// The columns by which rows of a table are found from their parents, in order of name.
    pub(crate) fn links(&self, table: &QualifiedTable) -> Vec<Text> {
        let spec = self.shared.spec.read().unwrap_or_else(PoisonError::into_inner).clone();
        spec.link_columns(table)
    }

    pub(crate) fn sql(&self) -> &Sql {
        &self.shared.sql
    }

    /// Closes its connections, once those that are out have come back.
    pub async fn close(&self) {
        match &self.shared.sql {
            Sql::Sqlite(pool) => pool.close().await,
            Sql::Postgres(pool) => pool.close().await,
        }
    }
}

/// Every setting pinned that could change a value's text.
fn options_of(url: &Secret, schema: &str) -> Result<PgConnectOptions> {
    let options = PgConnectOptions::from_str(url.expose())
        .map_err(|error| SourceError::setup(url.redact(&format!("the store's url can't be used: {error}"))))?;
    let search_path = dialect::ident(schema);
    Ok(options
        .application_name("millstream")
        .extra_float_digits(1)
        .options([
            ("search_path", search_path.as_str()),
            ("TimeZone", "UTC"),
            ("DateStyle", "ISO"),
            ("IntervalStyle", "iso_8601"),
            ("bytea_output", "hex"),
        ])
        .disable_statement_logging())
}
