use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use millstream_model::{Body, Document, Generation, RowKey, Text};

use super::*;
use crate::{FillState, IndexProgress, SinkErrorKind};

fn batch(id: &str) -> WriteBatch {
    let key = RowKey::new(vec![Text::from("id")].into(), [Text::from(id)]);
    let documents = vec![Document { key, version: Version(1), body: Body::Upsert("{}".to_owned()) }];
    WriteBatch { index: "users".into(), generation: Generation(1), documents }
}

fn line(id: &str) -> String {
    format!("{{\"index\":\"users\",\"op\":\"upsert\",\"id\":\"{id}\",\"version\":1,\"doc\":{{}}}}\n")
}

fn live() -> Progress {
    let state = FillState::Live;
    let (schema_hash, mapping_hash) = ("s".to_owned(), "m".to_owned());
    let index = IndexProgress { hash_version: 1, schema_hash, mapping_hash, generation: Generation(1), state };
    Progress { epoch: millstream_model::Epoch(3), indexes: [("users".into(), index)].into(), ..Progress::default() }
}

fn append(path: &Path, text: &str) {
    File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// A file with one line and progress saved behind it; nobody has it open.
async fn written(path: &Path) {
    let sink = JsonlSink::file(path);
    sink.write(&batch("1")).await.unwrap();
    sink.save(&live()).await.unwrap();
    sink.close().await.unwrap();
}

#[tokio::test]
async fn lines_behind_the_saved_offset_were_never_confirmed_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    written(&path).await;
    append(&path, &format!("{}{{\"index\":\"us", line("2")));
    let sink = JsonlSink::file(&path);
    assert_eq!(sink.load().await.unwrap(), Some(live()));
    assert_eq!(fs::read_to_string(&path).unwrap(), line("1"));
    sink.write(&batch("3")).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), line("1") + &line("3"));
}

#[tokio::test]
async fn a_missing_or_shorter_file_is_filled_again_and_the_epoch_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    for damage in ["missing", "empty", "shorter", "another"] {
        written(&path).await;
        match damage {
            "missing" => fs::remove_file(&path).unwrap(),
            "empty" => fs::write(&path, "").unwrap(),
            "shorter" => File::options().write(true).open(&path).unwrap().set_len(9).unwrap(),
            _ => fs::write(&path, "x".repeat(500)).unwrap(),
        }
        let expected = Some(Progress { indexes: Default::default(), ..live() });
        let sink = JsonlSink::file(&path);
        assert_eq!(sink.load().await.unwrap(), expected, "{damage}");
        sink.write(&batch("2")).await.unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), line("2"), "{damage}");
        // The process dies before it saves again: the file is now as long as it was, and yet not what it was.
        drop(sink);
        assert_eq!(JsonlSink::file(&path).load().await.unwrap(), expected, "{damage}");
        fs::remove_file(&path).unwrap();
        fs::remove_file(crate::files::beside(&path, ".progress.json")).unwrap();
    }
}

#[tokio::test]
async fn without_progress_an_unfinished_line_of_ours_goes_and_a_foreign_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    fs::write(&path, line("1") + "{\"index\":\"users\",\"op").unwrap();
    let sink = JsonlSink::file(&path);
    assert_eq!(sink.load().await.unwrap(), None);
    assert_eq!(fs::read_to_string(&path).unwrap(), line("1"));
    drop(sink);
    fs::write(&path, "my notes").unwrap();
    let error = JsonlSink::file(&path).prepare(&[]).await.unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::Setup);
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes");
}

#[tokio::test]
async fn a_file_in_use_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    written(&path).await;
    let (first, second) = (JsonlSink::file(&path), JsonlSink::file(&path));
    first.prepare(&[]).await.unwrap();
    first.write(&batch("2")).await.unwrap();
    let error = second.prepare(&[]).await.unwrap_err();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), line("1") + &line("2"));
    first.close().await.unwrap();
    second.prepare(&[]).await.unwrap();
}

#[tokio::test]
async fn a_final_fault_ends_with_the_next_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docs.jsonl");
    written(&path).await;
    let sink = JsonlSink::file(&path);
    sink.write(&batch("2")).await.unwrap();
    append(&path, "somebody else\n");
    for _ in 0..2 {
        assert_eq!(sink.write(&batch("3")).await.unwrap_err().kind(), SinkErrorKind::Broken);
        assert_eq!(sink.save(&live()).await.unwrap_err().kind(), SinkErrorKind::Broken);
    }
    assert_eq!(sink.load().await.unwrap(), Some(live()));
    sink.prepare(&[]).await.unwrap();
    sink.write(&batch("3")).await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), line("1") + &line("3"));
}

#[tokio::test]
async fn p17_close_waits_for_a_write_whose_future_was_dropped() {
    const TEXT: usize = 1 << 20;
    const PIPE: usize = 64 * 1024;
    let (mut reader, writer) = std::io::pipe().unwrap();
    let sink = Arc::new(JsonlSink::over(StdoutStore::over(File::from(std::os::fd::OwnedFd::from(writer)))));
    // More than a pipe takes: the write blocks until somebody reads.
    let mut large = batch("1");
    large.documents[0].body = Body::Upsert(format!("\"{}\"", "x".repeat(TEXT)));
    let task = tokio::spawn({
        let sink = sink.clone();
        async move { sink.write(&large).await }
    });
    let mut first = [0];
    let reading = tokio::task::spawn_blocking(move || {
        reader.read_exact(&mut first).unwrap();
        reader
    });
    let mut reader = reading.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let mut close = std::pin::pin!(sink.close());
    assert!(futures::poll!(&mut close).is_pending());
    let read = Arc::new(AtomicUsize::new(0));
    let rest = tokio::task::spawn_blocking({
        let read = read.clone();
        move || {
            let mut page = [0; 1024];
            while read.load(Ordering::SeqCst) < TEXT {
                read.fetch_add(reader.read(&mut page).unwrap(), Ordering::SeqCst);
            }
            reader
        }
    });
    close.await.unwrap();
    // All is written by now: what was not read yet is in the pipe.
    assert!(read.load(Ordering::SeqCst) >= TEXT - PIPE);
    drop(rest.await.unwrap());
}

#[tokio::test]
async fn a_closed_pipe_is_final_and_says_so() {
    let (reader, writer) = std::io::pipe().unwrap();
    let sink = JsonlSink::over(StdoutStore::over(File::from(std::os::fd::OwnedFd::from(writer))));
    sink.write(&batch("1")).await.unwrap();
    drop(reader);
    for _ in 0..2 {
        let error = sink.write(&batch("2")).await.unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Gone);
        assert_eq!(error.to_string(), "standard output is closed: its reader went away");
    }
}

#[tokio::test]
async fn on_standard_output_nothing_is_remembered_beyond_the_process() {
    let (_reader, writer) = std::io::pipe().unwrap();
    let sink = JsonlSink::over(StdoutStore::over(File::from(std::os::fd::OwnedFd::from(writer))));
    assert_eq!(sink.load().await.unwrap(), None);
    sink.save(&live()).await.unwrap();
    sink.close().await.unwrap();
    assert_eq!(sink.load().await.unwrap(), Some(live()));
    assert_eq!(JsonlSink::stdout().load().await.unwrap(), None);
}

#[tokio::test]
async fn a_look_at_a_file_finds_what_opening_it_would_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("new/docs.jsonl");
    let sink = JsonlSink::file(&path);
    sink.inspect(&[]).await.unwrap();
    assert_eq!(sink.peek().await.unwrap(), None);
    assert!(!folder.path().join("new").exists());
    sink.prepare(&[]).await.unwrap();
    let other = JsonlSink::file(&path);
    let error = other.inspect(&[]).await.unwrap_err();
    assert!(error.to_string().contains("in use by another process"), "{error}");
    sink.save(&Progress::default()).await.unwrap();
    sink.close().await.unwrap();
    other.inspect(&[]).await.unwrap();
    assert_eq!(other.peek().await.unwrap(), Some(Progress::default()));
    // Not a file of ours.
    let foreign = folder.path().join("letter.txt");
    std::fs::write(&foreign, "dear reader").unwrap();
    let error = JsonlSink::file(&foreign).inspect(&[]).await.unwrap_err();
    assert!(error.to_string().contains("not ours"), "{error}");
    assert_eq!(std::fs::read_to_string(&foreign).unwrap(), "dear reader");
    // A folder in its place.
    let error = JsonlSink::file(folder.path()).inspect(&[]).await.unwrap_err();
    assert!(error.to_string().contains("this is a folder"), "{error}");
}
