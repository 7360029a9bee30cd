//! The sinks of this crate, put through the suite that every sink must pass.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use async_trait::async_trait;
use millstream_model::IndexName;
use millstream_sinks::conformance::{Subject, conformance};
use millstream_sinks::{Capabilities, JsonlSink, MemorySink, Refill, Sink};
use serde::Deserialize;
use serde_json::value::RawValue;

struct Memory(MemorySink);

#[async_trait]
impl Subject for Memory {
    async fn open(&self) -> Box<dyn Sink> {
        Box::new(self.0.clone())
    }

    async fn contents(&self, index: &IndexName) -> BTreeMap<String, String> {
        self.0.contents(index)
    }
}

#[tokio::test]
async fn memory_conforms() {
    conformance(async || Memory(MemorySink::new())).await;
}

#[tokio::test]
async fn memory_conforms_whatever_it_can_do() {
    for refill in [Refill::Alias, Refill::Sweep, Refill::Clear, Refill::None] {
        for versions in [false, true] {
            let capabilities = Capabilities::default().with_versions(versions).with_refill(refill);
            conformance(async || Memory(MemorySink::with_capabilities(capabilities))).await;
        }
    }
}

struct Jsonl {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Jsonl {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out/docs.jsonl");
        Self { _folder: folder, path }
    }
}

#[derive(Deserialize)]
struct Line {
    index: String,
    op: String,
    #[serde(default)]
    id: String,
    doc: Option<Box<RawValue>>,
}

#[async_trait]
impl Subject for Jsonl {
    async fn open(&self) -> Box<dyn Sink> {
        Box::new(JsonlSink::file(&self.path))
    }

    async fn contents(&self, index: &IndexName) -> BTreeMap<String, String> {
        let mut documents = BTreeMap::new();
        let text = fs::read_to_string(&self.path).unwrap_or_default();
        assert!(text.is_empty() || text.ends_with('\n'), "no line is torn");
        for line in text.lines() {
            let line: Line = serde_json::from_str(line).unwrap();
            if line.index != index.as_str() {
                continue;
            }
            match line.op.as_str() {
                "upsert" => drop(documents.insert(line.id, line.doc.unwrap().get().to_owned())),
                "delete" => drop(documents.remove(&line.id)),
                "clear" => documents.clear(),
                other => panic!("no such op (op={other})"),
            }
        }
        documents
    }
}

#[tokio::test]
async fn jsonl_conforms() {
    conformance(async || Jsonl::new()).await;
}
