use std::process::ExitCode;

use millstream::core::{SourceError, SourceErrorKind};
use millstream::{BuildError, Drained, EndReason, Failure, StartError};

/// How a command ends: well, or with a code and what to say of it.
pub type Outcome = Result<(), Exit>;

/// Why a command did not end well. Scripts tell the endings apart by their codes.
#[derive(Debug)]
pub struct Exit {
    code: u8,
    /// What to say; empty when all was said.
    pub message: String,
}

impl Exit {
    /// There are findings (said before), or the end came before all was drained: 1.
    pub fn unfinished(message: impl Into<String>) -> Self {
        Self { code: 1, message: message.into() }
    }

    /// The configuration, a schema or the command line can't be used: 2.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    /// Trying again can't help; somebody must mend something: 3.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { code: 3, message: message.into() }
    }

    /// Another process holds the slot: 4.
    pub fn held(message: impl Into<String>) -> Self {
        Self { code: 4, message: message.into() }
    }

    /// The process's exit code.
    pub fn code(&self) -> ExitCode {
        self.code.into()
    }

    /// What the end of an engine means for its process.
    pub fn of(reason: &EndReason) -> Outcome {
        match reason {
            EndReason::Shutdown(Drained::Clean) => Ok(()),
            EndReason::Shutdown(Drained::Aborted) => Err(Self::unfinished(
                "stopped before all was drained: what was under way comes again after the next start",
            )),
            EndReason::Invalid(_) => Err(Self::configuration(reason.to_string())),
            EndReason::Failed(Failure::Source(error)) => Err(Self::of_source(error, reason.to_string())),
            _ => Err(Self::permanent(reason.to_string())),
        }
    }

    fn of_source(error: &SourceError, message: String) -> Self {
        match error.kind() {
            SourceErrorKind::Held => Self::held(message),
            _ => Self::permanent(message),
        }
    }
}

impl From<StartError> for Exit {
    fn from(error: StartError) -> Self {
        match &error {
            StartError::Invalid(_) | StartError::Build(_) => Self::configuration(error.to_string()),
            StartError::Source(source) => Self::of_source(source, error.to_string()),
            _ => Self::permanent(error.to_string()),
        }
    }
}

impl From<BuildError> for Exit {
    fn from(error: BuildError) -> Self {
        Self::configuration(error.to_string())
    }
}
