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
use tokio::net::TcpListener;
use tokio::sync::watch;

/// A supervisor that was not seen for so long is stuck: it ticks every second.
const STUCK_AFTER: Duration = Duration::from_secs(15);

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
