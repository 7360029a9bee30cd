use serde_json::{Map, Value};

use super::{SourceInstant, Timestamp};

/// A number at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// When it was taken. Two readings of one stream at one moment differ in their replicate.
    pub at: SourceInstant,
    /// The number, in the stream's unit. One that is not finite is refused.
    pub value: f64,
    /// The pinned index of its column; 0 in a stream that names no columns.
    pub replicate: u32,
}

impl Reading {
    /// A reading of a stream with one column.
    pub fn new(at: impl Into<SourceInstant>, value: f64) -> Self {
        Self { at: at.into(), value, replicate: 0 }
    }

    /// The same in another column.
    #[must_use]
    pub fn in_column(mut self, index: u32) -> Self {
        self.replicate = index;
        self
    }
}

/// The values of a record's key columns as texts, in the order in which the stream's description names them.
pub type RecordKey = Vec<String>;

/// An object under a key: a row of a table, an item of an API.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its key.
    pub key: RecordKey,
    /// Its other columns. A column that is missing is NULL; key columns that stand here too are ignored.
    pub fields: Map<String, Value>,
}

impl Record {
    /// A record with a key of one column.
    pub fn new(key: impl Into<String>, fields: Map<String, Value>) -> Self {
        Self { key: vec![key.into()], fields }
    }

    /// A record with a key of several columns.
    pub fn with_key(key: impl IntoIterator<Item = impl Into<String>>, fields: Map<String, Value>) -> Self {
        Self { key: key.into_iter().map(Into::into).collect(), fields }
    }
}

/// What became of a record, for sources that tell removals one by one.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordChange {
    /// It is there, and looks like this.
    Present(Record),
    /// It is gone.
    Removed(RecordKey),
}

impl From<Record> for RecordChange {
    fn from(record: Record) -> Self {
        Self::Present(record)
    }
}

/// All readings of a stream from one moment (inclusive) to another (exclusive): what is not here is not there.
///
/// It is one value: a window can't be split over several pages or batches.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadingWindow {
    /// The first moment that it speaks of.
    pub from: Timestamp,
    /// The first moment behind it that it says nothing of.
    pub to: Timestamp,
    /// The readings in it, in any order.
    pub readings: Vec<Reading>,
    /// Rows that were read at the source to make it: a window that read none, or delivers none of those it read, is refused
    /// where rows are stored. Not compared.
    pub rows_read: u64,
}

impl ReadingWindow {
    /// A window for which as many rows were read as it holds.
    pub fn new(from: Timestamp, to: Timestamp, readings: Vec<Reading>) -> Self {
        let rows_read = readings.len() as u64;
        Self { from, to, readings, rows_read }
    }
}

/// All records of a stream: what is not here is not there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordSet {
    /// The records, in any order.
    pub records: Vec<Record>,
    /// Rows that were read at the source to make it; see [`ReadingWindow::rows_read`].
    pub rows_read: u64,
}

impl RecordSet {
    /// A set for which as many rows were read as it holds.
    pub fn new(records: Vec<Record>) -> Self {
        let rows_read = records.len() as u64;
        Self { records, rows_read }
    }
}

/// The keys of all records of a stream: a record whose key is not here is gone. It says nothing of their contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeySet {
    /// The keys, in any order.
    pub keys: Vec<RecordKey>,
}

/// The rows of one page.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Payload {
    /// Readings, new or corrected. Says nothing of others.
    Readings(Vec<Reading>),
    /// Records, new, corrected or removed. Says nothing of others.
    Records(Vec<RecordChange>),
    /// Every reading of a span of time.
    ReadingWindow(ReadingWindow),
    /// Every record.
    RecordSet(RecordSet),
    /// Every record's key.
    KeySet(KeySet),
}

impl Payload {
    /// Rows in it.
    pub fn len(&self) -> usize {
        match self {
            Self::Readings(readings) => readings.len(),
            Self::Records(records) => records.len(),
            Self::ReadingWindow(window) => window.readings.len(),
            Self::RecordSet(set) => set.records.len(),
            Self::KeySet(set) => set.keys.len(),
        }
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True when what is not in it is not there.
    pub fn is_complete(&self) -> bool {
        matches!(self, Self::ReadingWindow(_) | Self::RecordSet(_) | Self::KeySet(_))
    }
}

/// A row of the source that the backend could not make sense of.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Which row, as far as it could be told. Its stored counterpart is left alone.
    pub row: RefusedRow,
    /// Why, naming the place: `line 7: "abc" is no number`.
    pub reason: String,
}

/// Which row was refused.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum RefusedRow {
    /// All readings at a moment.
    At(SourceInstant),
    /// The record under a key.
    Under(RecordKey),
    /// It can't be told: nothing of this payload's window is withdrawn.
    Unknown,
}
