//! Documents from an embedded store, over a real SQLite file.

mod grammar;
mod names;
mod plans;
mod random;
mod refusing;
mod shop;
mod store;
mod values;
mod walks;
