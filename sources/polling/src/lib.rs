//! How does a source without a log join in?
//!
//! An integrator writes a [`SourceBackend`]: what streams exist, what is new since. The driver does the rest and lands what it
//! fetches in a store; what differs there becomes thin changes, and documents are built from the store by an ordinary builder.

mod backend;
mod capture;
pub mod conformance;
mod driver;
mod error;
mod feed;
mod handle;
mod identities;
pub mod model;
pub mod scripted;
mod settings;
mod store;

pub use async_trait::async_trait;
pub use backend::SourceBackend;
pub use capture::PollingCapture;
pub use driver::report::CycleReport;
pub use error::{BackendError, BackendErrorKind, Classify};
pub use handle::{Command, PollingHandle, StreamStatus};
pub use identities::{Identities, Identity, LocalIdentities};
pub use settings::{Clock, PollingSettings};
pub use store::{CommandOutcome, CommandState, Dialect, KeptReport, ReportState, Store, StoreSettings};
