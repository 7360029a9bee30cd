//! How Millstream talks to Postgres.
//!
//! One place for each thing that every query needs: [`PostgresSettings`] say where and as whom; [`Connections`] open
//! connections with every setting pinned that could change a value's text; [`quote`] is the one quoting function; [`classify`]
//! turns a driver's error into a [`SourceError`](millstream_core::SourceError); [`read_catalog`] tells what tables there are,
//! [`check_fragments`] what Postgres thinks of a schema's SQL, [`with_statements`] what mends a finding;
//! [`Snapshot`] tells what a statement could see; [`PostgresProvisioning`] brings publication, identities and indexes in line
//! with a spec.

mod catalog;
mod connections;
mod error;
mod fragments;
pub mod identity;
pub mod provision;
pub mod quote;
mod remedies;
mod settings;
pub mod slot;
mod snapshot;

pub use catalog::read_catalog;
pub use connections::{Connections, Lease, PINNED, startup_options};
pub use error::{classify, kind_of_sqlstate};
pub use fragments::check_fragments;
pub use provision::{Manage, PostgresProvisioning};
pub use remedies::with_statements;
pub use settings::{Credentials, Password, PostgresSettings, TlsMode};
pub use snapshot::Snapshot;

/// The driver, for the crates of this workspace that write queries.
pub use sqlx;
