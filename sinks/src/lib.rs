//! Where do documents land, and are they safe there?
//!
//! A [`Sink`] writes batches and says of each document what became of it. A [`ProgressStore`] keeps what is known about an
//! index, where the documents are if the sink can. [`DeadLetters`] keep what could not be written.

mod dead_letters;
mod error;
mod file_progress;
mod files;
mod jsonl;
mod lines;
mod memory;
mod null;
mod progress;
mod sink;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use async_trait::async_trait;
pub use dead_letters::{DeadLetter, DeadLetterState, DeadLetters, JsonlDeadLetters, MemoryDeadLetters};
pub use error::{Result, SinkError, SinkErrorKind};
pub use file_progress::FileProgress;
pub use jsonl::JsonlSink;
pub use memory::{Call, Fault, MemorySink};
pub use null::NullSink;
pub use progress::{FillState, IndexProgress, Progress, ProgressStore};
pub use sink::{Capabilities, Outcome, Refill, Sink, WriteBatch};
