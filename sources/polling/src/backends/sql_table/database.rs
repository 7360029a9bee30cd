//! Three databases behind one face: text in, rows of cells out. Reads only.

use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use futures::TryStreamExt;
use millstream_model::Secret;
#[cfg(feature = "mysql")]
use sqlx::mysql::{MySqlConnectOptions, MySqlPool, MySqlPoolOptions, MySqlRow};
use sqlx::postgres::{PgConnectOptions, PgPool, PgPoolOptions, PgRow};
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{AssertSqlSafe, ConnectOptions, Decode, Row, TypeInfo, ValueRef};

use super::cell::Cell;
use super::dialect::Dialect;
use crate::{BackendError, BackendErrorKind};

/// Time that a server has to take a connection.
const CONNECT: Duration = Duration::from_secs(10);

/// Connections at most: the driver asks one thing at a time.
const CONNECTIONS: u32 = 2;

/// A database that is read.
pub(super) struct Database {
    url: Secret,
    options: Options,
    // Made when it is used first: making one takes a runtime.
    pool: OnceLock<Pool>,
}

enum Options {
    Postgres(Box<PgConnectOptions>),
    #[cfg(feature = "mysql")]
    MySql(Box<MySqlConnectOptions>),
    Sqlite(Box<SqliteConnectOptions>),
}

enum Pool {
    Postgres(PgPool),
    #[cfg(feature = "mysql")]
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

impl Options {
    fn pool(&self) -> Pool {
        macro_rules! lazily {
            ($pool:expr) => {
                $pool.max_connections(CONNECTIONS).acquire_timeout(CONNECT).test_before_acquire(false)
            };
        }
        match self {
            Self::Postgres(options) => {
                Pool::Postgres(lazily!(PgPoolOptions::new()).connect_lazy_with((**options).clone()))
            }
            #[cfg(feature = "mysql")]
            Self::MySql(options) => {
                let pool = lazily!(MySqlPoolOptions::new()).after_connect(|connection, _| {
                    let read_only = sqlx::query("set session transaction read only");
                    Box::pin(async move { read_only.execute(connection).await.map(|_| ()) })
                });
                Pool::MySql(pool.connect_lazy_with((**options).clone()))
            }
            Self::Sqlite(options) => {
                Pool::Sqlite(lazily!(SqlitePoolOptions::new()).connect_lazy_with((**options).clone()))
            }
        }
    }
}

impl Database {
    /// A database at an address. Connects to nobody yet.
    pub(super) fn new(url: &Secret) -> Result<Self, BackendError> {
        let refused = |error: sqlx::Error| {
            BackendError::configuration(url.redact(&format!("the database's url can't be used: {error}")))
        };
        let options = match url.expose().split_once(':').map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql") => Options::Postgres(Box::new(postgres(url).map_err(refused)?)),
            #[cfg(feature = "mysql")]
            Some("mysql" | "mariadb") => Options::MySql(Box::new(mysql(url).map_err(refused)?)),
            #[cfg(not(feature = "mysql"))]
            Some("mysql" | "mariadb") => {
                let message = "this build reads no MySQL: build millstream with its feature `mysql`";
                return Err(BackendError::configuration(message));
            }
            Some("sqlite") => Options::Sqlite(Box::new(sqlite(url).map_err(refused)?)),
            _ => {
                let message = "the database's url must begin with postgres://, mysql://, mariadb:// or sqlite:";
                return Err(BackendError::configuration(message));
            }
        };
        Ok(Self { url: url.clone(), options, pool: OnceLock::new() })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match &self.options {
            Options::Postgres(_) => Dialect::Postgres,
            #[cfg(feature = "mysql")]
            Options::MySql(_) => Dialect::MySql,
            Options::Sqlite(_) => Dialect::Sqlite,
        }
    }

    /// The rows of a query.
    pub(super) async fn rows(&self, sql: String, values: &[Cell]) -> Result<Vec<Vec<Cell>>, BackendError> {
        self.rows_up_to(sql, values, usize::MAX).await
    }

    /// The rows of a query, `most` and one more at most: who asks sees that there are too many, and they fill no memory.
    pub(super) async fn rows_up_to(
        &self,
        sql: String,
        values: &[Cell],
        most: usize,
    ) -> Result<Vec<Vec<Cell>>, BackendError> {
        let sql = AssertSqlSafe(sql);
        let mut rows = Vec::new();
        macro_rules! read {
            ($query:expr, $pool:expr, $read:path) => {{
                let mut stream = $query.fetch($pool);
                while let Some(row) = stream.try_next().await? {
                    rows.push($read(&row)?);
                    if rows.len() > most {
                        break;
                    }
                }
            }};
        }
        let read = async {
            match self.pool.get_or_init(|| self.options.pool()) {
                Pool::Postgres(pool) => {
                    let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(value.text()));
                    read!(query, pool, postgres_row);
                }
                #[cfg(feature = "mysql")]
                Pool::MySql(pool) => {
                    let query = values.iter().fold(sqlx::query(sql), |query, value| query.bind(value.text()));
                    read!(query, pool, mysql_row);
                }
                Pool::Sqlite(pool) => {
                    let query = values.iter().cloned().fold(sqlx::query(sql), |query, value| match value {
                        Cell::Null => query.bind(None::<String>),
                        Cell::Integer(value) => query.bind(value),
                        Cell::Real(value) => query.bind(value),
                        Cell::Text(value) => query.bind(value),
                        Cell::Blob(value) => query.bind(value),
                    });
                    read!(query, pool, sqlite_row);
                }
            }
            Ok::<(), sqlx::Error>(())
        };
        read.await.map_err(|error| self.classify(error))?;
        Ok(rows)
    }

    fn classify(&self, error: sqlx::Error) -> BackendError {
        let (kind, message) = match &error {
            sqlx::Error::Database(database) => {
                let code = database.code().unwrap_or_default();
                let number = self.number(&**database);
                let kind = kind_of(self.dialect(), &code, number);
                let shown = number.map_or_else(|| code.to_string(), |number| number.to_string());
                (kind, format!("the database refuses: {} (code={shown})", database.message()))
            }
            sqlx::Error::Io(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => {
                (BackendErrorKind::Transient, format!("the database can't be reached: {error}"))
            }
            sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => {
                (BackendErrorKind::Configuration, format!("the database can't be used: {error}"))
            }
            _ => (BackendErrorKind::Undecodable, format!("the database's answer can't be read: {error}")),
        };
        BackendError::new(kind, self.url.redact(&message))
    }

    /// MySQL's own number of an error: its SQLSTATE says too little.
    #[cfg_attr(not(feature = "mysql"), allow(clippy::unused_self))]
    fn number(&self, error: &dyn sqlx::error::DatabaseError) -> Option<u16> {
        #[cfg(feature = "mysql")]
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Some(error.number());
        }
        let _ = error;
        None
    }
}

/// Every setting pinned that could change a value's text.
fn postgres(url: &Secret) -> Result<PgConnectOptions, sqlx::Error> {
    Ok(PgConnectOptions::from_str(url.expose())?
        .application_name("millstream")
        .extra_float_digits(1)
        .options([
            ("TimeZone", "UTC"),
            ("DateStyle", "ISO"),
            ("IntervalStyle", "iso_8601"),
            ("bytea_output", "hex"),
            ("default_transaction_read_only", "on"),
        ])
        .disable_statement_logging())
}

#[cfg(feature = "mysql")]
fn mysql(url: &Secret) -> Result<MySqlConnectOptions, sqlx::Error> {
    let url = url.expose().replacen("mariadb:", "mysql:", 1);
    Ok(MySqlConnectOptions::from_str(&url)?.timezone(Some("+00:00".to_owned())).disable_statement_logging())
}

fn sqlite(url: &Secret) -> Result<SqliteConnectOptions, sqlx::Error> {
    Ok(SqliteConnectOptions::from_str(url.expose())?
        // A missing file is no empty database.
        .create_if_missing(false)
        .pragma("query_only", "on")
        .busy_timeout(Duration::from_secs(5))
        .disable_statement_logging())
}

fn postgres_row(row: &PgRow) -> Result<Vec<Cell>, sqlx::Error> {
    (0..row.len()).map(|place| row.try_get::<Option<String>, _>(place).map(from_text)).collect()
}

#[cfg(feature = "mysql")]
fn mysql_row(row: &MySqlRow) -> Result<Vec<Cell>, sqlx::Error> {
    // Unchecked: the server calls a text by many names.
    (0..row.len()).map(|place| row.try_get_unchecked::<Option<String>, _>(place).map(from_text)).collect()
}

fn from_text(text: Option<String>) -> Cell {
    text.map_or(Cell::Null, Cell::Text)
}

fn sqlite_row(row: &SqliteRow) -> Result<Vec<Cell>, sqlx::Error> {
    let cell = |place| {
        let value = row.try_get_raw(place)?;
        if value.is_null() {
            return Ok(Cell::Null);
        }
        // The value's own type: a column's means little here.
        let name = value.type_info().name().to_owned();
        match name.as_str() {
            "INTEGER" => <i64 as Decode<Sqlite>>::decode(value).map(Cell::Integer),
            "REAL" => <f64 as Decode<Sqlite>>::decode(value).map(Cell::Real),
            "BLOB" => <Vec<u8> as Decode<Sqlite>>::decode(value).map(Cell::Blob),
            _ => <String as Decode<Sqlite>>::decode(value).map(Cell::Text),
        }
        .map_err(sqlx::Error::Decode)
    };
    (0..row.len()).map(cell).collect()
}

/// What a database's error means for who asked.
pub(super) fn kind_of(dialect: Dialect, code: &str, number: Option<u16>) -> BackendErrorKind {
    let is_passing = match dialect {
        Dialect::Postgres => {
            let class = code.get(..2).unwrap_or_default();
            matches!(class, "08" | "40" | "53" | "57" | "58") || matches!(code, "55P03" | "25006")
        }
        // Too many connections, shutting down, out of memory or disk, lock waits, deadlocks, killed, time-outs of the server.
        Dialect::MySql => matches!(
            number,
            Some(
                1021 | 1037
                    | 1038
                    | 1040
                    | 1041
                    | 1053
                    | 1077
                    | 1079
                    | 1203
                    | 1205
                    | 1213
                    | 1226
                    | 1317
                    | 1927
                    | 1969
                    | 3024
            )
        ),
        // Busy, locked, out of memory, interrupted, an error of the disk, a full one, another schema than a moment ago. A file
        // that can't be opened is often one that is being replaced.
        Dialect::Sqlite => {
            matches!(code.parse::<i64>().map(|code| code & 0xFF), Ok(5 | 6 | 7 | 9 | 10 | 13 | 14 | 15 | 17))
        }
    };
    if is_passing { BackendErrorKind::Transient } else { BackendErrorKind::Configuration }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_by_itself_is_told_from_what_somebody_must_mend() {
        let passing = [
            (Dialect::Postgres, "57P01", None),
            (Dialect::Postgres, "53300", None),
            (Dialect::MySql, "08004", Some(1040)),
            (Dialect::MySql, "40001", Some(1213)),
            (Dialect::Sqlite, "5", None),
            (Dialect::Sqlite, "261", None),
        ];
        for (dialect, code, number) in passing {
            assert_eq!(kind_of(dialect, code, number), BackendErrorKind::Transient, "{dialect:?} {code}");
        }
        let lasting = [
            (Dialect::Postgres, "42P01", None),
            (Dialect::Postgres, "28P01", None),
            (Dialect::MySql, "42S02", Some(1146)),
            (Dialect::MySql, "28000", Some(1045)),
            (Dialect::Sqlite, "1", None),
            (Dialect::Sqlite, "26", None),
        ];
        for (dialect, code, number) in lasting {
            assert_eq!(kind_of(dialect, code, number), BackendErrorKind::Configuration, "{dialect:?} {code}");
        }
    }

    #[test]
    fn p19_an_address_that_can_not_be_used_shows_no_password() {
        for url in ["oracle://me:hunter2@x/y", "postgres://me:hunter2@host:port/db", "hunter2"] {
            let error = Database::new(&Secret::new(url.to_owned())).err().unwrap();
            assert_eq!(error.kind(), BackendErrorKind::Configuration);
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
