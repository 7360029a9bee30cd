use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::get;
use axum::{Router, serve as serve_http};
use metrics_exporter_prometheus::PrometheusHandle;
use millstream::{EngineState, EngineStatus, Handle};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A supervisor that was not seen for so long is stuck: it ticks every second.
const STUCK_AFTER: Duration = Duration::from_secs(15);

/// What is answered before there is an engine to ask.
pub const NOT_STARTED: &str = "the engine has not started yet\n";
/// What is answered for a source with a log.
pub const NO_ORDERS: &str = "this source takes no orders: only a polled one does\n";

/// The engine's handle, once it has started: until then it validates, which may wait for the source.
pub type Started = watch::Receiver<Option<Handle>>;

#[derive(Clone)]
struct Served {
    name: Arc<str>,
    started: Started,
    metrics: PrometheusHandle,
}

impl Served {
    fn handle(&self) -> Option<Handle> {
        self.started.borrow().clone()
    }
}

/// Serves metrics, health and status until the process ends.
pub async fn serve(listener: TcpListener, name: Arc<str>, started: Started, metrics: PrometheusHandle) {
    let routes = Router::new()
        .route("/metrics", get(show_metrics))
        .route("/livez", get(is_live))
        .route("/readyz", get(is_ready))
        .route("/status", get(show_status))
        .route("/source", get(show_source))
        .with_state(Served { name, started, metrics });
    if let Err(error) = serve_http(listener, routes).await {
        tracing::error!(%error, "metrics, health and status are no longer served");
    }
}

async fn show_metrics(State(served): State<Served>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], served.metrics.render()).into_response()
}

/// The process is well: its supervisor ticks, whatever it waits for.
async fn is_live(State(served): State<Served>) -> (StatusCode, &'static str) {
    match served.handle() {
        Some(handle) if handle.last_tick() > STUCK_AFTER => {
            (StatusCode::SERVICE_UNAVAILABLE, "the supervisor is stuck\n")
        }
        _ => (StatusCode::OK, "ok\n"),
    }
}

/// The process does what it can now: also as a standby, while it waits or fills.
async fn is_ready(State(served): State<Served>) -> (StatusCode, &'static str) {
    match served.handle().map(|handle| handle.status().state) {
        Some(EngineState::Ended) => (StatusCode::SERVICE_UNAVAILABLE, "ended\n"),
        _ => (StatusCode::OK, "ok\n"),
    }
}

/// What a source that takes orders says of itself.
async fn show_source(State(served): State<Served>) -> Result<Json<Value>, (StatusCode, String)> {
    let handle = served.handle().ok_or_else(|| (StatusCode::CONFLICT, NOT_STARTED.to_owned()))?;
    let source = handle.source().ok_or_else(|| (StatusCode::NOT_FOUND, NO_ORDERS.to_owned()))?;
    let told = source.describe().await;
    told.map(Json).map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")))
}

async fn show_status(State(served): State<Served>) -> Json<EngineStatus> {
    Json(served.handle().map_or_else(
        || {
            let mut starting = EngineStatus::default();
            starting.name = served.name.to_string();
            starting
        },
        |handle| handle.status(),
    ))
}
