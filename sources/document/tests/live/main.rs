//! Documents from a real Postgres, one cluster a test.

// Every function here is part of a test.
#![allow(clippy::unwrap_used)]

mod aggregates;
mod cluster;
mod grammar;
mod inspecting;
mod key_types;
mod pages;
mod random;
mod schema;
mod shop;
mod sights;
mod values;
mod walks;
