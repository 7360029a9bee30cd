use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path as UrlPath, Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use millstream::model::Secret;
use millstream::{Handle, OrderOutcome, OrderState, SourceOrder};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::exit::Exit;
use crate::serve::{NO_ORDERS, NOT_STARTED, Started};

/// How long an order to the source may take before the caller is told that it still runs. Shorter than callers' own patience.
const ORDER_PATIENCE: Duration = Duration::from_secs(5);

/// Reads the token that callers must show.
pub fn read_token(file: &Path) -> Result<Secret, Exit> {
    let wrong =
        |why: &str| Exit::configuration(format!("the control token can't be used (path={}): {why}", file.display()));
    let text = std::fs::read_to_string(file).map_err(|error| wrong(&error.to_string()))?;
    let token = text.trim_end_matches(['\r', '\n']);
    if token.is_empty() {
        return Err(wrong("the file is empty; write a long random word into it"));
    }
    Ok(Secret::new(token))
}

/// Takes orders from those who show the token, until the process ends.
pub async fn serve(listener: TcpListener, started: Started, token: Secret) {
    let routes = Router::new()
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/backfill/{index}", post(backfill))
        .route("/source/{order}/{id}", post(order))
        .with_state(started)
        .layer(middleware::from_fn_with_state(Arc::new(token), check_token));
    if let Err(error) = axum::serve(listener, routes).await {
        tracing::error!(%error, "the engine can no longer be controlled");
    }
}

async fn check_token(State(token): State<Arc<Secret>>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if is_same(shown.as_bytes(), token.expose().as_bytes()) {
        next.run(request).await
    } else {
        (StatusCode::UNAUTHORIZED, "show the token: Authorization: Bearer …\n").into_response()
    }
}

/// Takes the same time wherever they differ, so that the token can't be guessed letter by letter.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

type Answer = (StatusCode, String);

fn handle(started: &Started) -> Result<Handle, Answer> {
    let handle = started.borrow().clone();
    handle.ok_or_else(|| (StatusCode::CONFLICT, NOT_STARTED.to_owned()))
}

async fn pause(State(started): State<Started>) -> Result<Answer, Answer> {
    handle(&started)?.pause();
    Ok((StatusCode::OK, "paused\n".to_owned()))
}

async fn resume(State(started): State<Started>) -> Result<Answer, Answer> {
    handle(&started)?.resume();
    Ok((StatusCode::OK, "resumed\n".to_owned()))
}

async fn backfill(State(started): State<Started>, UrlPath(index): UrlPath<String>) -> Result<Answer, Answer> {
    let handle = handle(&started)?;
    if handle.backfill(&index).await {
        return Ok((StatusCode::ACCEPTED, format!("index {index} is filled again\n")));
    }
    let known: Vec<String> = handle.status().indexes.keys().map(ToString::to_string).collect();
    if known.contains(&index) {
        return Err((StatusCode::CONFLICT, "the engine is not at work now; try again when it runs\n".to_owned()));
    }
    Err((StatusCode::NOT_FOUND, format!("there is no index {index}; there are: {}\n", known.join(", "))))
}

/// Gives the source an order: `POST /source/resync/ID`, what it needs as JSON in the body. Answers after a while even if it still
/// runs: the same order given again tells of it.
async fn order(
    State(started): State<Started>,
    UrlPath((name, id)): UrlPath<(String, String)>,
    body: String,
) -> Result<(StatusCode, Json<OrderOutcome>), Answer> {
    let source = handle(&started)?.source().ok_or_else(|| (StatusCode::NOT_FOUND, NO_ORDERS.to_owned()))?;
    let payload = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_str(&body) };
    let payload = payload.map_err(|error| (StatusCode::BAD_REQUEST, format!("the body is no JSON: {error}\n")))?;
    match timeout(ORDER_PATIENCE, source.order(SourceOrder { id, name, payload })).await {
        Ok(Ok(outcome)) => Ok((StatusCode::OK, Json(outcome))),
        Ok(Err(error)) => Err((StatusCode::CONFLICT, format!("{error}\n"))),
        Err(_) => {
            let running = OrderOutcome { state: OrderState::Running, result: Value::Null };
            Ok((StatusCode::ACCEPTED, Json(running)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        assert!(is_same(b"secret", b"secret"));
        for other in ["", "secre", "secreT", "secrets"] {
            assert!(!is_same(other.as_bytes(), b"secret"), "{other}");
        }
    }
}
