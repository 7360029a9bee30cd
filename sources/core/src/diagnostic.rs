use std::fmt;

use millstream_model::{IndexName, QualifiedTable, Text};
use serde::Serialize;

/// How bad a [`Diagnostic`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Severity {
    /// Works, but slower or other than meant.
    Warning,
    /// Can't be right: the index is not started with it.
    Error,
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
        Self { severity: Severity::Error, code, index, path, message, remedy, table: None, columns: Vec::new() }
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
        let severity = match self.severity {
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}[{}] index {}", self.code, self.index)?;
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
