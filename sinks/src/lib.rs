//! Where do documents land, and are they safe there?
//!
//! A [`Sink`] writes batches and says of each document what became of it. A [`ProgressStore`] keeps what is known about an
//! index, where the documents are if the sink can. [`DeadLetters`] keep what could not be written.

mod dead_letters;
mod error;
mod progress;
mod sink;

pub use async_trait::async_trait;
pub use dead_letters::{DeadLetter, DeadLetterState, DeadLetters};
pub use error::{Result, SinkError, SinkErrorKind};
pub use progress::{FillState, IndexProgress, Progress, ProgressStore};
pub use sink::{Capabilities, Outcome, Refill, Sink, WriteBatch};
