//! What travels between a backend and the driver: streams, rows, requests, pages.
//!
//! All moments are [`Timestamp`]s, in UTC; a backend may hand over what its source said ([`SourceInstant`]) and leave the
//! judging to the driver. Keys are texts, in the order in which the stream's description names them.

mod curve;
mod fetch;
mod instant;
mod rows;
mod status;
mod stream;

pub use curve::{CurveMapping, StandardCurve};
pub use fetch::{Checkpoint, FetchReason, Page, StreamFetch, StreamFetchRequest};
pub(crate) use instant::parse_date;
pub use instant::{SourceInstant, Timestamp};
pub use rows::{
    KeySet, Payload, Reading, ReadingWindow, Record, RecordChange, RecordKey, RecordSet, Refusal, RefusedRow,
};
pub use status::StatusEvent;
pub use stream::{
    Carries, Column, ColumnAssignment, ColumnType, DataStream, Mode, ReadingShape, RecordShape, StreamDescriptor,
    StreamKey,
};
