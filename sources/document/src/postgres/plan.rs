//! What is worked out once for an index: its queries, over one catalog.

use std::sync::Arc;

use millstream_core::{Catalog, Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind};
use millstream_model::RowKey;
use tokio::sync::OnceCell;

use super::range::{RangeQuery, range_query};
use super::root::{RootKey, build_query};
use super::walk::Walks;

/// An index over one catalog.
pub(super) struct IndexPlan {
    pub catalog: Catalog,
    /// `Err` says what of the schema the catalog does not have.
    queries: std::result::Result<Queries, Unplanned>,
    /// What was found against the index over this catalog; worked out once.
    pub findings: OnceCell<Vec<Diagnostic>>,
}

/// An index's queries.
pub(super) struct Queries {
    pub key: RootKey,
    pub build: Arc<str>,
    /// `None`: a page is built by its keys.
    pub range: Option<RangeQuery>,
    pub walks: Walks,
}

/// Why there are no queries.
struct Unplanned {
    kind: SourceErrorKind,
    message: String,
}

impl IndexPlan {
    pub fn new(spec: &IndexSpec, catalog: Catalog) -> Self {
        let queries = Queries::new(spec, &catalog)
            .map_err(|error| Unplanned { kind: error.kind(), message: format!("index {}: {error}", spec.name) });
        Self { catalog, queries, findings: OnceCell::new() }
    }

    /// The queries.
    ///
    /// # Errors
    /// When the schema names what the catalog does not have.
    pub fn queries(&self) -> Result<&Queries> {
        self.queries.as_ref().map_err(|unplanned| SourceError::new(unplanned.kind, unplanned.message.clone()))
    }

    /// True when a catalog says the same of every table, but for estimates.
    pub fn is_over(&self, catalog: &Catalog) -> bool {
        let (one, other) = (&self.catalog, catalog);
        one.tables.len() == other.tables.len()
            && one.tables.iter().zip(&other.tables).all(|((name, info), (other_name, other_info))| {
                let mut info = info.clone();
                info.estimated_rows = other_info.estimated_rows;
                name == other_name && info == *other_info
            })
    }
}

impl Queries {
    fn new(spec: &IndexSpec, catalog: &Catalog) -> Result<Self> {
        let key = RootKey::of(&spec.schema, catalog)?;
        let build = build_query(&spec.schema, catalog, &key)?.into();
        let range = range_query(&spec.schema, catalog, &key)?;
        let walks = Walks::new(spec, catalog, &key)?;
        Ok(Self { key, build, range, walks })
    }

    /// Keys by column: what the build query takes.
    pub fn key_texts<'a>(&self, keys: &'a [RowKey]) -> Result<Vec<Vec<&'a str>>> {
        let mut texts = vec![Vec::with_capacity(keys.len()); self.key.columns.len()];
        for key in keys {
            let same = *key.columns() == self.key.columns;
            for (at, (texts, column)) in texts.iter_mut().zip(self.key.columns.iter()).enumerate() {
                let value = if same { Some(key.values()[at].as_str()) } else { key.get(column) };
                let missing = || SourceError::decode(format!("a key lacks a column of the index's (column={column})"));
                texts.push(value.ok_or_else(missing)?);
            }
        }
        Ok(texts)
    }
}
