//! A web service that serves greetings out of memory, kept in step with its database by an engine that it embeds.
//!
//! Needs `create table greetings (id bigint primary key, greeting text not null)` in the database that `DATABASE_URL` names.
//! Then `cargo run -p millstream --example embed`, and ask `/greetings`, `/metrics`, `/status` on `EMBED_LISTEN`
//! (`127.0.0.1:3000`). Ends on Ctrl-C, or by itself after `EMBED_SECONDS`.

use std::collections::BTreeMap;
use std::env::var;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use axum::{Json, Router, routing::get};
use metrics_exporter_prometheus::PrometheusBuilder;
use millstream::core::{IndexSchema, SourceSpec};
use millstream::model::{Body, IndexName};
use millstream::postgres::{CaptureSettings, PostgresSource};
use millstream::sinks::{Outcome, Result, Sink, WriteBatch};
use millstream::{Engine, async_trait};

const SCHEMA: &str = "{ table: greetings, fields: { id: long, greeting: text } }";

/// The service's own data: documents by id.
#[derive(Clone, Default)]
struct Greetings(Arc<RwLock<BTreeMap<String, String>>>);

/// A sink is one function. This one remembers nothing over a restart, so the engine fills it at each start.
#[async_trait]
impl Sink for Greetings {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        let mut greetings = self.0.write().expect("nobody panics while writing");
        for document in &batch.documents {
            match &document.body {
                Body::Upsert(json) => greetings.insert(document.key.to_id(), json.clone()),
                Body::Tombstone => greetings.remove(&document.key.to_id()),
            };
        }
        Ok(vec![Outcome::Durable; batch.documents.len()])
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    // The recorder comes first: the engine's metrics go to the one that is there when it starts.
    let metrics = millstream::metrics::configure(PrometheusBuilder::new())?.install_recorder()?;

    let schema = IndexSchema::from_yaml(SCHEMA, "greetings")?;
    let indexes = SourceSpec::new([(IndexName::new("greetings"), schema)]);
    let capture = CaptureSettings::default().with_slot("embed").with_publication("embed");
    let source = PostgresSource::new(var("DATABASE_URL")?.parse()?, indexes).capture(capture);
    let greetings = Greetings::default();
    let engine = Engine::builder("embed").source(source).sink("greetings", greetings.clone()).build()?;
    let handle = engine.start().await?;

    let status = handle.clone();
    let routes = Router::new()
        .route("/greetings", get(async move || Json(greetings.0.read().expect("nobody panics while writing").clone())))
        .route("/metrics", get(async move || metrics.render()))
        .route("/status", get(async move || Json(status.status())));
    let listen = var("EMBED_LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(stop()).await?;

    println!("{}", handle.shutdown(Duration::from_secs(20)).await);
    Ok(())
}

async fn stop() {
    let seconds = var("EMBED_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(u64::MAX / 4);
    let _ = tokio::time::timeout(Duration::from_secs(seconds), tokio::signal::ctrl_c()).await;
}
