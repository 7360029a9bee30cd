use std::sync::Arc;
use std::time::Duration;

use millstream_model::{Body, Epoch, RowKey, Text};
use tokio::time::Instant;

use super::*;
use crate::SinkErrorKind;

fn document(id: &str, version: u64, text: Option<&str>) -> Document {
    let columns: Arc<[Text]> = vec![Text::from("id")].into();
    let body = text.map_or(Body::Tombstone, |text| Body::Upsert(text.to_owned()));
    Document { key: RowKey::new(columns, [Text::from(id)]), version: Version(version), body }
}

fn batch(generation: u64, documents: Vec<Document>) -> WriteBatch {
    WriteBatch { index: "users".into(), generation: Generation(generation), documents }
}

fn users(sink: &MemorySink) -> Vec<(String, String)> {
    sink.contents(&"users".into()).into_iter().collect()
}

#[tokio::test]
async fn an_older_version_is_refused_even_after_a_tombstone() {
    let sink = MemorySink::new();
    sink.write(&batch(1, vec![document("1", 5, Some("5"))])).await.unwrap();
    assert_eq!(sink.write(&batch(1, vec![document("1", 4, Some("4"))])).await.unwrap(), [Outcome::Durable]);
    assert_eq!(users(&sink), [("1".to_owned(), "5".to_owned())]);
    sink.write(&batch(1, vec![document("1", 6, None)])).await.unwrap();
    sink.write(&batch(1, vec![document("1", 5, Some("5"))])).await.unwrap();
    assert_eq!((users(&sink), sink.refused(), sink.writes()), (vec![], 2, 4));
}

#[tokio::test]
async fn a_generation_serves_once_it_is_finished() {
    let sink = MemorySink::new();
    let index: IndexName = "users".into();
    sink.write(&batch(1, vec![document("1", 1, Some("old"))])).await.unwrap();
    sink.finish_generation(&index, Generation(1)).await.unwrap();
    sink.write(&batch(2, vec![document("2", 2, Some("new"))])).await.unwrap();
    assert_eq!(sink.document(&index, "1").as_deref(), Some("old"));
    sink.finish_generation(&index, Generation(2)).await.unwrap();
    assert_eq!(users(&sink), [("2".to_owned(), "new".to_owned())]);
    sink.finish_generation(&index, Generation(1)).await.unwrap();
    assert_eq!(sink.serving(&index), Some(Generation(2)));
}

#[tokio::test]
async fn a_sweep_takes_what_the_refill_did_not_write() {
    let sink = MemorySink::with_capabilities(Capabilities::default().with_versions(true).with_refill(Refill::Sweep));
    let (one, two, three) = (document("1", 1, Some("a")), document("2", 2, Some("b")), document("3", 9, Some("c")));
    sink.write(&batch(1, vec![one, two, three])).await.unwrap();
    let older = document("3", 8, Some("x"));
    sink.write(&batch(2, vec![document("2", 4, Some("B")), older])).await.unwrap();
    sink.finish_generation(&"users".into(), Generation(2)).await.unwrap();
    assert_eq!(users(&sink), [("2".to_owned(), "B".to_owned()), ("3".to_owned(), "c".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn faults_come_in_the_order_of_the_script() {
    let sink = MemorySink::new();
    let (kind, slow) = (SinkErrorKind::Retry, Duration::from_secs(3600));
    sink.script(Call::Write, [Fault::Reject(kind), Fault::DoThenFail(kind), Fault::Slow(slow)]);
    let one = batch(1, vec![document("1", 1, Some("1"))]);
    assert!(sink.write(&one).await.is_err());
    assert_eq!((users(&sink).len(), sink.writes()), (0, 0));
    assert!(sink.write(&one).await.is_err());
    assert_eq!(users(&sink).len(), 1);
    let start = Instant::now();
    assert!(sink.write(&one).await.is_ok());
    assert_eq!(start.elapsed(), slow);
    assert!(sink.write(&one).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn held_calls_go_on_when_released() {
    let sink = MemorySink::new();
    sink.hold(Call::Write);
    let writer = sink.clone();
    let task = tokio::spawn(async move { writer.write(&batch(1, vec![document("1", 1, Some("1"))])).await });
    sink.held(Call::Write, 1).await;
    assert_eq!(users(&sink), []);
    sink.release(Call::Write);
    task.await.unwrap().unwrap();
    assert_eq!(users(&sink).len(), 1);
    sink.write(&batch(1, vec![document("2", 1, Some("2"))])).await.unwrap();
}

#[tokio::test]
async fn chosen_documents_have_their_outcome_the_others_are_durable() {
    let sink = MemorySink::new().with_document_bytes_max(3);
    sink.outcome("1", Outcome::Retry(Duration::from_secs(1)), 1);
    sink.outcome("1", Outcome::Rejected("odd".to_owned()), 1);
    let two = batch(1, vec![document("1", 1, Some("1")), document("2", 1, Some("2222"))]);
    let retry = Outcome::Retry(Duration::from_secs(1));
    assert_eq!(sink.write(&two).await.unwrap(), [retry, Outcome::TooLarge]);
    let rejected = Outcome::Rejected("odd".to_owned());
    assert_eq!(sink.write(&two).await.unwrap(), [rejected, Outcome::TooLarge]);
    assert_eq!(sink.write(&two).await.unwrap(), [Outcome::Durable, Outcome::TooLarge]);
    let alone = Outcome::Rejected("the document is too large (bytes=4, most=3)".to_owned());
    assert_eq!(sink.write(&batch(1, vec![document("2", 1, Some("2222"))])).await.unwrap(), [alone]);
    assert_eq!(users(&sink), [("1".to_owned(), "1".to_owned())]);
}

#[tokio::test]
async fn an_engine_that_was_taken_over_is_told() {
    let (old, index) = (MemorySink::new(), IndexName::new("users"));
    old.save(&Progress { epoch: Epoch(1), ..Progress::default() }).await.unwrap();
    let new = old.other_engine();
    new.save(&Progress { epoch: Epoch(2), ..Progress::default() }).await.unwrap();
    let version = Version::new(Epoch(2), 0).0;
    new.write(&batch(1, vec![document("1", version, Some("new"))])).await.unwrap();
    let late = batch(1, vec![document("1", Version::new(Epoch(1), 9).0, Some("old"))]);
    assert_eq!(old.write(&late).await.unwrap_err().kind(), SinkErrorKind::TakenOver);
    assert_eq!(new.document(&index, "1").as_deref(), Some("new"));
}

#[tokio::test]
async fn a_dropped_index_is_forgotten_by_the_progress_too() {
    let sink = MemorySink::new();
    let mut progress = Progress::default();
    let state = crate::FillState::Live;
    let generation = Generation(1);
    let (schema_hash, mapping_hash) = ("s".to_owned(), "m".to_owned());
    let index = crate::IndexProgress { hash_version: 1, schema_hash, mapping_hash, generation, state };
    progress.indexes.insert("users".into(), index);
    sink.save(&progress).await.unwrap();
    assert_eq!(sink.load().await.unwrap(), Some(progress));
    sink.drop_index(&"users".into());
    assert_eq!(sink.load().await.unwrap(), Some(Progress::default()));
}
