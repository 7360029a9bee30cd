use std::time::Duration;

use millstream::{EngineStatus, Handle};
use tokio::time::{Instant, sleep, timeout_at};

/// The wait before the source is asked again for its head.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// How long an index may be held or given up: what mends itself does so sooner.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a host that was to end once it is idle never will be.
pub struct Stuck(pub String);

/// Returns once every index is live and the resume point has passed where the source's head was at the time of the call.
///
/// While the source can't be reached it waits. Cancel safe.
///
/// # Errors
/// When an index is held, or given up until somebody mends it, for longer than a little while.
pub async fn until_idle(handle: &Handle) -> Result<(), Stuck> {
    let source = loop {
        match handle.source_identity().await {
            Ok(source) => break source,
            Err(error) => tracing::debug!(%error, "the source's head can't be asked for; trying again"),
        }
        sleep(ASK_AGAIN).await;
    };
    let durable = source.durable.map_or(0, |position| position.0);
    let mut statuses = handle.status_watch();
    let mut stuck_since = None;
    loop {
        let status = statuses.borrow_and_update().clone();
        if is_idle(&status, durable, source.head.0) {
            return Ok(());
        }
        let reason = stuck(&status);
        stuck_since = reason.as_ref().and(stuck_since.or_else(|| Some(Instant::now())));
        let changed = match stuck_since {
            Some(since) if since.elapsed() >= PATIENCE => return Err(Stuck(reason.unwrap_or_default())),
            Some(since) => timeout_at(since + PATIENCE, statuses.changed()).await.unwrap_or(Ok(())),
            None => statuses.changed().await,
        };
        // The sender lives as long as the handle does.
        if changed.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

fn is_idle(status: &EngineStatus, durable: u64, head: u64) -> bool {
    let live = !status.indexes.is_empty() && status.indexes.values().all(|index| index.state == "live");
    live && status.confirmed_position.unwrap_or(0).max(durable) >= head
}

/// The indexes that can't go on until somebody mends something.
fn stuck(status: &EngineStatus) -> Option<String> {
    let down = status.indexes.iter().filter(|(_, index)| matches!(index.state, "held" | "needs_backfill"));
    let said: Vec<String> = down
        .map(|(name, index)| format!("index {name} is {}: {}", index.state, index.detail.as_deref().unwrap_or("?")))
        .collect();
    (!said.is_empty()).then(|| format!("can't become idle: {}", said.join("; ")))
}
