//! The plans of all indexes, each over the catalog as it was last read.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::{IndexSpec, Result, SourceError, SourceErrorKind};
use millstream_model::IndexName;
use millstream_postgres::{Lease, read_catalog};
use tokio::time::Instant;

use super::plan::IndexPlan;

/// How old a plan's catalog may be: a column that changes its type is shown by its new one within this time.
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

/// What there is of an index's plan.
pub(super) enum Lookup {
    Fresh(Arc<IndexPlan>),
    /// The catalog should be read again; this caller is the one to do it.
    Old(Arc<IndexPlan>),
    None,
}

impl Plans {
    pub fn look_up(&self, index: &IndexName) -> Lookup {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        // What could not be planned is tried anew each time: someone may have mended it.
        let Some(known) = known.get_mut(index).filter(|known| known.plan.queries().is_ok()) else {
            return Lookup::None;
        };
        if known.read_at.elapsed() < READ_AGAIN_AFTER {
            return Lookup::Fresh(known.plan.clone());
        }
        known.read_at = Instant::now();
        Lookup::Old(known.plan.clone())
    }

    /// Reads the catalog and plans the index over it; a plan over the same catalog stays.
    pub async fn read(&self, spec: &IndexSpec, lease: &mut Lease) -> Result<Arc<IndexPlan>> {
        let tables = spec.tree.nodes().iter().map(|node| node.table.clone()).collect();
        let read_at = Instant::now();
        let catalog = read_catalog(lease, &tables).await?;
        let same = self.get(&spec.name).filter(|plan| plan.is_over(&catalog));
        let plan = match same {
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
