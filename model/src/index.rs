use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of a family of documents with one schema.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IndexName(Arc<str>);

impl IndexName {
    /// Takes any text; a configuration file checks what it accepts as a name.
    pub fn new(name: impl AsRef<str>) -> Self {
        Self(name.as_ref().into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for IndexName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<&str> for IndexName {
    fn from(name: &str) -> Self {
        Self::new(name)
    }
}

/// One filling of an index: counts up each time it is filled anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

/// What a sink must know about an index to make a place for its documents.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexMapping {
    /// The index.
    pub index: IndexName,
    /// Field mappings as a search engine takes them: `{"properties": {…}}`.
    pub mapping: serde_json::Value,
    /// Hash of the normalised schema: another one means other documents.
    pub schema_hash: String,
    /// Version of how the hashes are made: with another one they are taken over, not compared.
    pub hash_version: u32,
    /// Hash of the mapping: another one means another place for the documents.
    pub mapping_hash: String,
}
