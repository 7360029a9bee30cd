//! What every sink must do. A new sink is done when [`conformance`] passes.
//!
//! ```ignore
//! #[tokio::test]
//! async fn my_sink_conforms() {
//!     conformance(async || MySubject::new()).await;
//! }
//! ```

use std::collections::BTreeMap;

use async_trait::async_trait;
use millstream_model::{
    Body, Document, Epoch, Generation, IndexMapping, IndexName, Position, RowKey, SourcePoint, Text, Version,
};

use crate::{FillState, IndexProgress, Outcome, Progress, Refill, Sink, WriteBatch};

/// A place that a sink writes to, and a way to look into it.
#[async_trait]
pub trait Subject: Send + Sync {
    /// Opens a sink on the place, as a new process would. Called again after the sink before it was closed and dropped.
    async fn open(&self) -> Box<dyn Sink>;

    /// The documents that an index serves now, by id, as the sink keeps them (JSON text). Makes visible first what the sink has
    /// called durable.
    async fn contents(&self, index: &IndexName) -> BTreeMap<String, String>;
}

/// Puts a sink through every check, each on a new place.
///
/// # Panics
/// Where it does not do what every sink must; the message names the check.
pub async fn conformance<S: Subject>(make: impl AsyncFn() -> S) {
    one_outcome_a_document_in_order(&make().await).await;
    the_same_batch_twice_is_harmless(&make().await).await;
    an_empty_batch_is_harmless(&make().await).await;
    deleting_what_is_not_there_is_harmless(&make().await).await;
    the_newest_state_stays(&make().await).await;
    odd_ids_stay_apart(&make().await).await;
    documents_are_kept_digit_for_digit(&make().await).await;
    indexes_are_apart(&make().await).await;
    clear_removes_every_document_of_one_index(&make().await).await;
    older_versions_are_refused_where_versions_are_kept(&make().await).await;
    a_refill_ends_with_what_it_wrote(&make().await).await;
    what_was_durable_is_there_after_reopening(&make().await).await;
    progress_comes_back_where_it_is_kept(&make().await).await;
}

fn users() -> IndexName {
    "users".into()
}

fn mapping(index: &IndexName) -> IndexMapping {
    let mapping = serde_json::json!({ "properties": { "n": { "type": "long" } } });
    let (schema_hash, mapping_hash) = ("s1".to_owned(), "m1".to_owned());
    IndexMapping { index: index.clone(), mapping, hash_version: 1, schema_hash, mapping_hash }
}

fn upsert(id: &str, version: u64, text: &str) -> Document {
    Document { key: key(&[id]), version: Version(version), body: Body::Upsert(text.to_owned()) }
}

fn delete(id: &str, version: u64) -> Document {
    Document { key: key(&[id]), version: Version(version), body: Body::Tombstone }
}

fn key(values: &[&str]) -> RowKey {
    let columns: Vec<Text> = (0..values.len()).map(|number| Text::from(format!("k{number}"))).collect();
    RowKey::new(columns.into(), values.iter().map(|value| Text::from(*value)))
}

fn batch(index: &IndexName, generation: u64, documents: Vec<Document>) -> WriteBatch {
    WriteBatch { index: index.clone(), generation: Generation(generation), documents }
}

/// Opens, prepares and begins generation 1 of `users` and `other`.
async fn begin(subject: &impl Subject) -> Box<dyn Sink> {
    let sink = subject.open().await;
    let mappings = [mapping(&users()), mapping(&"other".into())];
    sink.prepare(&mappings).await.expect("prepare succeeds");
    for mapping in &mappings {
        sink.begin_generation(mapping, Generation(1)).await.expect("a generation begins");
        sink.finish_generation(&mapping.index, Generation(1)).await.expect("a generation ends");
    }
    sink
}

async fn write(sink: &dyn Sink, documents: Vec<Document>) {
    write_to(sink, &users(), 1, documents).await;
}

async fn write_to(sink: &dyn Sink, index: &IndexName, generation: u64, documents: Vec<Document>) {
    let count = documents.len();
    let outcomes = sink.write(&batch(index, generation, documents)).await.expect("a write succeeds");
    assert_eq!(outcomes, vec![Outcome::Durable; count], "every document is durable");
}

async fn expect(subject: &impl Subject, index: &IndexName, expected: &[(&str, &str)], check: &str) {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("a document is JSON");
    let found: Vec<_> = subject.contents(index).await.into_iter().map(|(id, text)| (id, parse(&text))).collect();
    let expected: BTreeMap<_, _> = expected.iter().map(|(id, text)| ((*id).to_owned(), parse(text))).collect();
    assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{check}");
}

async fn one_outcome_a_document_in_order(subject: &impl Subject) {
    let sink = begin(subject).await;
    let documents = (0..1000).map(|number| upsert(&number.to_string(), 1, "{\"n\":1}")).collect();
    let outcomes = sink.write(&batch(&users(), 1, documents)).await.expect("a write succeeds");
    assert_eq!(outcomes, vec![Outcome::Durable; 1000], "one outcome a document");
    assert_eq!(subject.contents(&users()).await.len(), 1000, "what is called durable is there");
}

async fn the_same_batch_twice_is_harmless(subject: &impl Subject) {
    let sink = begin(subject).await;
    for _ in 0..2 {
        write(&*sink, vec![upsert("1", 1, "{\"n\":1}"), delete("2", 2)]).await;
    }
    expect(subject, &users(), &[("1", "{\"n\":1}")], "the same batch twice is harmless").await;
}

async fn an_empty_batch_is_harmless(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![]).await;
    expect(subject, &users(), &[], "an empty batch is harmless").await;
}

async fn deleting_what_is_not_there_is_harmless(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![delete("1", 1), upsert("2", 1, "{}")]).await;
    expect(subject, &users(), &[("2", "{}")], "deleting what is not there is harmless").await;
}

async fn the_newest_state_stays(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![upsert("1", 1, "{\"n\":1}"), upsert("2", 2, "{\"n\":1}"), upsert("3", 3, "{\"n\":1}")]).await;
    write(&*sink, vec![delete("1", 4), upsert("2", 5, "{\"n\":2}")]).await;
    write(&*sink, vec![upsert("1", 6, "{\"n\":3}"), delete("3", 7)]).await;
    let expected = [("1", "{\"n\":3}"), ("2", "{\"n\":2}")];
    expect(subject, &users(), &expected, "the newest state of every document stays").await;
}

async fn odd_ids_stay_apart(subject: &impl Subject) {
    let sink = begin(subject).await;
    let odd = ["a/b", "a b", "a\"b", "a\\b", "ä", "日本", "a?b#c", "%41", "A", ".", "__proto__", "a\tb"];
    let mut documents: Vec<_> = odd.iter().map(|id| upsert(id, 1, "{}")).collect();
    for values in [["x:y", "z"], ["x", "y:z"], ["x%3Ay", "z"]] {
        documents.push(Document { key: key(&values), version: Version(1), body: Body::Upsert("{}".to_owned()) });
    }
    let ids: Vec<String> = documents.iter().map(|document| document.key.to_id()).collect();
    write(&*sink, documents).await;
    let expected: Vec<_> = ids.iter().map(|id| (id.as_str(), "{}")).collect();
    expect(subject, &users(), &expected, "odd ids stay apart").await;
}

async fn documents_are_kept_digit_for_digit(subject: &impl Subject) {
    let sink = begin(subject).await;
    let text =
        "{\"big\":9223372036854775807,\"long\":1234567890123456789012345678901234567890.10,\"t\":\"\\u0000ü\\n\"}";
    write(&*sink, vec![upsert("1", 1, text)]).await;
    let found = subject.contents(&users()).await;
    assert_eq!(found.get("1").map(String::as_str), Some(text), "a document is kept digit for digit");
}

async fn indexes_are_apart(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![upsert("1", 1, "{\"n\":1}")]).await;
    write_to(&*sink, &"other".into(), 1, vec![upsert("1", 2, "{\"n\":2}")]).await;
    write_to(&*sink, &"other".into(), 1, vec![delete("2", 3)]).await;
    expect(subject, &users(), &[("1", "{\"n\":1}")], "indexes are apart").await;
    expect(subject, &"other".into(), &[("1", "{\"n\":2}")], "indexes are apart").await;
}

async fn clear_removes_every_document_of_one_index(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![upsert("1", 1, "{}"), upsert("2", 2, "{}")]).await;
    write_to(&*sink, &"other".into(), 1, vec![upsert("1", 3, "{}")]).await;
    for _ in 0..2 {
        sink.clear(&users(), Version(4)).await.expect("clear succeeds");
    }
    expect(subject, &users(), &[], "clear removes every document").await;
    expect(subject, &"other".into(), &[("1", "{}")], "clear leaves other indexes alone").await;
    write(&*sink, vec![upsert("2", 5, "{\"n\":2}")]).await;
    expect(subject, &users(), &[("2", "{\"n\":2}")], "an index takes documents after clear").await;
}

async fn older_versions_are_refused_where_versions_are_kept(subject: &impl Subject) {
    let sink = begin(subject).await;
    if !sink.capabilities().versions {
        return;
    }
    write(&*sink, vec![upsert("1", 5, "{\"n\":5}"), upsert("2", 5, "{\"n\":5}"), delete("3", 5)]).await;
    write(&*sink, vec![upsert("1", 4, "{\"n\":4}"), delete("2", 4), upsert("3", 4, "{\"n\":4}")]).await;
    let expected = [("1", "{\"n\":5}"), ("2", "{\"n\":5}")];
    expect(subject, &users(), &expected, "an older version is refused, and called durable").await;
}

async fn a_refill_ends_with_what_it_wrote(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![upsert("1", 1, "{\"n\":1}"), upsert("2", 2, "{\"n\":1}")]).await;
    let refill = sink.capabilities().refill;
    if refill == Refill::Clear {
        sink.clear(&users(), Version(3)).await.expect("clear succeeds");
    }
    for _ in 0..2 {
        sink.begin_generation(&mapping(&users()), Generation(2)).await.expect("a generation begins");
    }
    write_to(&*sink, &users(), 2, vec![upsert("2", 4, "{\"n\":2}"), upsert("3", 5, "{\"n\":2}")]).await;
    if refill == Refill::Alias {
        // Live documents go to both generations; the old one serves until the end.
        write(&*sink, vec![upsert("1", 6, "{\"n\":3}")]).await;
        let old = [("1", "{\"n\":3}"), ("2", "{\"n\":1}")];
        expect(subject, &users(), &old, "the old generation serves until the new one is finished").await;
    }
    for _ in 0..2 {
        sink.finish_generation(&users(), Generation(2)).await.expect("a generation ends");
    }
    let mut expected = vec![("2", "{\"n\":2}"), ("3", "{\"n\":2}")];
    if refill == Refill::None {
        expected.insert(0, ("1", "{\"n\":1}"));
    }
    expect(subject, &users(), &expected, "a refill ends with what it wrote").await;
}

async fn what_was_durable_is_there_after_reopening(subject: &impl Subject) {
    let sink = begin(subject).await;
    write(&*sink, vec![upsert("1", 1, "{\"n\":1}"), upsert("2", 2, "{\"n\":1}")]).await;
    if let Some(store) = sink.progress() {
        // As the engine does before it confirms anything to the source.
        store.save(&progress()).await.expect("save succeeds");
    }
    sink.close().await.expect("close succeeds");
    sink.prepare(&[mapping(&users()), mapping(&"other".into())]).await.expect("another run of the process prepares");
    sink.close().await.expect("close succeeds");
    drop(sink);
    let sink = subject.open().await;
    sink.prepare(&[mapping(&users()), mapping(&"other".into())]).await.expect("prepare succeeds");
    let both = [("1", "{\"n\":1}"), ("2", "{\"n\":1}")];
    expect(subject, &users(), &both, "what was durable is there after reopening").await;
    write(&*sink, vec![delete("1", 3)]).await;
    expect(subject, &users(), &both[1..], "a reopened sink goes on").await;
}

async fn progress_comes_back_where_it_is_kept(subject: &impl Subject) {
    let sink = begin(subject).await;
    let Some(store) = sink.progress() else { return };
    assert_eq!(store.load().await.expect("load succeeds"), None, "there is no progress at first");
    let mut progress = progress();
    store.save(&progress).await.expect("save succeeds");
    progress.epoch = Epoch(progress.epoch.0 + 1);
    store.save(&progress).await.expect("save succeeds");
    assert_eq!(store.load().await.expect("load succeeds"), Some(progress.clone()), "the last one saved is loaded");
    sink.close().await.expect("close succeeds");
    drop(sink);
    let sink = subject.open().await;
    let store = sink.progress().expect("a sink that keeps progress does so after reopening");
    assert_eq!(store.load().await.expect("load succeeds"), Some(progress), "progress is there after reopening");
}

fn progress() -> Progress {
    let of = |state| IndexProgress {
        hash_version: 1,
        schema_hash: "s1".to_owned(),
        mapping_hash: "m1".to_owned(),
        generation: Generation(1),
        state,
    };
    let key = vec![("k\"1".to_owned(), "ü:%".to_owned()), ("k2".to_owned(), String::new())];
    let indexes = BTreeMap::from([
        (users(), of(FillState::Backfilling(Some(key)))),
        ("other".into(), of(FillState::Live)),
        ("third".into(), of(FillState::NeedsBackfill("the table is new".to_owned()))),
        ("fourth".into(), of(FillState::Backfilling(None))),
    ]);
    let source = SourcePoint { system: "7/shop".to_owned(), timeline: 3, position: Position(u64::MAX) };
    Progress {
        format: Progress::FORMAT,
        epoch: Epoch(41),
        source: Some(source),
        memo: Some("as they were".to_owned()),
        indexes,
    }
}
