//! The conformance suite, over a scripted source, and over ones that break its rules.

#![allow(clippy::unwrap_used)] // A test that meets the unexpected may panic.

use millstream_polling::conformance::{Subject, conformance};
use millstream_polling::model::{Reading, Record, StreamDescriptor, StreamFetch, StreamFetchRequest, Timestamp};
use millstream_polling::scripted::{ScriptedSource, SourceScript};
use millstream_polling::{SourceBackend, async_trait};

/// A source whose answers a function writes.
struct Scripted(fn(&SourceScript));

#[async_trait]
impl Subject for Scripted {
    async fn open(&self) -> Box<dyn SourceBackend> {
        let (source, script) = ScriptedSource::new();
        (self.0)(&script);
        Box::new(Refusing(source))
    }
}

/// The scripted source knows every command: this one knows none.
struct Refusing(ScriptedSource);

#[async_trait]
impl SourceBackend for Refusing {
    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, millstream_polling::BackendError> {
        self.0.discover_streams().await
    }

    async fn fetch_readings(
        &self,
        requests: &[StreamFetchRequest],
    ) -> Result<Vec<StreamFetch>, millstream_polling::BackendError> {
        self.0.fetch_readings(requests).await
    }
}

fn reading(second: i64) -> Reading {
    Reading::new(Timestamp::from_micros(second * 1_000_000), 1.0)
}

fn well(script: &SourceScript) {
    script.streams([StreamDescriptor::readings("a"), StreamDescriptor::records("b", ["id"])]);
    script.answers("a", |request| match (&request.checkpoint, request.since) {
        (None, None) => StreamFetch::readings("a", (1..5).map(reading).collect()).with_more("5"),
        (None, Some(since)) => {
            StreamFetch::readings("a", (1..9).filter(|at| at * 1_000_000 > since.micros()).map(reading).collect())
        }
        (Some(_), _) => StreamFetch::readings("a", (5..9).map(reading).collect()).with_checkpoint("9"),
    });
    script.answers("b", |_| StreamFetch::all_records("b", vec![Record::new("1", serde_json::Map::new())]));
}

#[tokio::test]
async fn a_source_that_keeps_the_rules_conforms() {
    conformance(async || Scripted(well)).await;
}

#[tokio::test]
#[should_panic(expected = "more must lead on")]
async fn pages_that_lead_nowhere_do_not() {
    conformance(async || {
        Scripted(|script| {
            well(script);
            script.answers("a", |_| StreamFetch::readings("a", Vec::new()).with_more("again"));
        })
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "all that is newer than the cursor is told")]
async fn a_cursor_that_skips_does_not() {
    conformance(async || {
        Scripted(|script| {
            well(script);
            script.answers("a", |request| {
                let last = if request.since.is_some() { 6 } else { 9 };
                StreamFetch::readings("a", (1..last).map(reading).collect())
            });
        })
    })
    .await;
}

#[tokio::test]
#[should_panic(expected = "is answered twice")]
async fn answers_that_come_twice_do_not() {
    conformance(async || {
        Scripted(|script| {
            well(script);
            script.stray(StreamFetch::readings("a", Vec::new()));
        })
    })
    .await;
}
