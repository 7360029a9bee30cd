use std::collections::BTreeMap;

use millstream_model::{Body, Document, Generation, IndexName, Version};

use crate::{Capabilities, Outcome, Progress, Refill, WriteBatch};

/// What is in a memory sink.
pub(super) struct Store {
    pub(super) capabilities: Capabilities,
    pub(super) document_bytes_max: usize,
    pub(super) progress: Option<Progress>,
    pub(super) writes: u64,
    pub(super) refused: u64,
    pub(super) closes: u64,
    indexes: BTreeMap<IndexName, Index>,
}

#[derive(Default)]
struct Index {
    /// Each filling's documents; without [`Refill::Alias`] there is only one, under generation 0.
    generations: BTreeMap<Generation, BTreeMap<String, Entry>>,
    /// The filling behind the alias.
    serving: Option<Generation>,
}

/// A document, or the trace of one: a tombstone's version counts too.
struct Entry {
    version: Version,
    written_in: Generation,
    text: Option<String>,
}

impl Store {
    pub(super) fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            document_bytes_max: usize::MAX,
            progress: None,
            writes: 0,
            refused: 0,
            closes: 0,
            indexes: BTreeMap::new(),
        }
    }

    pub(super) fn contents(&self, index: &IndexName) -> BTreeMap<String, String> {
        let Some(index) = self.indexes.get(index) else { return BTreeMap::new() };
        let generation = index.serving.or_else(|| index.generations.keys().next_back().copied());
        let entries = generation.and_then(|generation| index.generations.get(&generation)).into_iter().flatten();
        entries.filter_map(|(id, entry)| Some((id.clone(), entry.text.clone()?))).collect()
    }

    pub(super) fn serving(&self, index: &IndexName) -> Option<Generation> {
        self.indexes.get(index)?.serving
    }

    /// The version kept where the batch would put a document.
    pub(super) fn version(&self, batch: &WriteBatch, id: &str) -> Option<Version> {
        let place = self.place(batch.generation);
        Some(self.indexes.get(&batch.index)?.generations.get(&place)?.get(id)?.version)
    }

    /// What the document's size alone makes of it.
    pub(super) fn size_outcome(&self, document: &Document, alone: bool) -> Outcome {
        let bytes = match &document.body {
            Body::Upsert(text) => text.len(),
            Body::Tombstone => 0,
        };
        match (bytes > self.document_bytes_max, alone) {
            (false, _) => Outcome::Durable,
            (true, false) => Outcome::TooLarge,
            (true, true) => Outcome::Rejected(format!(
                "the document is too large (bytes={bytes}, most={})",
                self.document_bytes_max
            )),
        }
    }

    pub(super) fn put(&mut self, batch: &WriteBatch, document: &Document) {
        let (versions, place) = (self.capabilities.versions, self.place(batch.generation));
        let entries = self.indexes.entry(batch.index.clone()).or_default().generations.entry(place).or_default();
        let text = match &document.body {
            Body::Upsert(text) => Some(text.clone()),
            Body::Tombstone => None,
        };
        let id = document.key.to_id();
        if let Some(entry) = entries.get_mut(&id).filter(|entry| versions && entry.version >= document.version) {
            // It is there, as new or newer: the refill's sweep must not take it.
            entry.written_in = entry.written_in.max(batch.generation);
            self.refused += 1;
            return;
        }
        entries.insert(id, Entry { version: document.version, written_in: batch.generation, text });
    }

    /// Every document goes, in every generation. With versions, an older one does not come back.
    pub(super) fn clear(&mut self, index: &IndexName, version: Version) {
        let Some(index) = self.indexes.get_mut(index) else { return };
        for entry in index.generations.values_mut().flat_map(BTreeMap::values_mut) {
            entry.version = entry.version.max(version);
            entry.text = None;
        }
    }

    pub(super) fn begin(&mut self, index: &IndexName, generation: Generation) {
        let place = self.place(generation);
        let index = self.indexes.entry(index.clone()).or_default();
        if index.serving.is_none_or(|serving| serving < generation) {
            index.generations.entry(place).or_default();
        }
    }

    pub(super) fn finish(&mut self, index: &IndexName, generation: Generation) {
        let place = self.place(generation);
        let index = self.indexes.entry(index.clone()).or_default();
        match self.capabilities.refill {
            Refill::Alias => {
                if index.serving.is_none_or(|serving| serving < generation) {
                    index.generations.entry(place).or_default();
                    index.generations.retain(|other, _| *other >= generation);
                    index.serving = Some(generation);
                }
            }
            Refill::Sweep => {
                for entries in index.generations.values_mut() {
                    entries.retain(|_, entry| entry.written_in >= generation);
                }
            }
            Refill::Clear | Refill::None => {}
        }
    }

    pub(super) fn drop_index(&mut self, index: &IndexName) {
        self.indexes.remove(index);
        if let Some(progress) = &mut self.progress {
            progress.indexes.remove(index);
        }
    }

    /// Where a generation's documents are.
    fn place(&self, generation: Generation) -> Generation {
        if self.capabilities.refill == Refill::Alias { generation } else { Generation(0) }
    }
}
