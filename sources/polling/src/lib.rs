//! How does a source without a log join in?
//!
//! An integrator writes a [`SourceBackend`]: what streams exist, what is new since. The driver does the rest: it registers
//! streams, pins their columns, asks with a cursor, judges what comes, and lands it in a [`Store`] together with the changes
//! that tell of it, in one transaction. [`PollingCapture`] is the engine's view of all that: its live stream runs the driver
//! and tells the changes, stream by stream, each in a line of its own; an ack moves the cursor of exactly the stream whose rows
//! it covered. Documents are built from the store's tables by an ordinary builder: see [`store`] for what they look like.
//!
//! ```text
//! backend ──pages──▶ driver ──rows + changes + marks, one transaction──▶ store ──changes──▶ live stream ──▶ engine
//!    ▲                  ▲                                                  ▲  └──rows──▶ document builder      │
//!    └──since, mark─────┘                                                  └──────────────acks, a line each────┘
//! ```
//!
//! What it promises, whatever dies when:
//! - A cursor passes a row only when the row's documents are durable in every sink.
//! - What was landed and not acked is told again.
//! - Nothing is withdrawn but by a complete payload that is believed; nothing of one is landed unless all of it is.
//!
//! A [`PollingHandle`] sends commands and reads reports. [`scripted`] is a source that a test writes; the feature `conformance`
//! adds what every backend must do.

mod backend;
pub mod backends;
mod capture;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod documents;
mod driver;
mod error;
mod feed;
mod handle;
mod identities;
pub mod model;
pub mod scripted;
mod settings;
pub mod store;

pub use async_trait::async_trait;
pub use backend::SourceBackend;
pub use capture::PollingCapture;
pub use documents::SqliteDocuments;
pub use driver::report::CycleReport;
pub use error::{BackendError, BackendErrorKind, Classify};
pub use handle::{Command, PollingHandle, StreamStatus};
pub use identities::{Identities, Identity, LocalIdentities};
pub use settings::{Clock, PollingSettings};
pub use store::{CommandOutcome, CommandState, Dialect, KeptReport, ReportState, Store, StoreSettings};
