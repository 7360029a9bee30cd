//! The engine under measure, in a process of its own, so that its CPU and memory are its own.
//!
//! [`host`] is that process: an embedding service like any other, which tells on its standard output what happens to it.
//! [`EngineProcess`] starts it and listens; [`Event`] is what it hears.

mod child;
mod event;
mod host;
mod nothing;
mod tap;

pub use child::{EngineOptions, EngineProcess};
pub use event::{Event, Sample};
pub use host::{HostArgs, host};
