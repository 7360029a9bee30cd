//! The plans of all indexes, each over the catalog as it was last read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::{IndexSpec, Result, SourceError, SourceErrorKind};
use millstream_model::IndexName;
use sqlx::sqlite::SqliteConnection;
use tokio::time::Instant;

use super::catalog::read_catalog;
use super::plan::IndexPlan;

/// How old a plan's catalog may be.
const READ_AGAIN_AFTER: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Plans {
    // Held for a look-up or an insert only, never across an await.
    known: Mutex<HashMap<IndexName, Known>>,
}

struct Known {
    plan: Arc<IndexPlan>,
    read_at: Instant,
}

impl Plans {
    /// A plan that is new enough. What could not be planned is tried anew each time: a stream's table may have come.
    pub fn fresh(&self, index: &IndexName) -> Option<Arc<IndexPlan>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get(index).filter(|known| known.read_at.elapsed() < READ_AGAIN_AFTER)?;
        known.plan.queries().is_ok().then(|| known.plan.clone())
    }

    /// Reads the catalog and plans the index over it; a plan over the same catalog stays.
    pub async fn read(&self, spec: &IndexSpec, connection: &mut SqliteConnection) -> Result<Arc<IndexPlan>> {
        let tables = spec.tree.nodes().iter().map(|node| node.table.clone()).collect();
        let read_at = Instant::now();
        let catalog = read_catalog(connection, &tables).await?;
        let plan = match self.get(&spec.name).filter(|plan| plan.catalog.tables == catalog.tables) {
            Some(plan) => plan,
            None => Arc::new(IndexPlan::new(spec, catalog)),
        };
        let known = Known { plan: plan.clone(), read_at };
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.name.clone(), known);
        Ok(plan)
    }

    /// After an error that says that the catalog has changed, the next use plans anew.
    pub fn forget_on(&self, index: &IndexName, error: &SourceError) {
        if matches!(error.kind(), SourceErrorKind::UnknownColumn | SourceErrorKind::Unsupported) {
            self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(index);
        }
    }

    fn get(&self, index: &IndexName) -> Option<Arc<IndexPlan>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(index).map(|known| known.plan.clone())
    }
}
