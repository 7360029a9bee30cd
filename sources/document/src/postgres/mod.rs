//! Documents from Postgres: each put together by the server, in one statement an index and batch.
//!
//! The way of a schema into SQL: `root` writes the query that builds; `fields` an object's inside, with `value` for one value,
//! `relation` and `aggregate` for other tables' rows, `path` for the way there, `scope` for one table in a query. `walk` writes the
//! queries that lead from a changed row up to the documents. `plan` keeps both for an index; `build` and `resolve` run them;
//! `sight` says what they could see; `inspect` what keeps them from running.

mod aggregate;
mod build;
mod concat;
mod fields;
mod inspect;
mod key;
mod path;
mod plan;
mod relation;
mod resolve;
mod root;
mod scope;
mod seeds;
mod sight;
mod types;
mod value;
mod walk;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_core::{Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind, SourceSpec};
use millstream_model::{ChangedRow, IndexName, RowKey};
use millstream_postgres::{Connections, Lease, classify, read_catalog, sqlx};

use self::plan::IndexPlan;
use self::sight::Node;
use crate::{DocumentBuilder, Reading, ResolvedPage};

/// Finds and builds documents in a Postgres.
///
/// An index is planned at its first use, over the catalog as it is then, and anew when a query finds a table or column missing
/// or [`inspect`](DocumentBuilder::inspect) finds another catalog. Cheap to clone; clones share plans and connections.
#[derive(Clone)]
pub struct PostgresDocuments {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    spec: Arc<SourceSpec>,
    accept_row_level_security: bool,
    node: Node,
    // Held for a look-up or an insert only, never across an await.
    plans: Mutex<HashMap<IndexName, Arc<IndexPlan>>>,
}

impl PostgresDocuments {
    /// Builds the documents of `spec` over `connections`. Opens nothing yet.
    pub fn new(connections: Connections, spec: Arc<SourceSpec>) -> Self {
        let plans = Mutex::new(HashMap::new());
        let shared = Shared { connections, spec, accept_row_level_security: false, node: Node::default(), plans };
        Self { shared: Arc::new(shared) }
    }

    /// Takes what row-level security leaves visible as all there is, where it is `true`; by default a table on which it is in
    /// force for our role is an error.
    #[must_use]
    pub fn accept_row_level_security(self, accept: bool) -> Self {
        let Shared { connections, spec, .. } = &*self.shared;
        let (connections, spec) = (connections.clone(), spec.clone());
        let plans = Mutex::new(HashMap::new());
        let shared = Shared { connections, spec, accept_row_level_security: accept, node: Node::default(), plans };
        Self { shared: Arc::new(shared) }
    }

    /// The query that builds documents of `index`. Its parameters are the key columns' texts, each a `text[]`.
    ///
    /// # Errors
    /// When the source can't be asked or the schema does not fit it.
    pub async fn document_sql(&self, index: &IndexName) -> Result<String> {
        Ok(self.plan(index).await?.build.to_string())
    }

    /// The key that a document's id spells: the inverse of [`RowKey::to_id`].
    ///
    /// # Errors
    /// When the id has not as many parts as the key, or the source can't be asked.
    pub async fn key_from_id(&self, index: &IndexName, id: &str) -> Result<RowKey> {
        key::from_id(&self.plan(index).await?.key.columns, id)
    }

    fn index(&self, index: &IndexName) -> Result<&IndexSpec> {
        let unknown = || SourceError::setup(format!("there is no such index (index={index})"));
        self.shared.spec.index(index).ok_or_else(unknown)
    }

    /// The plan of an index, made now if there is none.
    async fn plan(&self, index: &IndexName) -> Result<Arc<IndexPlan>> {
        let known = self.shared.plans.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned();
        match known {
            Some(plan) => Ok(plan),
            None => {
                let mut lease = self.lease().await?;
                let plan = self.read_plan(index, &mut lease).await?;
                lease.keep();
                Ok(plan)
            }
        }
    }

    /// Reads the catalog and plans the index over it; a plan over the same catalog stays.
    async fn read_plan(&self, index: &IndexName, lease: &mut Lease) -> Result<Arc<IndexPlan>> {
        let spec = self.index(index)?;
        let tables = spec.tree.nodes().iter().map(|node| node.table.clone()).collect();
        let catalog = read_catalog(lease, &tables).await?;
        let known = self.shared.plans.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned();
        if let Some(plan) = known.filter(|plan| inspect::same_shape(&plan.catalog, &catalog)) {
            return Ok(plan);
        }
        let plan = Arc::new(IndexPlan::new(spec, catalog).map_err(|error| error.context(format!("index {index}")))?);
        self.shared.plans.lock().unwrap_or_else(PoisonError::into_inner).insert(index.clone(), plan.clone());
        Ok(plan)
    }

    /// After an error that says that the catalog has changed, the next use plans anew.
    fn forget_on(&self, index: &IndexName, error: &SourceError) {
        if matches!(error.kind(), SourceErrorKind::UnknownColumn | SourceErrorKind::Unsupported) {
            self.shared.plans.lock().unwrap_or_else(PoisonError::into_inner).remove(index);
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

    async fn inspect(&self, index: &IndexName) -> Result<Vec<Diagnostic>> {
        inspect::inspect(self, index).await
    }
}
