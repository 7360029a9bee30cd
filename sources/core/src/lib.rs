//! What any source needs to say.
//!
//! A [`SourceSpec`] is a source's own view of what to build: the enabled indexes and their [`IndexSchema`]s. A [`Catalog`] is
//! what the source really has. [`validate_indexes`] holds one against the other and answers [`Diagnostic`]s.
//! [`CaptureProvisioning`] brings a source's set-up in line with a spec. [`SourceError`] says what to do next. Nothing here
//! knows of any particular database.

mod catalog;
mod diagnostic;
mod error;
mod nearest;
mod provisioning;
pub mod schema;
mod spec;
mod validate;
pub mod yaml;

pub use catalog::{Catalog, ColumnInfo, IndexInfo, TableInfo, TableKind};
pub use diagnostic::{Diagnostic, Location, Severity};
pub use error::{Result, SourceError, SourceErrorKind};
pub use provisioning::{CaptureProvisioning, CoverageReport, Remedy};
pub use schema::IndexSchema;
pub use spec::{IndexSpec, SnapshotTable, SourceSpec};
pub use validate::validate_indexes;
