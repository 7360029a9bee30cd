//! Waiting for something that happens elsewhere: always with a deadline, never by a bare sleep.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

/// How long anything in a test may take that should take a moment: generous, for loaded machines.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Between two looks at a thing outside this process.
const EVERY: Duration = Duration::from_millis(25);

/// Looks again and again until `look` gives `Some`, within [`PATIENCE`].
///
/// # Panics
/// When the deadline passes; `what` says for what it waited.
pub async fn until<T, F: Future<Output = Option<T>>>(what: impl Display, look: impl FnMut() -> F) -> T {
    until_within(PATIENCE, what, look).await
}

/// The same with a deadline of its own.
///
/// # Panics
/// When the deadline passes; `what` says for what it waited.
pub async fn until_within<T, F: Future<Output = Option<T>>>(
    patience: Duration,
    what: impl Display,
    mut look: impl FnMut() -> F,
) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {patience:?} in vain for {what}");
        tokio::time::sleep(EVERY).await;
    }
}
