//! Documents from a real Postgres, one cluster a test.

mod aggregates;
mod cluster;
mod grammar;
mod key_types;
mod schema;
mod shop;
mod values;
mod walks;
