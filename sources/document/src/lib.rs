//! What to build?
//!
//! A [`DocumentBuilder`] maps changed rows to the documents they affect, and reads documents back, whole, as they are now. It
//! knows nothing of how changes are captured or of where documents go.

mod builder;

pub use builder::{Built, DocumentBuilder, Reading, ResolvedPage};
