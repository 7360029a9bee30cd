//! The program from outside: what it prints and with which code it ends.

#![allow(clippy::unwrap_used, reason = "all of it is a test, helpers too")]

mod compose;
mod docs;
mod files;
mod orders;
mod polled;
mod program;
