use super::{SourceInstant, StreamKey};

/// What a source said of a stream's own state at a moment: running, in alarm, out of order.
///
/// Overlap is harmless: the driver stores transitions only.
#[derive(Clone, Debug, PartialEq)]
pub struct StatusEvent {
    /// The stream that it is about.
    pub stream: StreamKey,
    /// When it began.
    pub at: SourceInstant,
    /// One word of the source's own: two equal ones in a row are one state.
    pub status: String,
    /// For people; no part of what is compared.
    pub message: Option<String>,
}

impl StatusEvent {
    /// A state that began at a moment.
    pub fn new(stream: impl Into<StreamKey>, at: impl Into<SourceInstant>, status: impl Into<String>) -> Self {
        Self { stream: stream.into(), at: at.into(), status: status.into(), message: None }
    }

    /// Adds words for people.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }
}
