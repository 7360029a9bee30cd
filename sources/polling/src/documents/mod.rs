//! Documents from an embedded store: each put together by SQLite, in one statement an index and batch.
//!
//! # What a schema may say
//!
//! All of the grammar, with the same meaning as over Postgres, but for what is listed here. What can't be done right is an error
//! of validation that names its place and what to write instead.
//!
//! | | over an embedded store |
//! |---|---|
//! | tables | those of the store, in the schema `public`; the driver's own (`millstream_…`) are refused |
//! | types | a column's declared type tells what it is: `decimal_text`, `timestamp_text`, `date_text`, `json_text`, `boolean`, `integer` (64 bits: `long`), `real`, `text`, `blob` |
//! | keys and joins | of `text`, `integer`, `boolean`, `timestamp_text`, `date_text`; `real`, `blob`, `json_text` and columns without a type are refused, since a text does not say which value they hold. Joined columns are of one type; joined decimals are refused, since `1.0` and `1.00` are other texts |
//! | `array: true` | only of an expression that gives JSON; there are no columns of arrays. A JSON column is `type: json` |
//! | `geo_point: { point }` | refused; there is no such type. `{ lat, lon }` works |
//! | `where`, `when`, `delete_when`, `sql` | SQLite's own SQL over the table's columns, named without the table: decimals in it are worked out as floating-point numbers, texts are compared letter by letter, truths are 1 and 0. The declared `type` tells how an expression looks: `boolean` as `true` or `false`, `json` as JSON, `binary` as base64 |
//! | `lowercase`, `uppercase` | change A to Z alone (a warning) |
//! | `sum` | of decimals exact up to 24 digits on either side of the point, of whole numbers up to 64 bits; more fails the document |
//! | `avg` | a floating-point number, also of decimals (a warning) |
//! | order | texts by their UTF-8 bytes, decimals and numbers by value, NULLs as in Postgres |
//! | numbers | a floating-point number has the fewest digits that mean it; where Postgres writes `1e+15` the digits may be written out; beyond 10^±77 SQLite does not tell its last two |
//!
//! # Why there is no fence
//!
//! The writer of the store tells of a change only once the transaction that made it is committed, and whoever reads opens the same
//! file: a statement that begins after a change was told sees it. So every read covers every change
//! ([`Everything`](millstream_model::Everything)), and no row is ever *not yet* resolved.
//!
//! # How it is made
//!
//! The way of a schema into SQL: `root` writes the query that builds; `fields` an object's inside, with `value` for one value,
//! `relation` and `aggregate` for other tables' rows, `decimal` for digits, `path` for the way there, `scope` for one table in a
//! query. Text is put together with `||` and `group_concat`: nothing that is shown is parsed again. `walk` writes the queries that
//! lead from a changed row up to the documents. `plan` keeps both for an index, `plans` those of all; `build` and `resolve` run
//! them; `catalog` and `types` read the tables, `refuse`, `fragments` and `inspect` say what keeps an index from being built.

mod aggregate;
mod build;
mod catalog;
mod concat;
mod decimal;
mod error;
mod fields;
mod fragments;
mod inspect;
mod path;
mod plan;
mod plans;
mod quote;
mod refuse;
mod relation;
mod resolve;
mod root;
mod scope;
mod types;
mod value;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_core::{Diagnostic, IndexSpec, Result, SourceError, SourceSpec};
use millstream_document::{DocumentBuilder, Reading, ResolvedPage, key_from_id};
use millstream_model::{ChangedRow, IndexName, RowKey};
use sqlx::ConnectOptions;
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{Sqlite, SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use self::error::classify;
use self::plan::IndexPlan;
use self::plans::Plans;

/// How long a reader waits for the file, which a writer holds for moments only.
const BUSY: Duration = Duration::from_secs(30);

/// Finds and builds documents in an embedded store: one SQLite file, read only.
///
/// The [module](self) says what of the grammar it covers. An index is planned at its first use over the tables as they are then,
/// and anew when they have changed: they are looked at again after ten seconds of use, when a query finds a table or column
/// missing, and by [`inspect`](DocumentBuilder::inspect). Cheap to clone; clones share plans and connections.
#[derive(Clone)]
pub struct SqliteDocuments {
    shared: Arc<Shared>,
}

struct Shared {
    pool: SqlitePool,
    spec: Arc<SourceSpec>,
    plans: Plans,
}

impl SqliteDocuments {
    /// Builds the documents of `spec` from the store in a file, over up to `connections` connections: one for each build and resolve
    /// at a time, and one for [`inspect`](DocumentBuilder::inspect). Opens nothing yet.
    pub fn new(path: impl Into<PathBuf>, spec: Arc<SourceSpec>, connections: u32) -> Self {
        let options = SqliteConnectOptions::new()
            .filename(path.into())
            .read_only(true)
            .busy_timeout(BUSY)
            .disable_statement_logging();
        // A file's connections do not age; and what watches their age would need a runtime already.
        let pool = SqlitePoolOptions::new()
            .max_connections(connections.max(1))
            .idle_timeout(None)
            .max_lifetime(None)
            .test_before_acquire(false);
        let shared = Shared { pool: pool.connect_lazy_with(options), spec, plans: Plans::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The query that builds documents of `index`. Its parameter: the keys as one JSON array, of texts, or of arrays of texts where
    /// a key has several columns.
    ///
    /// # Errors
    /// When the store can't be asked or the schema does not fit it.
    pub async fn document_sql(&self, index: &IndexName) -> Result<String> {
        Ok(self.plan(index).await?.queries()?.build.to_string())
    }

    /// Closes its connections, once those that are out have come back.
    pub async fn close(&self) {
        self.shared.pool.close().await;
    }

    fn index(&self, index: &IndexName) -> Result<&IndexSpec> {
        let unknown = || SourceError::setup(format!("there is no such index (index={index})"));
        self.shared.spec.index(index).ok_or_else(unknown)
    }

    /// The plan of an index, made now if there is none or its catalog is old.
    async fn plan(&self, index: &IndexName) -> Result<Arc<IndexPlan>> {
        if let Some(plan) = self.shared.plans.fresh(index) {
            return Ok(plan);
        }
        let spec = self.index(index)?;
        let mut connection = self.connection().await?;
        self.shared.plans.read(spec, &mut connection).await
    }

    async fn connection(&self) -> Result<PoolConnection<Sqlite>> {
        self.shared.pool.acquire().await.map_err(|error| classify("the store can't be opened", error))
    }
}

#[async_trait]
impl DocumentBuilder for SqliteDocuments {
    fn resolve<'a>(&'a self, index: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        resolve::pages(self, index, rows)
    }

    async fn build_many(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        build::build_many(self, index, keys).await
    }

    async fn key_from_id(&self, index: &IndexName, id: &str) -> Result<RowKey> {
        key_from_id(&self.plan(index).await?.queries()?.key.columns, id)
    }

    async fn explain(&self, index: &IndexName, key: &RowKey) -> Result<Option<String>> {
        let sql = self.document_sql(index).await?;
        let columns = key.columns().join(", ");
        Ok(Some(format!("-- ?1: keys as one JSON array ({columns}); for this document {:?}\n{sql}", key.to_id())))
    }

    async fn inspect(&self, index: &IndexName) -> Result<Vec<Diagnostic>> {
        inspect::inspect(self, index).await
    }
}
