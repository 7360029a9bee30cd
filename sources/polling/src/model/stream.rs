use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Names a stream within its source system, for ever. The table in the store of a stream of records has this name.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamKey(Arc<str>);

impl StreamKey {
    /// Takes any text; the driver checks what it accepts.
    pub fn new(key: impl AsRef<str>) -> Self {
        Self(key.as_ref().into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StreamKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl From<&str> for StreamKey {
    fn from(key: &str) -> Self {
        Self::new(key)
    }
}

impl From<String> for StreamKey {
    fn from(key: String) -> Self {
        Self::new(key)
    }
}

impl From<&StreamKey> for StreamKey {
    fn from(key: &StreamKey) -> Self {
        key.clone()
    }
}

/// How a stream's rows in the store follow its source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Rows are added and corrected; the source is asked for what is new since the newest acked one.
    #[default]
    Append,
    /// The source is asked for all each time: corrections and removals within what it claims to be complete are applied.
    Reconciled,
}

/// One stream that a source offers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamDescriptor {
    /// Names it.
    pub key: StreamKey,
    /// For people.
    pub name: String,
    /// What its rows look like.
    pub carries: Carries,
    /// `None`: as the backend's [`reconciled`](crate::SourceBackend::reconciled) says.
    pub mode: Option<Mode>,
    /// The identity of the curve that its numbers were made by, as told by
    /// [`apply_curve_mappings`](crate::SourceBackend::apply_curve_mappings).
    pub curve: Option<String>,
    /// Whatever else the source tells of it; in the store as JSON.
    pub attributes: Map<String, Value>,
}

impl StreamDescriptor {
    /// A stream of readings with one number at a time.
    pub fn readings(key: impl Into<StreamKey>) -> Self {
        Self::new(key.into(), Carries::Readings(ReadingShape::default()))
    }

    /// A stream of records that are found by these columns.
    pub fn records(key: impl Into<StreamKey>, columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let shape = RecordShape { key: columns.into_iter().map(Into::into).collect(), columns: Vec::new() };
        Self::new(key.into(), Carries::Records(shape))
    }

    fn new(key: StreamKey, carries: Carries) -> Self {
        let name = key.to_string();
        Self { key, name, carries, mode: None, curve: None, attributes: Map::new() }
    }

    /// Overrides the backend's own mode.
    #[must_use]
    pub fn with_mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Says the type of one column of a stream of records; one that is not named is text.
    #[must_use]
    pub fn with_column(mut self, name: impl Into<String>, kind: ColumnType) -> Self {
        if let Carries::Records(shape) = &mut self.carries {
            shape.columns.push(Column { name: name.into(), kind });
        }
        self
    }

    /// Names the replicate columns of a stream of readings.
    #[must_use]
    pub fn with_replicates(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        if let Carries::Readings(shape) = &mut self.carries {
            shape.replicates = names.into_iter().map(Into::into).collect();
        }
        self
    }

    /// Says the unit of a stream of readings.
    #[must_use]
    pub fn with_unit(mut self, unit: impl Into<String>) -> Self {
        if let Carries::Readings(shape) = &mut self.carries {
            shape.unit = Some(unit.into());
        }
        self
    }
}

/// What a stream's rows look like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carries {
    /// Numbers at moments.
    Readings(ReadingShape),
    /// Objects under keys.
    Records(RecordShape),
}

/// What readings look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReadingShape {
    /// The unit of every number, as the source writes it.
    pub unit: Option<String>,
    /// Names of the columns of numbers that are read at one moment; empty: one column without a name, at index 0.
    ///
    /// The driver pins an index to each name: see [`ColumnAssignment`].
    pub replicates: Vec<String>,
}

/// What records look like.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordShape {
    /// The columns by which a record is found: the primary key of its table. At least one.
    pub key: Vec<String>,
    /// The types of columns; one that is not named here is text.
    pub columns: Vec<Column>,
}

impl RecordShape {
    /// The type of a column.
    pub fn kind(&self, name: &str) -> ColumnType {
        self.columns.iter().find(|column| column.name == name).map_or(ColumnType::Text, |column| column.kind)
    }
}

/// A column of a stream of records.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: ColumnType,
}

/// The type of a column of records, and what it is in the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnType {
    /// Any text. In both stores `TEXT`.
    #[default]
    Text,
    /// A whole number of 64 bits. Postgres: `bigint`; SQLite: `INTEGER`.
    Integer,
    /// A number with all its digits. Postgres: `numeric`; SQLite: `DECIMAL_TEXT`, kept as the source's digits.
    Decimal,
    /// A binary floating-point number. Postgres: `double precision`; SQLite: `REAL`.
    Double,
    /// Postgres: `boolean`; SQLite: `BOOLEAN`, 0 or 1.
    Boolean,
    /// A moment. Postgres: `timestamptz`; SQLite: `TIMESTAMP_TEXT`, UTC as `2026-01-31T12:00:00.000000Z`.
    Timestamp,
    /// A day. Postgres: `date`; SQLite: `DATE_TEXT` as `2026-01-31`.
    Date,
    /// Any JSON. Postgres: `jsonb`; SQLite: `JSON_TEXT`.
    Json,
}

/// A replicate column's pinned index.
///
/// Kept by name; a new name gets one past the highest ever used; one that is gone is retired, never given to another name, and
/// taken up again when the name comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnAssignment {
    /// The column's name.
    pub name: String,
    /// Its index: what [`Reading::replicate`](super::Reading::replicate) says.
    pub index: u32,
    /// False once the source no longer names it.
    pub active: bool,
}

/// A stream that is registered.
#[derive(Clone, Debug, PartialEq)]
pub struct DataStream {
    /// Its identity in the store.
    pub id: String,
    /// What the source said of it.
    pub descriptor: StreamDescriptor,
}

impl DataStream {
    /// The stream's key.
    pub fn key(&self) -> &StreamKey {
        &self.descriptor.key
    }
}
