//! Both databases behind one face: numbered parameters, values of four types, rows by place.

use std::borrow::Cow;

use millstream_core::{Result, SourceError, SourceErrorKind};
use sqlx::postgres::{PgPool, PgRow, Postgres};
use sqlx::sqlite::{Sqlite, SqlitePool, SqliteRow};
use sqlx::{AssertSqlSafe, ColumnIndex, Database, Decode, Row, Transaction, Type};

use super::dialect::Dialect;

/// A parameter. Its type is part of it: a NULL has one, too.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Integer(Option<i64>),
    Real(Option<f64>),
    Boolean(Option<bool>),
    Text(Option<String>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(Some(value))
    }
}

impl From<Option<i64>> for Value {
    fn from(value: Option<i64>) -> Self {
        Self::Integer(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(Some(value))
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(Some(value.to_owned()))
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(Some(value))
    }
}

impl From<Option<String>> for Value {
    fn from(value: Option<String>) -> Self {
        Self::Text(value)
    }
}

/// Makes parameters of what stands in it.
macro_rules! values {
    ($($value:expr),* $(,)?) => { [$($crate::store::sql::Value::from($value)),*] };
}
pub(crate) use values;

/// A pool of either database.
#[derive(Clone, Debug)]
pub(crate) enum Sql {
    Sqlite(SqlitePool),
    Postgres(PgPool),
}

/// A transaction of either database. Dropping it rolls it back.
pub(crate) enum Tx {
    Sqlite(Transaction<'static, Sqlite>),
    Postgres(Transaction<'static, Postgres>),
}

/// A row of either database.
pub(crate) enum SqlRow {
    Sqlite(SqliteRow),
    Postgres(PgRow),
}

impl Sql {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Begins a transaction that will write: on SQLite it waits here for the one writer before it.
    pub(crate) async fn begin(&self) -> Result<Tx> {
        const DOING: &str = "a transaction of the store could not begin";
        match self {
            Self::Sqlite(pool) => pool.begin_with("begin immediate").await.map(Tx::Sqlite),
            Self::Postgres(pool) => pool.begin().await.map(Tx::Postgres),
        }
        .map_err(|error| classify(DOING, error))
    }

    /// Reads rows outside of a transaction.
    pub(crate) async fn fetch(&self, sql: impl Into<Cow<'static, str>>, values: &[Value]) -> Result<Vec<SqlRow>> {
        let sql = AssertSqlSafe(sql.into());
        match self {
            Self::Sqlite(pool) => {
                let rows = bind_sqlite(sqlx::query(sql), values).fetch_all(pool).await;
                rows.map(|rows| rows.into_iter().map(SqlRow::Sqlite).collect())
            }
            Self::Postgres(pool) => {
                let rows = bind_postgres(sqlx::query(sql), values).fetch_all(pool).await;
                rows.map(|rows| rows.into_iter().map(SqlRow::Postgres).collect())
            }
        }
        .map_err(|error| classify(DOING, error))
    }

    /// One statement in a transaction of its own.
    pub(crate) async fn execute(&self, sql: impl Into<Cow<'static, str>>, values: &[Value]) -> Result<u64> {
        let mut tx = self.begin().await?;
        let count = tx.execute(sql, values).await?;
        tx.commit().await?;
        Ok(count)
    }
}

const DOING: &str = "a statement of the store failed";

impl Tx {
    pub(crate) fn dialect(&self) -> Dialect {
        match self {
            Self::Sqlite(_) => Dialect::Sqlite,
            Self::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Runs a statement; how many rows it touched.
    pub(crate) async fn execute(&mut self, sql: impl Into<Cow<'static, str>>, values: &[Value]) -> Result<u64> {
        let sql = AssertSqlSafe(sql.into());
        match self {
            Self::Sqlite(tx) => {
                bind_sqlite(sqlx::query(sql), values).execute(&mut **tx).await.map(|done| done.rows_affected())
            }
            Self::Postgres(tx) => {
                bind_postgres(sqlx::query(sql), values).execute(&mut **tx).await.map(|done| done.rows_affected())
            }
        }
        .map_err(|error| classify(DOING, error))
    }

    /// Runs a statement that gives rows.
    pub(crate) async fn fetch(&mut self, sql: impl Into<Cow<'static, str>>, values: &[Value]) -> Result<Vec<SqlRow>> {
        let sql = AssertSqlSafe(sql.into());
        match self {
            Self::Sqlite(tx) => {
                let rows = bind_sqlite(sqlx::query(sql), values).fetch_all(&mut **tx).await;
                rows.map(|rows| rows.into_iter().map(SqlRow::Sqlite).collect())
            }
            Self::Postgres(tx) => {
                let rows = bind_postgres(sqlx::query(sql), values).fetch_all(&mut **tx).await;
                rows.map(|rows| rows.into_iter().map(SqlRow::Postgres).collect())
            }
        }
        .map_err(|error| classify(DOING, error))
    }

    pub(crate) async fn commit(self) -> Result<()> {
        match self {
            Self::Sqlite(tx) => tx.commit().await,
            Self::Postgres(tx) => tx.commit().await,
        }
        .map_err(|error| classify("a transaction of the store could not be committed", error))
    }
}

impl SqlRow {
    pub(crate) fn integer(&self, place: usize) -> Result<i64> {
        self.get(place)
    }

    pub(crate) fn integer_or_null(&self, place: usize) -> Result<Option<i64>> {
        self.get(place)
    }

    pub(crate) fn real(&self, place: usize) -> Result<f64> {
        self.get(place)
    }

    pub(crate) fn boolean(&self, place: usize) -> Result<bool> {
        self.get(place)
    }

    pub(crate) fn text(&self, place: usize) -> Result<String> {
        self.get(place)
    }

    pub(crate) fn text_or_null(&self, place: usize) -> Result<Option<String>> {
        self.get(place)
    }

    fn get<T>(&self, place: usize) -> Result<T>
    where
        T: for<'r> Decode<'r, Sqlite> + Type<Sqlite> + for<'r> Decode<'r, Postgres> + Type<Postgres>,
    {
        match self {
            Self::Sqlite(row) => column(row, place),
            Self::Postgres(row) => column(row, place),
        }
        .map_err(|error| classify("a row of the store can't be read", error))
    }
}

fn column<'r, R: Row, T>(row: &'r R, place: usize) -> sqlx::Result<T>
where
    usize: ColumnIndex<R>,
    T: Decode<'r, R::Database> + Type<R::Database>,
{
    row.try_get(place)
}

type Query<'q, D> = sqlx::query::Query<'q, D, <D as Database>::Arguments>;

fn bind_sqlite<'q>(mut query: Query<'q, Sqlite>, values: &[Value]) -> Query<'q, Sqlite> {
    for value in values.iter().cloned() {
        query = match value {
            Value::Integer(value) => query.bind(value),
            Value::Real(value) => query.bind(value),
            Value::Boolean(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
        };
    }
    query
}

fn bind_postgres<'q>(mut query: Query<'q, Postgres>, values: &[Value]) -> Query<'q, Postgres> {
    for value in values.iter().cloned() {
        query = match value {
            Value::Integer(value) => query.bind(value),
            Value::Real(value) => query.bind(value),
            Value::Boolean(value) => query.bind(value),
            Value::Text(value) => query.bind(value),
        };
    }
    // Statements with many rows differ in length each time: keeping them would fill the server's memory.
    query.persistent(values.len() <= 16)
}

/// Turns a driver's error into one that says what to do next.
pub(crate) fn classify(doing: &str, error: sqlx::Error) -> SourceError {
    let kind = match &error {
        sqlx::Error::Database(database) => kind_of_code(&database.code().unwrap_or_default()),
        sqlx::Error::Io(_)
        | sqlx::Error::PoolTimedOut
        | sqlx::Error::PoolClosed
        | sqlx::Error::WorkerCrashed
        | sqlx::Error::Protocol(_) => SourceErrorKind::Connection,
        sqlx::Error::Tls(_) | sqlx::Error::Configuration(_) => SourceErrorKind::Setup,
        sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) | sqlx::Error::ColumnNotFound(_) => {
            SourceErrorKind::Decode
        }
        _ => SourceErrorKind::Query,
    };
    let message = match &error {
        sqlx::Error::Database(database) => {
            format!("{doing}: {} (code={})", database.message(), database.code().unwrap_or_default())
        }
        other => format!("{doing}: {other}"),
    };
    SourceError::new(kind, message).with_cause(error)
}

/// By SQLSTATE, or by SQLite's result code, whose low byte is the primary one.
fn kind_of_code(code: &str) -> SourceErrorKind {
    if let (true, Ok(code)) = (code.len() < 5, code.parse::<i64>()) {
        return match code & 0xFF {
            // Busy, locked, interrupted, an error of the disk, a full one.
            5 | 6 | 9 | 10 | 13 => SourceErrorKind::Connection,
            // No right, read-only, corrupt, can't be opened, not a database.
            3 | 8 | 11 | 14 | 23 | 26 => SourceErrorKind::Setup,
            _ => SourceErrorKind::Query,
        };
    }
    match code.get(..2).unwrap_or_default() {
        "08" | "40" | "53" | "57" | "58" => SourceErrorKind::Connection,
        "28" | "3D" | "3F" => SourceErrorKind::Setup,
        _ if code == "42501" => SourceErrorKind::Setup,
        _ if code == "55P03" || code == "25006" => SourceErrorKind::Connection,
        _ => SourceErrorKind::Query,
    }
}
