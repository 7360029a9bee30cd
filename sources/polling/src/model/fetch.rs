use std::fmt;

use super::{
    DataStream, KeySet, Payload, Reading, ReadingWindow, RecordChange, RecordSet, Refusal, StreamKey, Timestamp,
};
use super::{Mode, Record};
use crate::BackendError;

/// A backend's own mark of how far it got: opaque to the driver, kept with full precision, given back as it was.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Checkpoint(pub String);

/// Shows the length only: a mark may hold contents of rows.
impl fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Checkpoint({} bytes)", self.0.len())
    }
}

/// Why a stream is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FetchReason {
    /// For what is new.
    Cycle,
    /// For everything, since someone asked for it (`full`, `resync`).
    Resync,
    /// To compare only: nothing is changed.
    Audit,
}

/// What the driver wants to know of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamFetchRequest {
    /// The stream.
    pub stream: DataStream,
    /// How its rows follow the source.
    pub mode: Mode,
    /// The newest instant whose readings are acked, *exclusive*; `None`: from the beginning (a new stream, a full sync, a named
    /// resync, a reconciled stream, a stream of records). Answering more than was asked is harmless.
    pub since: Option<Timestamp>,
    /// The backend's own mark: of the page before this one while it said there was more, else of the last acked page. `None`
    /// whenever everything is asked for. One that no longer works is best ignored. Of a reconciled stream it is there only while what
    /// is stored is what that page said: a backend that finds its source unchanged since may leave the stream out.
    pub checkpoint: Option<Checkpoint>,
    /// Why it is asked.
    pub reason: FetchReason,
}

impl StreamFetchRequest {
    /// The stream's key.
    pub fn key(&self) -> &StreamKey {
        self.stream.key()
    }
}

/// One page of a stream's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// The rows.
    pub payload: Payload,
    /// Rows of the source that the backend could not make sense of.
    pub refused: Vec<Refusal>,
    /// Where to go on. Saved once this page's rows and all before them are acked; `None` forgets the one before.
    pub checkpoint: Option<Checkpoint>,
    /// True when there is more: the stream is asked again at once, with `checkpoint`, which must then be another one.
    pub more: bool,
}

/// What came of one stream. A failure here does not fail the others.
#[derive(Debug)]
pub struct StreamFetch {
    /// The stream, one of those that were asked for, at most once.
    pub stream: StreamKey,
    /// The page, or why there is none.
    pub outcome: Result<Page, BackendError>,
}

impl StreamFetch {
    /// Any payload.
    pub fn new(stream: impl Into<StreamKey>, payload: Payload) -> Self {
        let page = Page { payload, refused: Vec::new(), checkpoint: None, more: false };
        Self { stream: stream.into(), outcome: Ok(page) }
    }

    /// Readings, new or corrected.
    pub fn readings(stream: impl Into<StreamKey>, readings: Vec<Reading>) -> Self {
        Self::new(stream, Payload::Readings(readings))
    }

    /// Records, new, corrected or removed: of [`Record`]s or [`RecordChange`]s.
    pub fn records(stream: impl Into<StreamKey>, records: impl IntoIterator<Item = impl Into<RecordChange>>) -> Self {
        Self::new(stream, Payload::Records(records.into_iter().map(Into::into).collect()))
    }

    /// Every reading of a span of time.
    pub fn window(stream: impl Into<StreamKey>, window: ReadingWindow) -> Self {
        Self::new(stream, Payload::ReadingWindow(window))
    }

    /// Every record of the stream.
    pub fn all_records(stream: impl Into<StreamKey>, records: Vec<Record>) -> Self {
        Self::new(stream, Payload::RecordSet(RecordSet::new(records)))
    }

    /// Every record's key.
    pub fn all_keys(stream: impl Into<StreamKey>, keys: KeySet) -> Self {
        Self::new(stream, Payload::KeySet(keys))
    }

    /// A stream that could not be read.
    pub fn failed(stream: impl Into<StreamKey>, error: BackendError) -> Self {
        Self { stream: stream.into(), outcome: Err(error) }
    }

    /// Adds where to go on.
    #[must_use]
    pub fn with_checkpoint(mut self, checkpoint: impl Into<String>) -> Self {
        if let Ok(page) = &mut self.outcome {
            page.checkpoint = Some(Checkpoint(checkpoint.into()));
        }
        self
    }

    /// Says that there is more behind `checkpoint`.
    #[must_use]
    pub fn with_more(mut self, checkpoint: impl Into<String>) -> Self {
        if let Ok(page) = &mut self.outcome {
            page.more = true;
        }
        self.with_checkpoint(checkpoint)
    }

    /// Adds rows that could not be made sense of.
    #[must_use]
    pub fn with_refused(mut self, refused: Vec<Refusal>) -> Self {
        if let Ok(page) = &mut self.outcome {
            page.refused = refused;
        }
        self
    }
}
