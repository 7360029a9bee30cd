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

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Location;
use crate::yaml::{Node, Place, YamlErrors};

use super::IndexSchema;
use reader::Reader;

/// Where the parts of a schema stand in its file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaPlaces {
    file: Arc<str>,
    places: BTreeMap<String, Place>,
}

impl SchemaPlaces {
    /// Where a path, or the nearest one above it, stands; `None` when none of them is in the file.
    pub fn at(&self, path: &str) -> Option<Location> {
        let place = nearest_place(&self.places, path)?;
        Some(Location { file: self.file.clone(), line: place.line, column: place.column })
    }
}

/// The place of a path, or of the nearest path above it; of the root where nothing nearer is known.
fn nearest_place(places: &BTreeMap<String, Place>, path: &str) -> Option<Place> {
    let mut path = path;
    loop {
        if let Some(place) = places.get(path) {
            return Some(*place);
        }
        path = &path[..path.rfind(['.', '['])?];
    }
}

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
        Self::from_node_with_places(node, text, file).map(|(schema, _)| schema)
    }

    /// The same, and where each part of it stands.
    ///
    /// # Errors
    /// As [`from_yaml`](Self::from_yaml).
    pub fn from_node_with_places(node: &Node, text: &str, file: &str) -> Result<(Self, SchemaPlaces), YamlErrors> {
        let mut reader = Reader::default();
        let schema = reader.schema(node);
        let faults = match schema {
            Some(schema) if reader.faults.is_empty() => {
                let wrong = schema.check();
                if wrong.is_empty() {
                    return Ok((schema, SchemaPlaces { file: file.into(), places: reader.places }));
                }
                wrong.into_iter().map(|fault| reader.placed(fault)).collect()
            }
            _ => std::mem::take(&mut reader.faults),
        };
        Err(YamlErrors(faults.into_iter().map(|fault| fault.in_file(text, file)).collect()))
    }
}
