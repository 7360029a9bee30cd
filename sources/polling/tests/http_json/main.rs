//! Lists of a real HTTP server as streams, and what a server may do to who reads them.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

mod hostile;
mod lists;
mod server;
