//! The nouns that travel between Millstream's parts.
//!
//! In the order data meets them: a [`ChangedRow`] of a [`QualifiedTable`], named by its [`RowKey`], carries
//! [`LinkValues`] and a [`Fence`]; it touches documents named by a [`DocumentId`]; a read sees what its [`Sight`] covers;
//! out comes a [`Document`] with a [`Version`]. This crate depends on none of the others.

mod document;
mod fence;
mod index;
mod key;
mod row;
mod secret;
mod source;
mod table;
mod version;

pub use document::{Body, Document, DocumentId};
pub use fence::{Everything, Fence, Position, Sight};
pub use index::{Generation, IndexMapping, IndexName};
pub use key::{KeyColumns, RowKey};
pub use row::{ChangedRow, LinkValue, LinkValues, Operation};
pub use secret::Secret;
pub use source::SourcePoint;
pub use table::QualifiedTable;
pub use version::{Epoch, Version};

/// A text that is cheap to keep many of: up to 24 bytes stay inline.
pub use compact_str::CompactString as Text;
