//! What changed?
//!
//! A [`ChangeCapture`] streams thin [`Change`]s in commit order, in [`ChangeBatch`]es, each with an [`Ack`] by which the
//! engine says that all up to here is durable. It knows nothing of documents.

mod ack;
mod capture;
mod change;
mod identity;
#[cfg(feature = "postgres")]
mod postgres;
pub mod scripted;

pub use ack::{Ack, Confirm, Line};
pub use capture::{ChangeCapture, KeyRange, Lag, PrepareMode, Prepared, Readiness, SlotState, StartLine};
pub use change::{CaptureEvent, Change, ChangeBatch, CoverageChange, CoverageNotice};
pub use identity::{Continuity, Fork, SourceIdentity};
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use postgres::micro;
#[cfg(feature = "postgres")]
pub use postgres::{PostgresCapture, PostgresCaptureSettings};
