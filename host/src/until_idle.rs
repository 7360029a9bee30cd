use std::time::Duration;

use millstream::{EngineStatus, Handle};

/// The wait before the source is asked again for its head.
const ASK_AGAIN: Duration = Duration::from_millis(500);

/// Returns once every index is live and the resume point has passed where the source's head was at the time of the call.
///
/// While the source can't be reached it waits. Cancel safe.
pub async fn until_idle(handle: &Handle) {
    let source = loop {
        match handle.source_identity().await {
            Ok(source) => break source,
            Err(error) => tracing::debug!(%error, "the source's head can't be asked for; trying again"),
        }
        tokio::time::sleep(ASK_AGAIN).await;
    };
    let durable = source.durable.map_or(0, |position| position.0);
    let mut statuses = handle.status_watch();
    // The sender lives as long as the handle does.
    let _ = statuses.wait_for(|status| is_idle(status, durable, source.head.0)).await;
}

fn is_idle(status: &EngineStatus, durable: u64, head: u64) -> bool {
    let live = !status.indexes.is_empty() && status.indexes.values().all(|index| index.state == "live");
    live && status.confirmed_position.unwrap_or(0).max(durable) >= head
}
