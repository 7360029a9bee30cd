//! From a schema file's text to an [`IndexSchema`]: the grammar of the file format.
//!
//! `keys` lists which keys stand where; `fields` and `paths` read them; `literals` turns a scalar's source text into JSON
//! by its declared type. What a well-formed file may not say either (a limit on one row, a name used twice) is the business
//! of [`IndexSchema::check`], which schemas built in Rust go through too; its findings get their places here.

mod fields;
pub(crate) mod keys;
mod literals;
mod paths;
mod reader;
#[cfg(test)]
mod tests;

use crate::yaml::{Node, YamlErrors};

use super::IndexSchema;
use reader::Reader;

impl IndexSchema {
    /// Reads a schema file's text (YAML, so JSON too). `file` is its name for errors.
    ///
    /// # Errors
    /// All that is wrong with it, each with file, line, the path in the schema, what is wrong and what to write.
    ///
    /// ```
    /// use millstream_core::IndexSchema;
    ///
    /// let schema = IndexSchema::from_yaml("table: shop.users\nfields: { id: long }", "users.schema.yaml").unwrap();
    /// assert_eq!(schema.table.to_string(), "shop.users");
    ///
    /// let errors = IndexSchema::from_yaml("table: users\nfields: { id: lnog }", "users.schema.yaml").unwrap_err();
    /// assert!(errors.to_string().starts_with("users.schema.yaml:2:15: fields.id: unknown type `lnog`; write `long`"));
    /// ```
    pub fn from_yaml(text: &str, file: &str) -> Result<Self, YamlErrors> {
        let node = Node::parse(text, file).map_err(|error| YamlErrors(vec![error]))?;
        Self::from_node(&node, text, file)
    }

    /// Reads a schema that stands inside another file. `text` and `file` are that file's, for errors.
    ///
    /// # Errors
    /// As [`from_yaml`](Self::from_yaml).
    pub fn from_node(node: &Node, text: &str, file: &str) -> Result<Self, YamlErrors> {
        let mut reader = Reader::default();
        let schema = reader.schema(node);
        let faults = match schema {
            Some(schema) if reader.faults.is_empty() => {
                let wrong = schema.check();
                if wrong.is_empty() {
                    return Ok(schema);
                }
                wrong.into_iter().map(|fault| reader.placed(fault)).collect()
            }
            _ => std::mem::take(&mut reader.faults),
        };
        Err(YamlErrors(faults.into_iter().map(|fault| fault.in_file(text, file)).collect()))
    }
}
