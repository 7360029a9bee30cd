//! For micro-benches: planning without a server.

use millstream_core::{Catalog, IndexSpec, Result};
use millstream_model::ChangedRow;

use super::plan::IndexPlan;
use crate::seeds::seeds;

/// An index's queries over a catalog.
pub struct Planned(IndexPlan);

impl Planned {
    /// Plans an index.
    ///
    /// # Errors
    /// When the schema names what the catalog does not have.
    pub fn new(spec: &IndexSpec, catalog: Catalog) -> Result<Self> {
        let plan = IndexPlan::new(spec, catalog);
        plan.queries()?;
        Ok(Self(plan))
    }

    /// The length of the query that builds, in bytes.
    pub fn query_bytes(&self) -> usize {
        self.0.queries().map_or(0, |queries| queries.build.len())
    }

    /// At how many places the ways from these rows up to the documents begin.
    pub fn seeds(&self, rows: &[ChangedRow]) -> usize {
        let Ok(queries) = self.0.queries() else { return 0 };
        let of = |row: &ChangedRow| -> usize {
            queries.walks.of(&row.table).map(|(_, walk)| seeds(walk.tie(), row).len()).sum()
        };
        rows.iter().map(of).sum()
    }
}
