use millstream_actors::Failure;
use millstream_core::{Diagnostic, SourceError};
use millstream_sinks::SinkError;

/// Why an engine can't be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// Neither a source nor a capture with a document builder was given.
    #[error("the engine has no source; give it one with source(…), or indexes(…), capture(…) and documents(…)")]
    NoSource,
    /// No sink was given.
    #[error("the engine has no sink; give it at least one with sink(…)")]
    NoSink,
    /// More sinks than an engine can have.
    #[error("the engine has too many sinks (found={0}, at most=64)")]
    TooManySinks(usize),
    /// Two sinks have one name.
    #[error("two sinks have one name (name={0})")]
    SinkTwice(String),
    /// The file names a source that this build does not have.
    #[error("this build has no source of this kind; build millstream with its feature (feature={0})")]
    NotBuiltIn(&'static str),
    /// The file names another kind of source than what is asked for works with.
    #[error("this works with another kind of source (wanted={wanted}, found={found})")]
    OtherSource {
        /// The kind that it works with.
        wanted: &'static str,
        /// The kind that the file names.
        found: &'static str,
    },
    /// A polled source of which nothing is said.
    #[error("nothing says what is polled; write one such as `csv_folder: {{ path: inbox, key: [id] }}`")]
    NoBackend,
    /// A polled source can't be used as it is set up.
    #[cfg(feature = "polling")]
    #[error(transparent)]
    Backend(#[from] millstream_polling::BackendError),
    /// The source's settings can't be used.
    #[error(transparent)]
    Source(#[from] SourceError),
}

/// Why an engine can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An index that was never filled does not agree with the source.
    #[error("{}", listed(.0))]
    Invalid(Vec<Diagnostic>),
    /// The source refuses.
    #[error("source: {0}")]
    Source(#[from] SourceError),
    /// A part of it can't be used.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A sink, or what keeps its progress, refuses.
    #[error("sink {name}: {error}")]
    Sink {
        /// Its name.
        name: String,
        /// How.
        #[source]
        error: SinkError,
    },
}

fn listed(diagnostics: &[Diagnostic]) -> String {
    diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// How a shutdown went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// All that was under way is durable and confirmed.
    Clean,
    /// The deadline passed first: what was under way comes again after the next start.
    Aborted,
}

/// Why an engine has ended for good.
#[derive(Debug)]
#[non_exhaustive]
pub enum EndReason {
    /// It was asked to.
    Shutdown(Drained),
    /// A new run can't help.
    Failed(Failure),
    /// An index that was never filled does not agree with the source.
    Invalid(Vec<Diagnostic>),
}

impl std::fmt::Display for EndReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shutdown(Drained::Clean) => f.write_str("shut down, drained"),
            Self::Shutdown(Drained::Aborted) => f.write_str("shut down before it had drained"),
            Self::Failed(failure) => std::fmt::Display::fmt(failure, f),
            Self::Invalid(diagnostics) => f.write_str(&listed(diagnostics)),
        }
    }
}
