use std::error::Error;
use std::fmt;

/// The result of anything that asks a sink.
pub type Result<T, E = SinkError> = std::result::Result<T, E>;

/// What to do about a [`SinkError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SinkErrorKind {
    /// Away, busy or refusing us for now: the same batch is tried again, for ever, with backoff.
    Retry,
    /// Not set up for what is asked: mend it. Tried again as well, more slowly.
    Setup,
    /// Another process has it: waited for, as a standby waits for its turn.
    Held,
    /// What was written before may be lost (a failed fsync): the run ends, and a new one starts from the last ack.
    Broken,
    /// What was written to is gone for good, and no new run can bring it back: the engine stops.
    Gone,
    /// Another engine has taken over (a higher epoch than ours): the engine stops.
    TakenOver,
}

impl SinkErrorKind {
    /// True when the run can't go on: another begins, unless that [can't help](Self::is_permanent) either.
    pub fn ends_the_run(self) -> bool {
        self == Self::Broken || self.is_permanent()
    }

    /// True when no new run can help, and the engine stops.
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::Gone | Self::TakenOver)
    }

    /// The kind as metrics and logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Setup => "setup",
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Gone => "gone",
            Self::TakenOver => "taken_over",
        }
    }
}

/// Why a sink could not do what was asked.
#[derive(Debug)]
pub struct SinkError {
    kind: SinkErrorKind,
    message: String,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl SinkError {
    /// An error of one kind. `message`: lower case, no full stop, values last.
    pub fn new(kind: SinkErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), cause: None }
    }

    /// A [`SinkErrorKind::Retry`] error.
    pub fn retry(message: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Retry, message)
    }

    /// A [`SinkErrorKind::Setup`] error.
    pub fn setup(message: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Setup, message)
    }

    /// A [`SinkErrorKind::Held`] error.
    pub fn held(message: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Held, message)
    }

    /// A [`SinkErrorKind::Broken`] error.
    pub fn broken(message: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Broken, message)
    }

    /// A [`SinkErrorKind::Gone`] error.
    pub fn gone(message: impl Into<String>) -> Self {
        Self::new(SinkErrorKind::Gone, message)
    }

    /// Adds the cause. The caller has made sure that it shows no secret.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// What to do about it.
    pub fn kind(&self) -> SinkErrorKind {
        self.kind
    }
}

impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.cause {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}
