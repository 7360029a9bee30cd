//! The limit lines: the same work with no engine.

mod bare_loop;
mod copy;
mod stream;

pub use bare_loop::BareLoop;
pub use copy::{Shape, copy, correlated_sql};
pub use stream::stream;
