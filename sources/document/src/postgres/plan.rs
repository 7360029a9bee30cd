//! What is worked out once for an index: its queries, over one catalog.

use std::sync::Arc;

use millstream_core::{Catalog, IndexSpec, Result, SourceError};
use millstream_model::RowKey;

use super::root::{RootKey, build_query};
use super::walk::Walks;

/// An index's queries.
pub(super) struct IndexPlan {
    /// The catalog that they were made from.
    pub catalog: Catalog,
    pub key: RootKey,
    pub build: Arc<str>,
    pub walks: Walks,
}

impl IndexPlan {
    pub fn new(spec: &IndexSpec, catalog: Catalog) -> Result<Self> {
        let key = RootKey::of(&spec.schema, &catalog)?;
        let build = build_query(&spec.schema, &catalog, &key)?.into();
        let walks = Walks::new(spec, &catalog, &key)?;
        Ok(Self { catalog, key, build, walks })
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
