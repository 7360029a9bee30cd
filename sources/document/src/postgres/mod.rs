//! Documents from Postgres: each put together by the server, in one statement an index and batch.
//!
//! The way of a schema into SQL: `root` writes the query that builds by keys and `range` that over a range of them, where `group`
//! gathers other tables' rows once for all roots; `fields` an object's inside, with `value` for one value,
//! `relation` and `aggregate` for other tables' rows, `path` for the way there, `scope` for one table in a query. `walk` writes the
//! queries that lead from a changed row up to the documents. `plan` keeps both for an index, `plans` those of all; `build`, `page` and `resolve` run them;
//! `sight` says what they could see; `inspect` what keeps them from running.

mod aggregate;
mod build;
mod concat;
mod fields;
mod group;
mod inspect;
pub mod micro;
mod page;
mod path;
mod plan;
mod plans;
mod range;
mod relation;
mod resolve;
mod root;
mod scope;
mod sight;
mod types;
mod value;
mod walk;

use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_core::{ColumnInfo, Diagnostic, IndexSpec, Result, SourceError, SourceSpec};
use millstream_model::{ChangedRow, IndexName, QualifiedTable, RowKey};
use millstream_postgres::sqlx::{self, AssertSqlSafe};
use millstream_postgres::{Connections, Lease, classify};

use self::plan::IndexPlan;
use self::plans::{Lookup, Plans};
use self::sight::Node;
use crate::{DocumentBuilder, Reading, ResolvedPage};

/// Finds and builds documents in a Postgres.
///
/// An index is planned at its first use, over the catalog as it is then, and anew when the catalog has changed: it is read again
/// after ten seconds of use, when a query finds a table or column missing, and by [`inspect`](DocumentBuilder::inspect). Cheap to clone; clones share plans and connections.
#[derive(Clone)]
pub struct PostgresDocuments {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    spec: Arc<SourceSpec>,
    accept_row_level_security: bool,
    node: Node,
    plans: Plans,
}

impl PostgresDocuments {
    /// Builds the documents of `spec` over `connections`. Opens nothing yet.
    pub fn new(connections: Connections, spec: Arc<SourceSpec>) -> Self {
        Self::with(connections, spec, false)
    }

    /// Takes what row-level security leaves visible as all there is, where it is `true`; by default a table on which it is in
    /// force for our role is an error.
    #[must_use]
    pub fn accept_row_level_security(self, accept: bool) -> Self {
        Self::with(self.shared.connections.clone(), self.shared.spec.clone(), accept)
    }

    fn with(connections: Connections, spec: Arc<SourceSpec>, accept_row_level_security: bool) -> Self {
        let (node, plans) = (Node::default(), Plans::default());
        Self { shared: Arc::new(Shared { connections, spec, accept_row_level_security, node, plans }) }
    }

    /// The query that builds documents of `index`. Its parameters are the key columns' texts, each a `text[]`.
    ///
    /// # Errors
    /// When the source can't be asked or the schema does not fit it.
    pub async fn document_sql(&self, index: &IndexName) -> Result<String> {
        Ok(self.plan(index).await?.queries()?.build.to_string())
    }

    /// The query that builds a page of documents of `index`: all within a range of keys. Its parameters are the texts of the first
    /// key, in the primary key's order, and of the last. `None`: there is none, and a page is built by its keys.
    ///
    /// # Errors
    /// When the source can't be asked or the schema does not fit it.
    pub async fn page_sql(&self, index: &IndexName) -> Result<Option<String>> {
        Ok(self.plan(index).await?.queries()?.range.as_ref().map(|range| range.sql.to_string()))
    }

    fn index(&self, index: &IndexName) -> Result<&IndexSpec> {
        let unknown = || SourceError::setup(format!("there is no such index (index={index})"));
        self.shared.spec.index(index).ok_or_else(unknown)
    }

    /// The plan of an index, made now if there is none or its catalog is old.
    async fn plan(&self, index: &IndexName) -> Result<Arc<IndexPlan>> {
        let old = match self.shared.plans.look_up(index) {
            Lookup::Fresh(plan) => return Ok(plan),
            Lookup::Old(plan) => Some(plan),
            Lookup::None => None,
        };
        let spec = self.index(index)?;
        let mut lease = self.lease().await?;
        match (self.shared.plans.read(spec, &mut lease).await, old) {
            (Ok(plan), _) => {
                lease.keep();
                Ok(plan)
            }
            // The query to come meets the same fault, if it lasts.
            (Err(_), Some(old)) => Ok(old),
            (Err(error), None) => Err(error),
        }
    }

    async fn lease(&self) -> Result<Lease> {
        let mut lease = self.shared.connections.get().await?;
        if self.shared.accept_row_level_security {
            sqlx::query("set row_security = on")
                .execute(&mut *lease)
                .await
                .map_err(|error| classify("can't set row_security", error))?;
        }
        Ok(lease)
    }
}

#[async_trait]
impl DocumentBuilder for PostgresDocuments {
    fn resolve<'a>(&'a self, index: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        resolve::pages(self, index, rows)
    }

    async fn build_many(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        build::build_many(self, index, keys).await
    }

    async fn build_page(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        page::build_page(self, index, keys).await
    }

    async fn key_from_id(&self, index: &IndexName, id: &str) -> Result<RowKey> {
        let plan = self.plan(index).await?;
        let key = crate::key_from_id(&plan.queries()?.key.columns, id)?;
        let table = &self.index(index)?.schema.table;
        let mut lease = self.lease().await?;
        for (column, value) in key.iter() {
            let info =
                plan.catalog.table(table).and_then(|info| info.columns.iter().find(|info| &*info.name == column));
            let Some(info) = info else { continue };
            let cast = AssertSqlSafe(format!("select ($1::text::{}) is null", types::cast_type(info)));
            let cast = sqlx::query(cast).bind(value).execute(&mut *lease).await;
            cast.map_err(|error| not_of_type(table, info, value, error))?;
        }
        lease.keep();
        Ok(key)
    }

    async fn explain(&self, index: &IndexName, key: &RowKey) -> Result<Option<String>> {
        let mut text = String::new();
        for (number, (column, value)) in key.iter().enumerate() {
            let (number, value) = (number + 1, value.replace('\n', " "));
            text += &format!("-- ${number}: values of {column} as text[]; for this document {value:?}\n");
        }
        Ok(Some(text + &self.document_sql(index).await?))
    }

    async fn inspect(&self, index: &IndexName) -> Result<Vec<Diagnostic>> {
        inspect::inspect(self, index).await
    }
}

/// What a part of an id that its column's type does not take is told.
fn not_of_type(table: &QualifiedTable, column: &ColumnInfo, value: &str, error: sqlx::Error) -> SourceError {
    let (name, native) = (&column.name, &column.native_type);
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default();
    match code.starts_with("22") {
        true => SourceError::query(format!("`{value}` is no {native}, as the key column `{name}` of {table} holds")),
        false => classify("can't look at the key", error),
    }
}
