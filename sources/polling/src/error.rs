use std::error::Error;
use std::fmt;
use std::time::Duration;

/// What the driver does about a [`BackendError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackendErrorKind {
    /// The source can't be reached just now: it is asked again, with growing waits.
    Transient,
    /// The source asks for patience: it is asked again after what it said, if it said something.
    Throttled,
    /// The source answered what can't be read: reported; the next cycle asks again.
    Undecodable,
    /// The source no longer has the stream: it is asked for no more until it is discovered again. Its rows stay.
    StreamGone,
    /// The backend is not set up for what is asked: reported; the next cycle asks again.
    Configuration,
}

impl BackendErrorKind {
    /// The kind as reports, metrics and logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Transient => "transient",
            Self::Throttled => "throttled",
            Self::Undecodable => "undecodable",
            Self::StreamGone => "stream_gone",
            Self::Configuration => "configuration",
        }
    }
}

/// Why a backend could not answer: what happened, in the source's own words, and what to do.
#[derive(Debug)]
pub struct BackendError {
    kind: BackendErrorKind,
    message: String,
    retry_after: Option<Duration>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl BackendError {
    /// An error of one kind. `message`: lower case, no full stop, values last; no secret.
    pub fn new(kind: BackendErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, cause: None }
    }

    /// A [`BackendErrorKind::Transient`] error.
    pub fn transient(message: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Transient, message)
    }

    /// A [`BackendErrorKind::Throttled`] error; `retry_after` is what the source asked for.
    pub fn throttled(message: impl Into<String>, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..Self::new(BackendErrorKind::Throttled, message) }
    }

    /// A [`BackendErrorKind::Undecodable`] error.
    pub fn undecodable(message: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Undecodable, message)
    }

    /// A [`BackendErrorKind::StreamGone`] error.
    pub fn stream_gone(message: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::StreamGone, message)
    }

    /// A [`BackendErrorKind::Configuration`] error.
    pub fn configuration(message: impl Into<String>) -> Self {
        Self::new(BackendErrorKind::Configuration, message)
    }

    /// What to do about it.
    pub fn kind(&self) -> BackendErrorKind {
        self.kind
    }

    /// What the source asked for, if it did.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// True when asking again may help without anybody mending anything.
    pub fn is_retryable(&self) -> bool {
        matches!(self.kind, BackendErrorKind::Transient | BackendErrorKind::Throttled)
    }

    /// Says where: puts `context: ` before the message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for BackendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}

/// Makes a [`BackendError`] of any error, by saying what it means.
///
/// ```
/// use millstream_polling::{BackendError, Classify};
///
/// fn temperature(text: &str) -> Result<f64, BackendError> {
///     let line = text.lines().next().ok_or("the file is empty").transient()?;
///     Ok(line.trim().parse::<f64>().undecodable()?)
/// }
/// # assert_eq!(temperature("21.5\n").unwrap(), 21.5);
/// # assert_eq!(temperature("warm").unwrap_err().kind(), millstream_polling::BackendErrorKind::Undecodable);
/// ```
pub trait Classify<T>: Sized {
    /// What happened means `kind`.
    ///
    /// # Errors
    /// The error, if there is one, with its own words and those of its causes.
    fn classify(self, kind: BackendErrorKind) -> Result<T, BackendError>;

    /// The source can't be reached just now.
    ///
    /// # Errors
    /// See [`classify`](Self::classify).
    fn transient(self) -> Result<T, BackendError> {
        self.classify(BackendErrorKind::Transient)
    }

    /// The source asks for patience: this much, if it said so.
    ///
    /// # Errors
    /// See [`classify`](Self::classify).
    fn throttled(self, retry_after: Option<Duration>) -> Result<T, BackendError> {
        self.classify(BackendErrorKind::Throttled).map_err(|error| BackendError { retry_after, ..error })
    }

    /// The source answered what can't be read.
    ///
    /// # Errors
    /// See [`classify`](Self::classify).
    fn undecodable(self) -> Result<T, BackendError> {
        self.classify(BackendErrorKind::Undecodable)
    }

    /// The source no longer has the stream.
    ///
    /// # Errors
    /// See [`classify`](Self::classify).
    fn stream_gone(self) -> Result<T, BackendError> {
        self.classify(BackendErrorKind::StreamGone)
    }

    /// The backend is not set up for what is asked.
    ///
    /// # Errors
    /// See [`classify`](Self::classify).
    fn configuration(self) -> Result<T, BackendError> {
        self.classify(BackendErrorKind::Configuration)
    }
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Classify<T> for Result<T, E> {
    fn classify(self, kind: BackendErrorKind) -> Result<T, BackendError> {
        self.map_err(|error| {
            let error = error.into();
            let mut message = error.to_string();
            let mut cause = error.source();
            while let Some(next) = cause {
                let words = next.to_string();
                // Many errors already repeat their cause's words.
                if !message.contains(&words) {
                    message.push_str(": ");
                    message.push_str(&words);
                }
                cause = next.source();
            }
            BackendError { kind, message, retry_after: None, cause: Some(error) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_is_classified_and_keeps_its_words() {
        let parsed = "warm".parse::<f64>().undecodable().unwrap_err();
        assert_eq!(parsed.kind(), BackendErrorKind::Undecodable);
        assert_eq!(parsed.to_string(), "invalid float literal");
        let said = Err::<(), _>("busy").throttled(Some(Duration::from_secs(7))).unwrap_err();
        assert_eq!((said.kind(), said.retry_after()), (BackendErrorKind::Throttled, Some(Duration::from_secs(7))));
        let chained = std::io::Error::other(BackendError::transient("cut"));
        assert_eq!(Err::<(), _>(chained).transient().unwrap_err().to_string(), "cut");
    }
}
