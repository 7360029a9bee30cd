//! The replication protocol: a socket, a session on it, and the stream of messages that it turns into.
//!
//! Framing, SCRAM and the replication messages are `pgwire-replication`'s; its own client is not used, because it always asks
//! for logical messages (which Postgres 13 refuses), installs a process-wide TLS provider, and buffers by messages, not bytes.

mod session;
mod socket;
mod stream;
mod tls;

pub(crate) use session::Session;
use socket::Socket;
pub(crate) use stream::{Incoming, LogStream, ReplicationStream};
