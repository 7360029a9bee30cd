//! What is worked out once for an index: its queries, over one catalog.

use std::sync::Arc;

use millstream_core::{Catalog, Diagnostic, IndexSpec, Result, SourceError, SourceErrorKind};
use millstream_model::{RowKey, Text};
use tokio::sync::OnceCell;

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
}

impl Queries {
    fn new(spec: &IndexSpec, catalog: &Catalog) -> Result<Self> {
        let key = RootKey::of(&spec.schema, catalog)?;
        let build = build_query(&spec.schema, catalog, &key)?.into();
        let walks = Walks::new(spec, catalog, &key)?;
        Ok(Self { key, build, walks })
    }

    /// Keys as the build query takes them.
    pub fn parameter(&self, keys: &[RowKey]) -> Result<String> {
        let mut texts: Vec<Vec<&str>> = Vec::with_capacity(keys.len());
        for key in keys {
            if *key.columns() == self.key.columns {
                texts.push(key.values().iter().map(Text::as_str).collect());
                continue;
            }
            let of = |column: &Text| {
                let missing = || SourceError::decode(format!("a key lacks a column of the index's (column={column})"));
                key.get(column).ok_or_else(missing)
            };
            texts.push(self.key.columns.iter().map(of).collect::<Result<_>>()?);
        }
        Ok(json_array(texts))
    }
}

/// One JSON array: of texts, or of arrays of texts where there are several in each.
pub(super) fn json_array<'a>(texts: impl IntoIterator<Item = Vec<&'a str>>) -> String {
    let one = |mut texts: Vec<&'a str>| match texts.len() {
        1 => serde_json::Value::from(texts.remove(0)),
        _ => serde_json::Value::from(texts),
    };
    serde_json::Value::Array(texts.into_iter().map(one).collect()).to_string()
}
