use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

/// Where documents go.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SinkSection {
    /// A file of JSON Lines, or standard output.
    Jsonl(FileSection),
    /// Nowhere: what everything but the sink costs.
    Null(NullSection),
}

/// A file of JSON Lines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct FileSection {
    /// The file, which is made when needed, with the folders above it. `-` is standard output.
    pub path: PathBuf,
}

impl FileSection {
    /// True for standard output.
    pub fn is_stdout(&self) -> bool {
        self.path.as_os_str() == "-"
    }
}

/// Nothing to say.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NullSection {}

/// Where documents go that can't be built or are refused.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DeadLettersSection {
    /// A file of JSON Lines.
    Jsonl(LettersSection),
}

/// A file of dead letters.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LettersSection {
    /// The file, which is made when needed, with the folders above it.
    pub path: PathBuf,
}
