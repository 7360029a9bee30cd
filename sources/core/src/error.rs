use std::error::Error;
use std::fmt;

/// The result of anything that asks a source.
pub type Result<T, E = SourceError> = std::result::Result<T, E>;

/// What to do about a [`SourceError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceErrorKind {
    /// The source can't be reached just now, or asked to be tried again: retry.
    Connection,
    /// The source is not set up for what is asked (rights, settings, identities): mend it, the message says how.
    Setup,
    /// Another process does this work (the slot is taken): wait for it or stop it.
    Held,
    /// The durable point is lost or belongs to another history: continue only by policy (stop or fill again).
    Gap,
    /// The source sent what can't be decoded: a fault of ours or a server that is not supported.
    Decode,
    /// A query failed on the data it met (division by zero, out of range): a smaller batch may tell which row.
    Query,
    /// A table or column that is asked for is not there, or has changed its type.
    UnknownColumn,
    /// The source can't do what is asked at all.
    Unsupported,
}

impl SourceErrorKind {
    /// The kind as metrics and logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Setup => "setup",
            Self::Held => "held",
            Self::Gap => "gap",
            Self::Decode => "decode",
            Self::Query => "query",
            Self::UnknownColumn => "unknown_column",
            Self::Unsupported => "unsupported",
        }
    }

    /// True when trying the same again may help without anybody mending anything.
    pub fn is_transient(self) -> bool {
        matches!(self, Self::Connection)
    }
}

/// Why a source could not answer: what happened, what to do, and the cause.
#[derive(Debug)]
pub struct SourceError {
    kind: SourceErrorKind,
    message: String,
    remedy: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl SourceError {
    /// An error of one kind. `message`: lower case, no full stop, values last.
    pub fn new(kind: SourceErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), remedy: None, cause: None }
    }

    /// Adds what mends it: a statement or a setting, ready to use.
    #[must_use]
    pub fn with_remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds the cause. The caller has made sure that it shows no secret.
    #[must_use]
    pub fn with_cause(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.cause = Some(cause.into());
        self
    }

    /// Says where: puts `context: ` before the message.
    #[must_use]
    pub fn context(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }

    /// What to do about it.
    pub fn kind(&self) -> SourceErrorKind {
        self.kind
    }

    /// What happened, without what mends it.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What mends it, if that is known.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

macro_rules! constructors {
    ($($name:ident $kind:ident $doc:literal),* $(,)?) => {
        impl SourceError {
            $(#[doc = $doc]
            pub fn $name(message: impl Into<String>) -> Self {
                Self::new(SourceErrorKind::$kind, message)
            })*
        }
    };
}

constructors! {
    connection Connection "A [`SourceErrorKind::Connection`] error.",
    setup Setup "A [`SourceErrorKind::Setup`] error.",
    held Held "A [`SourceErrorKind::Held`] error.",
    gap Gap "A [`SourceErrorKind::Gap`] error.",
    decode Decode "A [`SourceErrorKind::Decode`] error.",
    query Query "A [`SourceErrorKind::Query`] error.",
    unknown_column UnknownColumn "A [`SourceErrorKind::UnknownColumn`] error.",
    unsupported Unsupported "A [`SourceErrorKind::Unsupported`] error.",
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; to mend it: {remedy}"),
            None => Ok(()),
        }
    }
}

impl Error for SourceError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_ref().map(|cause| &**cause as &(dyn Error + 'static))
    }
}
