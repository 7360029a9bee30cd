//! Keeps denormalised documents in step with the rows they are made of.
//!
//! An [`Engine`] watches a source for changed rows, works out which documents they touch, reads those back as they are now, writes
//! them to one or more sinks, and tells the source how far it got only when the documents are durable. Start reading at
//! `topology.rs`: it makes every channel and spawns every actor.
//!
//! Back ends are features; `postgres` is on by default, `polling` adds sources without a log. Without one, give the builder a capture and documents of your own.

mod builder;
#[cfg(feature = "postgres")]
mod check;
mod engine;
mod error;
mod finding;
mod from_config;
mod observer;
mod parts;
mod sinkless;
mod source_control;
mod start;
mod status;
mod supervisor;
mod topology;

pub mod config;
pub mod metrics;
#[cfg(feature = "polling")]
pub mod polling;
#[cfg(feature = "postgres")]
pub mod postgres;

pub use async_trait::async_trait;
pub use builder::{EngineBuilder, OnError, OnGap, Source, SourceParts};
pub use engine::{Engine, Handle};
pub use error::{BuildError, Drained, EndReason, StartError};
pub use finding::Finding;
#[doc(hidden)]
pub use millstream_actors::Faults;
pub use millstream_actors::{Failure, IndexStatus, Settings, StageDepth};
pub use source_control::{OrderOutcome, OrderState, SourceControl, SourceOrder};
pub use status::{EngineState, EngineStatus};

/// What changed?
pub use millstream_cdc as cdc;
/// What any source needs to say.
pub use millstream_core as core;
/// What to build?
pub use millstream_document as document;
/// The nouns that travel between the parts.
pub use millstream_model as model;
/// Where documents land.
pub use millstream_sinks as sinks;
