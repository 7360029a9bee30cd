//! Is it true? A harness that runs Millstream against a real Postgres, and judges what it wrote by plain SQL.
//!
//! [`Cluster`] is a throwaway server, [`Stage`] a database with indexes, oracles and a host over it, [`Recorder`] a sink that
//! fails on demand. Helpers panic rather than return errors: they are a test's own words.

mod account;
mod binaries;
mod cluster;
mod config;
mod database;
mod embedded;
mod folder;
mod host;
pub mod http;
mod inbox;
mod json;
pub mod metrics;
mod oracle;
mod proxy;
mod random;
mod recorder;
pub mod shop;
mod stage;
pub mod wait;

pub use binaries::postgres_bin;
pub use cluster::{Cluster, ClusterBuilder, Stop, free_port, until_sql};
pub use config::{HostConfig, dead_letters_path, documents_path};
pub use database::{Connection, Database, connect};
pub use embedded::Embedded;
pub use folder::Folder;
pub use host::{Host, ask, host_bin, index_state};
pub use inbox::Inbox;
pub use json::Json;
pub use oracle::{Documents, Fold, assert_same, differences, oracle, until_documents};
pub use proxy::Proxy;
pub use random::Random;
pub use recorder::Recorder;
pub use stage::Stage;
