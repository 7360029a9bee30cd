use async_trait::async_trait;
use millstream_model::QualifiedTable;
use serde::Serialize;

use crate::{Result, SourceSpec};

/// A statement that brings one missing thing into being.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// What it is for, in a few words.
    pub purpose: String,
    /// The statement, ready to run, without its closing semicolon.
    pub statement: String,
    /// True when the engine may run it itself under its settings and rights.
    pub manageable: bool,
}

/// How far a source's set-up covers a spec.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CoverageReport {
    /// Tables whose changes are fully told.
    pub present: Vec<QualifiedTable>,
    /// Tables whose changes are not told, or only in part.
    pub missing: Vec<QualifiedTable>,
    /// What would fill the gap, in the order to run it.
    pub remediation: Vec<Remedy>,
    /// What no statement mends: each a sentence that says why.
    pub blockers: Vec<String>,
}

impl CoverageReport {
    /// True when nothing is missing.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty() && self.blockers.is_empty() && self.remediation.is_empty()
    }

    /// True when the engine may run all that is missing itself.
    pub fn is_manageable(&self) -> bool {
        self.blockers.is_empty() && self.remediation.iter().all(|remedy| remedy.manageable)
    }
}

/// Brings a source's set-up in line with a spec.
#[async_trait]
pub trait CaptureProvisioning: Send + Sync {
    /// Reports what is there and what is missing. Changes nothing.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn inspect_coverage(&self, spec: &SourceSpec) -> Result<CoverageReport>;

    /// Runs what is missing and manageable, and reports what is left. Running it twice changes nothing the second time.
    /// Never narrows what is there.
    ///
    /// # Errors
    /// When the source can't be asked, or refuses a statement; those that ran before stay.
    async fn ensure_coverage(&self, spec: &SourceSpec) -> Result<CoverageReport>;
}
