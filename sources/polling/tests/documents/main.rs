//! Documents from an embedded store, over a real SQLite file.

// Every function here is part of a test.
#![allow(clippy::unwrap_used)]

mod grammar;
mod names;
mod plans;
mod random;
mod refusing;
mod shop;
mod store;
mod values;
mod walks;
