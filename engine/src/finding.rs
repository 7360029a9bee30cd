use millstream_core::yaml::YamlError;
use millstream_core::{Diagnostic, Location, Severity, SourceError, SourceErrorKind};
use millstream_model::IndexName;
use serde::Serialize;

use crate::error::StartError;

/// Something that is not as an engine needs it, or that an engine would do by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// How bad it is. What the engine mends by itself when it starts is a [note](Severity::Note).
    pub severity: Severity,
    /// A fixed word for the sort of finding, such as `missing-column`, `publication`, `connections`.
    pub code: &'static str,
    /// The index that it is about; `None` for the source as a whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<IndexName>,
    /// Where in the index's schema; empty for the index or the source as a whole.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Where in the schema's file that stands, or where it names the table that this is about first.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What is wrong.
    pub message: String,
    /// What to do: a line to write or a statement to run; empty when there is nothing to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
    /// Statements that mend it, in the order to run them, without closing semicolons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<String>,
    /// True when the engine mends it by itself, under its settings and rights, or nobody has to do anything.
    pub manageable: bool,
    /// True when the engine would mend it under its settings, but its role has not the right.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_right: bool,
}

impl Finding {
    pub(crate) fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity,
            code,
            index: None,
            path: String::new(),
            location: None,
            message: message.into(),
            remedy: String::new(),
            statements: Vec::new(),
            manageable: severity == Severity::Note,
            lacks_right: false,
        }
    }

    pub(crate) fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// An error that a host found in what is its own.
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A variable of the configuration that is not set, for who does not need its value.
    pub fn of_unset(error: &YamlError) -> Self {
        let file = error.file.as_ref().into();
        let location = Some(Location { file, line: error.line, column: error.column });
        let (path, message) = (error.path.to_string(), error.message.to_string());
        Self { location, path, ..Self::new(Severity::Note, "unset-variable", message) }
    }

    /// What a sink, or what keeps its progress, refuses.
    pub(crate) fn of_sink(error: &StartError) -> Self {
        Self::new(Severity::Error, "sink", error.to_string())
    }

    /// What the source refuses.
    pub(crate) fn of_source(error: &SourceError) -> Self {
        let code = if error.kind() == SourceErrorKind::Gap { "gap" } else { "slot" };
        Self::new(Severity::Error, code, error.message()).with_remedy(error.remedy().unwrap_or_default())
    }

    /// A gap that policy answers by filling again.
    pub(crate) fn of_answered_gap(reason: &str) -> Self {
        let message = format!("the source does not go on where it was left: {reason}");
        Self::new(Severity::Note, "gap", message).with_remedy("the engine fills every index again when it starts")
    }

    /// A sink that others were written without.
    pub(crate) fn of_sink_behind(sink: &str) -> Self {
        let finding = Self::new(Severity::Note, "sink-behind", format!("{} (sink={sink})", crate::start::BEHIND));
        finding.with_remedy("the engine fills its indexes again when it starts")
    }

    /// An index whose schema is another one than that by which it was filled.
    pub(crate) fn of_refill(index: IndexName) -> Self {
        let finding = Self::new(Severity::Note, "refill", "its schema or mapping has changed since it was filled");
        Self { index: Some(index), ..finding.with_remedy("the engine fills it again when it starts") }
    }
}

impl From<Diagnostic> for Finding {
    fn from(diagnostic: Diagnostic) -> Self {
        let Diagnostic { severity, code, index, path, location, message, remedy, .. } = diagnostic;
        Self { index: Some(index), path, location, remedy, ..Self::new(severity, code, message) }
    }
}
