use std::fmt;
use std::path::PathBuf;

use millstream_core::yaml::{YamlError, YamlErrors};

/// Why a configuration can't be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file itself can't be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// Something in it, or in a schema that it names, is wrong; at least one thing.
    Wrong(YamlErrors),
}

impl From<YamlError> for ConfigError {
    fn from(error: YamlError) -> Self {
        Self::Wrong(YamlErrors(vec![error]))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { path, cause } => {
                write!(f, "can't read the configuration (path={}): {cause}", path.display())
            }
            Self::Wrong(errors) => fmt::Display::fmt(errors, f),
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { cause, .. } => Some(cause),
            Self::Wrong(_) => None,
        }
    }
}
