//! The catalog and the fragments of a real Postgres, one cluster a test.

// Every function here is part of a test.
#![allow(clippy::unwrap_used)]

mod catalog;
mod cluster;
mod fragments;
