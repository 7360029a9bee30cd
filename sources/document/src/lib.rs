//! What to build?
//!
//! A [`DocumentBuilder`] maps changed rows to the documents they affect, and reads documents back, whole, as they are now. It
//! knows nothing of how changes are captured or of where documents go. [`PostgresDocuments`] asks a Postgres for them;
//! [`MemoryDocuments`] has them in a map.

mod builder;
mod key;
mod memory;
#[cfg(feature = "postgres")]
mod postgres;
pub mod seeds;

pub use builder::{Built, DocumentBuilder, Reading, ResolvedPage};
pub use key::key_from_id;
pub use memory::{MemoryDocuments, Resolve};
#[cfg(feature = "postgres")]
pub use postgres::PostgresDocuments;
#[cfg(feature = "postgres")]
#[doc(hidden)]
pub use postgres::micro;
