use std::fmt;
use std::sync::Arc;

use millstream_model::{IndexName, QualifiedTable, Text};
use serde::Serialize;

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Nothing for anybody to do: what the engine does by itself, or what is good to know.
    Note,
    /// Works, but slower or other than meant.
    Warning,
    /// Can't be right: the index is not started with it.
    Error,
}

impl Severity {
    /// The word, as people and scripts read it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Where something stands in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Location {
    /// The file, as the reader of it was told its name.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: usize,
    /// Column in letters, from 1.
    pub column: usize,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One finding about an index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// A fixed word for the sort of finding, such as `missing-column`.
    pub code: &'static str,
    /// The index.
    pub index: IndexName,
    /// Where in the schema: `fields.orders.fields.total`; empty for the index as a whole.
    pub path: String,
    /// Where that stands in the schema's file; `None` for a schema that was built in Rust.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What is wrong.
    pub message: String,
    /// What to do: a statement to run or a line to write; empty when there is nothing to say.
    pub remedy: String,
    /// The table that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table: Option<QualifiedTable>,
    /// The columns of that table that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<Text>,
}

impl Diagnostic {
    /// An error at a path of an index's schema.
    pub fn error(
        code: &'static str,
        index: &IndexName,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (path, message, remedy) = (path.into(), message.into(), remedy.into());
        let index = index.clone();
        let (severity, location, table, columns) = (Severity::Error, None, None, Vec::new());
        Self { severity, code, index, path, location, message, remedy, table, columns }
    }

    /// A warning at a path of an index's schema.
    pub fn warning(
        code: &'static str,
        index: &IndexName,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, index, path, message, remedy) }
    }

    /// Says which table and columns it is about, for whoever knows better what mends it.
    #[must_use]
    pub fn about(mut self, table: &QualifiedTable, columns: impl IntoIterator<Item = Text>) -> Self {
        self.table = Some(table.clone());
        self.columns = columns.into_iter().collect();
        self
    }

    /// True for [`Severity::Error`].
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(location) = &self.location {
            write!(f, "{location}: ")?;
        }
        write!(f, "{}[{}] index {}", self.severity.as_str(), self.code, self.index)?;
        if !self.path.is_empty() {
            write!(f, " at {}", self.path)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.remedy.is_empty() {
            write!(f, "; to mend it: {}", self.remedy)?;
        }
        Ok(())
    }
}
