use async_trait::async_trait;
use millstream_core::Result;
use millstream_polling::{Command, CommandState, KeptReport, PollingHandle, StreamStatus};
use serde_json::{Value, json};

use crate::source_control::{OrderOutcome, OrderState, SourceControl, SourceOrder};

/// How many reports are told.
const REPORTS: u32 = 5;

#[async_trait]
impl SourceControl for PollingHandle {
    async fn order(&self, order: SourceOrder) -> Result<OrderOutcome> {
        let outcome = self.command(Command::new(order.id, order.name).with_payload(order.payload)).await?;
        let state = match outcome.state {
            CommandState::Done => OrderState::Done,
            CommandState::Failed => OrderState::Failed,
            _ => OrderState::Running,
        };
        Ok(OrderOutcome { state, result: outcome.result })
    }

    /// Whether it is paused, every stream, and the last reports, newest first. Instants are RFC 3339, in UTC.
    async fn describe(&self) -> Result<Value> {
        let (paused, streams, reports) = (self.is_paused().await?, self.streams().await?, self.reports(REPORTS).await?);
        let streams: Vec<Value> = streams.iter().map(stream).collect();
        let reports: Vec<Value> = reports.iter().map(report).collect();
        Ok(json!({ "paused": paused, "streams": streams, "reports": reports }))
    }
}

fn stream(stream: &StreamStatus) -> Value {
    json!({
        "key": stream.key, "mode": stream.mode, "gone": stream.gone, "brake": stream.brake,
        "since": stream.since.map(|since| since.to_string()),
    })
}

fn report(report: &KeptReport) -> Value {
    json!({
        "number": report.number, "kind": report.kind, "state": report.state, "body": report.body,
        "started": report.started.to_string(), "ended": report.ended.map(|ended| ended.to_string()),
    })
}
