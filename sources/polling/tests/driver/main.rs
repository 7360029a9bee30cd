//! The driver, its store and its capture, over a scripted source.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

mod acks;
mod append;
mod commands;
mod crashes;
mod discovery;
mod reconciled;
mod records;
mod stage;
