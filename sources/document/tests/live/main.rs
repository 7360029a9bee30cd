//! Documents from a real Postgres, one cluster a test.

mod cluster;
mod grammar;
mod schema;
mod shop;
mod walks;
