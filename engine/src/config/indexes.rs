use std::borrow::Cow;
use std::path::PathBuf;

use millstream_core::IndexSchema;
use millstream_core::schema::SchemaPlaces;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

/// A family of documents.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct IndexSection {
    /// The file that says what its documents look like, or the schema itself.
    pub schema: SchemaSource,
    /// What to do with a document that can't be built or is refused for good.
    #[serde(default)]
    pub on_error: OnError,
    /// False: its schema is read and checked, but no documents are built.
    #[serde(default = "yes")]
    #[schemars(default = "yes")]
    pub enabled: bool,
    /// What `schema` says, once it was read.
    #[serde(skip)]
    pub(super) definition: Option<(IndexSchema, SchemaPlaces)>,
}

/// Where an index's schema stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaSource {
    /// In a file of its own.
    File(PathBuf),
    /// In the configuration itself.
    Inline,
}

/// What to do with a document that can't be built or is refused for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnError {
    /// It is kept among the dead letters; the index goes on.
    #[default]
    DeadLetter,
    /// The index stops.
    Stop,
}

/// Stands for a schema that was taken out before the rest was read. No path holds a line break.
pub(super) const INLINE: &str = "\n";

impl<'de> Deserialize<'de> for SchemaSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(if text == INLINE { Self::Inline } else { Self::File(text.into()) })
    }
}

impl JsonSchema for SchemaSource {
    fn schema_name() -> Cow<'static, str> {
        "SchemaSource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "a schema file's path, or the schema itself",
            "type": ["string", "object"],
        })
    }
}

fn yes() -> bool {
    true
}
