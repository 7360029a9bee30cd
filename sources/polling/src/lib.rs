//! How does a source without a log join in?
//!
//! An integrator writes a [`SourceBackend`]: what streams exist, what is new since. The driver does the rest and lands what it
//! fetches in a store; what differs there becomes thin changes, and documents are built from the store by an ordinary builder.

mod backend;
mod error;
pub mod model;

pub use async_trait::async_trait;
pub use backend::SourceBackend;
pub use error::{BackendError, BackendErrorKind, Classify};
