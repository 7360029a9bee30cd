//! The schema of an index: which rows make up a document, and what it looks like.
//!
//! [`IndexSchema`] is the checked form: what is in it is well-formed by itself. Reading one from a file is the business of
//! `read`; what it may not say whatever the source holds that of `check`; holding it against a [`Catalog`](crate::Catalog) that of `validate`; which tables it names and how they hang
//! together that of [`SchemaTree`].

mod ast;
mod build;
mod check;
mod json_schema;
mod mapping;
mod normal;
mod read;
mod tree;
mod types;

pub use ast::*;
pub use check::SchemaFault;
pub use json_schema::json_schema;
pub use normal::HASH_VERSION;
pub use read::SchemaPlaces;
pub use tree::{JoinPair, SchemaTree, TableNode};
