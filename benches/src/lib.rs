//! How fast, next to the limit of the same minute, and which setting made it so?
//!
//! A [`Scenario`] says what is done to a shop's tables; [`run`] does it to an engine in a process of its own, and, turn about, to
//! the limit: the same work with no engine. The ratio of the two is the result. `report` shows it, [`compare`](mod@compare) holds
//! two results against each other, [`explain`](mod@explain) says which stage limits a run, `sweep` walks the settings.

pub mod clock;
pub mod compare;
pub mod delay;
pub mod engine;
pub mod explain;
pub mod limit;
pub mod machine;
pub mod meters;
pub mod numbers;
pub mod processes;
pub mod report;
pub mod result;
pub mod run;
pub mod scenario;
pub mod server;
pub mod shop;
pub mod sweep;

pub use result::BenchResult;
pub use scenario::Scenario;

/// What goes wrong here is for a person to read.
pub type Result<T = (), E = String> = std::result::Result<T, E>;
