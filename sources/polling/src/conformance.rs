//! What every backend must do. A new backend is done when [`conformance`] passes.
//!
//! ```ignore
//! #[tokio::test]
//! async fn my_backend_conforms() {
//!     conformance(async || MySubject::new()).await;
//! }
//! ```

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::model::{
    Carries, Checkpoint, DataStream, FetchReason, Mode, Page, Payload, Reading, RecordChange, StreamDescriptor,
    StreamFetchRequest, StreamKey, Timestamp,
};
use crate::{BackendError, BackendErrorKind, SourceBackend};

/// Pages that one stream may take here: a bound for a backend that never ends.
const PAGES_MAX: usize = 1000;

/// A source with something in it, and a way to open a backend on it.
///
/// It holds at least two streams, at least one of them with rows, and nobody changes it meanwhile.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Opens a backend on the source, as a new process would.
    async fn open(&self) -> Box<dyn SourceBackend>;
}

/// Puts a backend through every check, each on a new source.
///
/// # Panics
/// Where it does not do what every backend must; the message names the check.
pub async fn conformance<S: Subject>(make: impl AsyncFn() -> S) {
    it_names_its_system_the_same_each_time(&make().await).await;
    it_discovers_the_same_streams_each_time(&make().await).await;
    its_streams_can_be_stored(&make().await).await;
    it_answers_only_what_it_was_asked_and_once(&make().await).await;
    its_pages_end_and_lead_on(&make().await).await;
    its_payloads_are_what_its_streams_carry(&make().await).await;
    everything_twice_is_the_same(&make().await).await;
    it_tells_nothing_older_than_the_cursor_alone(&make().await).await;
    a_mark_that_it_gave_works_in_a_new_process(&make().await).await;
    an_old_mark_does_no_harm(&make().await).await;
    a_stream_that_it_does_not_know_fails_alone(&make().await).await;
    a_command_that_it_does_not_know_is_refused(&make().await).await;
}

async fn it_names_its_system_the_same_each_time(subject: &dyn Subject) {
    let (one, two) = (subject.open().await, subject.open().await);
    assert!(!one.source_system().is_empty(), "the source system has a name");
    assert_eq!(one.source_system(), two.source_system(), "the source system keeps its name");
}

async fn it_discovers_the_same_streams_each_time(subject: &dyn Subject) {
    let one = streams(&*subject.open().await).await;
    let two = streams(&*subject.open().await).await;
    let by_key = |streams: &[StreamDescriptor]| -> BTreeMap<StreamKey, StreamDescriptor> {
        streams.iter().map(|stream| (stream.key.clone(), stream.clone())).collect()
    };
    assert!(one.len() >= 2, "the subject has at least two streams (found={})", one.len());
    assert_eq!(by_key(&one).len(), one.len(), "no stream is discovered twice");
    assert_eq!(by_key(&one), by_key(&two), "an unchanged source describes its streams in the same words");
}

async fn its_streams_can_be_stored(subject: &dyn Subject) {
    for stream in streams(&*subject.open().await).await {
        let key = &stream.key;
        assert!((1..=63).contains(&key.as_str().len()), "stream {key}: its key has 1 to 63 bytes");
        match &stream.carries {
            Carries::Readings(shape) => {
                let names: BTreeSet<&String> = shape.replicates.iter().collect();
                assert_eq!(names.len(), shape.replicates.len(), "stream {key}: no replicate column is named twice");
            }
            Carries::Records(shape) => assert!(!shape.key.is_empty(), "stream {key}: records have a key"),
        }
    }
}

async fn it_answers_only_what_it_was_asked_and_once(subject: &dyn Subject) {
    let backend = subject.open().await;
    let all = streams(&*backend).await;
    for asked in [&all[..1], &all[..]] {
        let requests: Vec<_> = asked.iter().map(|stream| everything(&*backend, stream)).collect();
        let answers = backend.fetch_readings(&requests).await.expect("a fetch works");
        let mut seen = BTreeSet::new();
        for answer in &answers {
            assert!(asked.iter().any(|stream| stream.key == answer.stream), "{} was not asked for", answer.stream);
            assert!(seen.insert(answer.stream.clone()), "{} is answered twice", answer.stream);
        }
    }
    assert!(
        backend.fetch_readings(&[]).await.expect("a fetch of nothing works").is_empty(),
        "nothing asked, nothing told"
    );
}

async fn its_pages_end_and_lead_on(subject: &dyn Subject) {
    let backend = subject.open().await;
    for stream in streams(&*backend).await {
        pages(&*backend, everything(&*backend, &stream)).await;
    }
}

async fn its_payloads_are_what_its_streams_carry(subject: &dyn Subject) {
    let backend = subject.open().await;
    let mut rows = 0;
    for stream in streams(&*backend).await {
        for page in pages(&*backend, everything(&*backend, &stream)).await {
            let key = &stream.key;
            rows += page.payload.len();
            match (&stream.carries, &page.payload) {
                (Carries::Readings(_), Payload::Readings(readings)) => check_readings(key, readings),
                (Carries::Readings(_), Payload::ReadingWindow(window)) => {
                    assert!(window.from < window.to, "stream {key}: a window ends after it begins");
                    let holds = |at: Timestamp| window.from <= at && at < window.to;
                    let inside = window.readings.iter().all(|reading| reading.at.decode().is_ok_and(holds));
                    assert!(inside, "stream {key}: a window's readings are within it");
                    check_readings(key, &window.readings);
                }
                (Carries::Records(_), Payload::Records(_) | Payload::RecordSet(_) | Payload::KeySet(_)) => {}
                (carries, payload) => panic!("stream {key}: carries {carries:?}, and answers {payload:?}"),
            }
        }
    }
    assert!(rows > 0, "the subject has rows");
}

async fn everything_twice_is_the_same(subject: &dyn Subject) {
    let (one, two) = (subject.open().await, subject.open().await);
    for stream in streams(&*one).await {
        let first = contents(pages(&*one, everything(&*one, &stream)).await);
        let second = contents(pages(&*two, everything(&*two, &stream)).await);
        assert_eq!(first, second, "stream {}: an unchanged source tells the same twice", stream.key);
    }
}

async fn it_tells_nothing_older_than_the_cursor_alone(subject: &dyn Subject) {
    let backend = subject.open().await;
    for stream in streams(&*backend).await {
        let all = pages(&*backend, everything(&*backend, &stream)).await;
        let instants: BTreeSet<Timestamp> = all.iter().flat_map(|page| instants(&page.payload)).collect();
        let Some(middle) = instants.iter().nth(instants.len() / 2).copied() else { continue };
        let request = StreamFetchRequest { since: Some(middle), ..cycle(&*backend, &stream, None) };
        if request.mode == Mode::Reconciled {
            continue;
        }
        let newer = pages(&*backend, request).await;
        let told: BTreeSet<Timestamp> = newer.iter().flat_map(|page| self::instants(&page.payload)).collect();
        let missing = instants.iter().find(|at| **at > middle && !told.contains(*at));
        assert_eq!(missing, None, "stream {}: all that is newer than the cursor is told (since={middle})", stream.key);
    }
}

async fn a_mark_that_it_gave_works_in_a_new_process(subject: &dyn Subject) {
    let backend = subject.open().await;
    for stream in streams(&*backend).await {
        let Some(mark) = pages(&*backend, everything(&*backend, &stream)).await.pop().and_then(|page| page.checkpoint)
        else {
            continue;
        };
        let next = subject.open().await;
        pages(&*next, cycle(&*next, &stream, Some(mark))).await;
    }
}

async fn an_old_mark_does_no_harm(subject: &dyn Subject) {
    let backend = subject.open().await;
    for stream in streams(&*backend).await {
        let answers = backend.fetch_readings(&[cycle(&*backend, &stream, Some(Checkpoint("\u{0}?".to_owned())))]).await;
        // It may be refused in words, or ignored; it must not end in a panic or a stray answer.
        if let Ok(answers) = answers {
            assert!(answers.iter().all(|answer| answer.stream == stream.key), "only {} was asked for", stream.key);
        }
    }
}

async fn a_stream_that_it_does_not_know_fails_alone(subject: &dyn Subject) {
    let backend = subject.open().await;
    let all = streams(&*backend).await;
    let mut odd = all[0].clone();
    odd.key = StreamKey::new("no such stream");
    let requests = [everything(&*backend, &odd), everything(&*backend, &all[0]), everything(&*backend, &all[1])];
    let answers = backend.fetch_readings(&requests).await.expect("one bad stream does not fail the others");
    let bad = answers.iter().find(|answer| answer.stream == odd.key);
    if let Some(Err(error)) = bad.map(|answer| &answer.outcome) {
        assert!(!error.is_retryable(), "asking again does not make a stream (error={error})");
    }
    let others = answers.iter().filter(|answer| answer.stream != odd.key);
    for answer in others {
        assert!(answer.outcome.is_ok(), "stream {} fails because of another: {:?}", answer.stream, answer.outcome);
    }
}

async fn a_command_that_it_does_not_know_is_refused(subject: &dyn Subject) {
    let backend = subject.open().await;
    let refused: Result<_, BackendError> = backend.handle_command("no such command", serde_json::Value::Null).await;
    let error = refused.expect_err("an unknown command is refused");
    assert_eq!(error.kind(), BackendErrorKind::Configuration, "an unknown command is no passing fault");
}

async fn streams(backend: &dyn SourceBackend) -> Vec<StreamDescriptor> {
    backend.discover_streams().await.expect("streams are discovered")
}

fn mode(backend: &dyn SourceBackend, stream: &StreamDescriptor) -> Mode {
    stream.mode.unwrap_or(if backend.reconciled() { Mode::Reconciled } else { Mode::Append })
}

fn everything(backend: &dyn SourceBackend, stream: &StreamDescriptor) -> StreamFetchRequest {
    StreamFetchRequest { reason: FetchReason::Resync, ..cycle(backend, stream, None) }
}

fn cycle(backend: &dyn SourceBackend, stream: &StreamDescriptor, checkpoint: Option<Checkpoint>) -> StreamFetchRequest {
    let mode = mode(backend, stream);
    let stream = DataStream { id: "conformance".to_owned(), descriptor: stream.clone() };
    StreamFetchRequest { stream, mode, since: None, checkpoint, reason: FetchReason::Cycle }
}

/// Every page of one stream.
async fn pages(backend: &dyn SourceBackend, mut request: StreamFetchRequest) -> Vec<Page> {
    let key = request.key().clone();
    let mut pages = Vec::new();
    for _ in 0..PAGES_MAX {
        let mut answers = backend.fetch_readings(std::slice::from_ref(&request)).await.expect("a fetch works");
        assert!(answers.len() <= 1, "stream {key}: one question, one answer");
        let Some(answer) = answers.pop() else { return pages };
        let page = answer.outcome.unwrap_or_else(|error| panic!("stream {key}: {error}"));
        let (more, checkpoint) = (page.more, page.checkpoint.clone());
        pages.push(page);
        if !more {
            return pages;
        }
        assert!(checkpoint.is_some() && checkpoint != request.checkpoint, "stream {key}: more must lead on");
        request.checkpoint = checkpoint;
    }
    panic!("stream {key}: its pages do not end (pages={PAGES_MAX})");
}

fn check_readings(key: &StreamKey, readings: &[Reading]) {
    for reading in readings {
        assert!(reading.at.decode().is_ok(), "stream {key}: the instant can be read ({})", reading.at);
        assert!(reading.value.is_finite(), "stream {key}: the number is one (at={})", reading.at);
    }
}

fn instants(payload: &Payload) -> Vec<Timestamp> {
    match payload {
        Payload::Readings(readings) => readings.iter().filter_map(|reading| reading.at.decode().ok()).collect(),
        _ => Vec::new(),
    }
}

/// What pages come to, whatever the order of their rows.
fn contents(pages: Vec<Page>) -> BTreeSet<String> {
    let mut rows = BTreeSet::new();
    for page in pages {
        match page.payload {
            Payload::Readings(readings) => rows.extend(readings.iter().map(|reading| format!("{reading:?}"))),
            Payload::ReadingWindow(window) => rows.extend(window.readings.iter().map(|reading| format!("{reading:?}"))),
            Payload::Records(changes) => rows.extend(changes.iter().map(|change: &RecordChange| format!("{change:?}"))),
            Payload::RecordSet(set) => rows.extend(set.records.iter().map(|record| format!("{record:?}"))),
            Payload::KeySet(set) => rows.extend(set.keys.iter().map(|key| format!("{key:?}"))),
        }
    }
    rows
}
