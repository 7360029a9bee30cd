//! The engine over a polled source: the same engine, nothing special downstream.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream::{Drained, EndReason, Engine, Settings};
use millstream_core::{Diagnostic, IndexSchema, Result, SourceError, SourceSpec};
use millstream_document::{Built, DocumentBuilder, Reading as Read, ResolvedPage};
use millstream_model::{ChangedRow, Everything, IndexName, RowKey};
use millstream_polling::model::{Reading, StreamDescriptor, StreamFetch, Timestamp};
use millstream_polling::scripted::{ScriptedSource, SourceScript};
use millstream_polling::{Command, PollingCapture, PollingHandle, PollingSettings, StoreSettings};
use millstream_sinks::{MemorySink, Outcome};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};

/// One document a reading, read from the store's file.
struct Readings(PathBuf);

#[async_trait]
impl DocumentBuilder for Readings {
    fn resolve<'a>(&'a self, _: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        let roots = rows.iter().enumerate().filter(|(_, row)| row.table.table() == "readings");
        let touches = roots.map(|(number, row)| (number, row.key.clone())).collect();
        stream::iter([Ok(ResolvedPage { touches, not_yet: Vec::new() })]).boxed()
    }

    async fn build_many(&self, _: &IndexName, keys: &[RowKey]) -> Result<Read> {
        let failed = |error: sqlx::Error| SourceError::query(error.to_string());
        let options = SqliteConnectOptions::new().filename(&self.0);
        let pool = SqlitePool::connect_with(options).await.map_err(failed)?;
        let mut built = Vec::new();
        for key in keys {
            let found: Option<(f64,)> =
                sqlx::query_as("select value from readings where stream = $1 and instant = $2 and replicate = $3")
                    .bind(key.get("stream"))
                    .bind(key.get("instant"))
                    .bind(key.get("replicate").and_then(|text| text.parse::<i64>().ok()))
                    .fetch_optional(&pool)
                    .await
                    .map_err(failed)?;
            built.push(found.map_or(Built::Absent, |(value,)| Built::Document(format!("{{\"value\":{value}}}"))));
        }
        pool.close().await;
        Ok(Read { built, sight: Arc::new(Everything) })
    }

    async fn inspect(&self, _: &IndexName) -> Result<Vec<Diagnostic>> {
        Ok(Vec::new())
    }
}

fn at(second: u64) -> Timestamp {
    Timestamp::parse("2026-06-01T12:00:00Z").unwrap().plus(Duration::from_secs(second))
}

fn id(stream: &str, second: u64) -> String {
    format!("{stream}:{}:0", at(second).to_string().replace(':', "%3A"))
}

async fn until<T>(what: &str, mut test: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Some(found) = test().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("{what}: not in time"))
}

fn start(
    folder: &std::path::Path,
    sink: MemorySink,
    script: impl FnOnce(&SourceScript),
) -> (Engine, PollingHandle, SourceScript) {
    let (source, hand) = ScriptedSource::new();
    script(&hand);
    let settings = PollingSettings::default()
        .with_floor(Duration::ZERO)
        .with_every(Duration::from_secs(3600))
        .with_clock(|| at(0));
    let path = folder.join("store.db");
    let capture = PollingCapture::new(source, StoreSettings::sqlite(&path), settings);
    let handle = capture.handle();
    let schema = "table: readings\nkey: [stream, instant, replicate]\nfields:\n  value: double\n";
    let spec = SourceSpec::new([(IndexName::new("readings"), IndexSchema::from_yaml(schema, "readings").unwrap())]);
    let engine = Engine::builder("polled")
        .indexes(spec)
        .capture(capture)
        .documents(Readings(path))
        .sink("memory", sink)
        .settings(
            Settings::default()
                .with_confirm_every(Duration::from_millis(10))
                .with_retry_first(Duration::from_millis(5))
                .with_retry_longest(Duration::from_millis(20)),
        )
        .build()
        .unwrap();
    (engine, handle, hand)
}

fn two(script: &SourceScript) {
    script.streams([StreamDescriptor::readings("a"), StreamDescriptor::readings("b")]);
}

async fn since(handle: &PollingHandle, stream: &str) -> Option<Timestamp> {
    let streams = handle.streams().await.unwrap();
    streams.into_iter().find(|found| found.key.as_str() == stream).and_then(|found| found.since)
}

#[tokio::test]
async fn a_stream_that_is_blocked_at_the_sink_holds_no_other_back_and_all_converges() {
    let folder = tempfile::tempdir().unwrap();
    let (sink, index) = (MemorySink::new(), IndexName::new("readings"));
    let (engine, polled, script) = start(folder.path(), sink.clone(), two);
    let engine = engine.start().await.unwrap();
    until("the first cycle is over", async || polled.reports(1).await.unwrap().first().and_then(|report| report.ended))
        .await;
    until("the index is live", async || {
        let progress = sink.saved_progress()?;
        (progress.indexes.get(&index)?.state == millstream_sinks::FillState::Live).then_some(())
    })
    .await;
    // Refused for some seconds: long after the other one is durable.
    sink.outcome(id("a", 1), Outcome::Retry(Duration::from_millis(20)), 200);
    script.answers("a", |_| StreamFetch::readings("a", vec![Reading::new(at(1), 1.0)]));
    script.answers("b", |_| StreamFetch::readings("b", vec![Reading::new(at(2), 2.0)]));
    polled.command(Command::new("1", "trigger")).await.unwrap();
    assert_eq!(until("b is acked", async || since(&polled, "b").await).await, at(2));
    assert_eq!(since(&polled, "a").await, None);
    assert_eq!(until("a is acked once it may be", async || since(&polled, "a").await).await, at(1));
    assert_eq!(sink.contents(&index).len(), 2);
    engine.shutdown(Duration::from_secs(20)).await;
    // The next engine goes on from there.
    let (engine, polled, _) = start(folder.path(), sink.other_engine(), |script| {
        two(script);
        script.answers("a", |_| StreamFetch::readings("a", vec![Reading::new(at(3), 3.0)]));
    });
    let engine = engine.start().await.unwrap();
    until("the new reading is a document", async || sink.document(&index, &id("a", 3))).await;
    assert_eq!(until("it is acked", async || since(&polled, "a").await.filter(|since| *since > at(1))).await, at(3));
    let end: Arc<EndReason> = engine.shutdown(Duration::from_secs(20)).await;
    assert!(matches!(*end, EndReason::Shutdown(Drained::Clean)), "{end:?}");
}
