//! Documents from a map: for tests, and for hosts that try a sink without a database.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt};
use millstream_core::{Diagnostic, Result};
use millstream_model::{ChangedRow, Everything, IndexName, Operation, QualifiedTable, RowKey, Sight};

use crate::{Built, DocumentBuilder, Reading, ResolvedPage};

/// Which documents of an index a changed row of a related table touches.
pub type Resolve = dyn Fn(&IndexName, &ChangedRow) -> Vec<RowKey> + Send + Sync;

/// Finds and builds documents in a map of JSON texts.
///
/// A row of an index's root table touches its own document; for other tables a closure says which. What is read can be made
/// to see only some fences by [`set_sight`](Self::set_sight). Cheap to clone; clones share the map.
#[derive(Clone)]
pub struct MemoryDocuments {
    shared: Arc<Shared>,
}

struct Shared {
    roots: HashMap<IndexName, QualifiedTable>,
    resolve: Box<Resolve>,
    // Held for a look-up or a change only, never across an await.
    held: RwLock<Held>,
}

struct Held {
    documents: HashMap<IndexName, HashMap<RowKey, String>>,
    sight: Arc<dyn Sight>,
    diagnostics: HashMap<IndexName, Vec<Diagnostic>>,
}

impl MemoryDocuments {
    /// An empty map over these indexes and their root tables; rows of other tables touch nothing.
    pub fn new(roots: impl IntoIterator<Item = (IndexName, QualifiedTable)>) -> Self {
        Self::with_related(roots, |_, _| Vec::new())
    }

    /// The same, where `resolve` says what rows of other tables touch.
    pub fn with_related(
        roots: impl IntoIterator<Item = (IndexName, QualifiedTable)>,
        resolve: impl Fn(&IndexName, &ChangedRow) -> Vec<RowKey> + Send + Sync + 'static,
    ) -> Self {
        let sight = Arc::new(Everything);
        let held = RwLock::new(Held { documents: HashMap::new(), sight, diagnostics: HashMap::new() });
        let shared = Shared { roots: roots.into_iter().collect(), resolve: Box::new(resolve), held };
        Self { shared: Arc::new(shared) }
    }

    /// Puts a document, as JSON text without line breaks, in the place of what was there.
    pub fn put(&self, index: &IndexName, key: RowKey, document: impl Into<String>) {
        self.change(|held| held.documents.entry(index.clone()).or_default().insert(key, document.into()));
    }

    /// Takes a document away.
    pub fn remove(&self, index: &IndexName, key: &RowKey) {
        self.change(|held| held.documents.get_mut(index).and_then(|documents| documents.remove(key)));
    }

    /// What reads from now on can see; [`Everything`] at first.
    pub fn set_sight(&self, sight: Arc<dyn Sight>) {
        self.change(|held| held.sight = sight);
    }

    /// What [`inspect`](DocumentBuilder::inspect) says of an index from now on; nothing at first.
    pub fn set_diagnostics(&self, index: &IndexName, diagnostics: Vec<Diagnostic>) {
        self.change(|held| held.diagnostics.insert(index.clone(), diagnostics));
    }

    fn change<T>(&self, change: impl FnOnce(&mut Held) -> T) -> T {
        change(&mut self.shared.held.write().unwrap_or_else(PoisonError::into_inner))
    }

    fn look<T>(&self, look: impl FnOnce(&Held) -> T) -> T {
        look(&self.shared.held.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn touched(&self, index: &IndexName, row: &ChangedRow) -> Vec<RowKey> {
        if self.shared.roots.get(index) != Some(&row.table) {
            return (self.shared.resolve)(index, row);
        }
        match row.operation {
            Operation::Truncate => Vec::new(),
            Operation::Upsert | Operation::Delete => row.old_key.iter().chain([&row.key]).cloned().collect(),
        }
    }
}

impl fmt::Debug for MemoryDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: HashMap<IndexName, usize> = self
            .look(|held| held.documents.iter().map(|(index, documents)| (index.clone(), documents.len())).collect());
        f.debug_tuple("MemoryDocuments").field(&sizes).finish()
    }
}

#[async_trait]
impl DocumentBuilder for MemoryDocuments {
    fn resolve<'a>(&'a self, index: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        let mut page = ResolvedPage::default();
        let sight = self.look(|held| held.sight.clone());
        for (number, row) in rows.iter().enumerate() {
            // A root row names its own document: nothing is read for it.
            if self.shared.roots.get(index) != Some(&row.table) && !sight.covers(&row.fence) {
                page.not_yet.push(number);
                continue;
            }
            page.touches.extend(self.touched(index, row).into_iter().map(|key| (number, key)));
        }
        stream::iter([Ok(page)]).boxed()
    }

    async fn build_many(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        Ok(self.look(|held| {
            let documents = held.documents.get(index);
            let built = keys.iter().map(|key| match documents.and_then(|documents| documents.get(key)) {
                Some(text) => Built::Document(text.clone()),
                None => Built::Absent,
            });
            Reading { built: built.collect(), sight: held.sight.clone() }
        }))
    }

    async fn inspect(&self, index: &IndexName) -> Result<Vec<Diagnostic>> {
        Ok(self.look(|held| held.diagnostics.get(index).cloned().unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::{Fence, KeyColumns, Position, Text};

    use super::*;

    #[derive(Debug)]
    struct Nothing;

    impl Sight for Nothing {
        fn covers(&self, fence: &Fence) -> bool {
            fence.is_none()
        }
    }

    fn key(id: &str) -> RowKey {
        let columns: KeyColumns = vec![Text::from("id")].into();
        RowKey::new(columns, [Text::from(id)])
    }

    fn users() -> (IndexName, QualifiedTable) {
        ("users".into(), QualifiedTable::new("public", "users"))
    }

    #[tokio::test]
    async fn a_read_answers_each_key_in_order_with_its_sight() {
        let (index, table) = users();
        let documents = MemoryDocuments::new([(index.clone(), table)]);
        documents.put(&index, key("1"), "{}");
        documents.set_sight(Arc::new(Nothing));
        let reading = documents.build_many(&index, &[key("2"), key("1")]).await.unwrap();
        assert_eq!(reading.built, [Built::Absent, Built::Document("{}".into())]);
        assert!(!reading.sight.covers(&Fence::new(1, Position(1))));
        documents.remove(&index, &key("1"));
        assert_eq!(documents.build_many(&index, &[key("1")]).await.unwrap().built, [Built::Absent]);
    }

    #[tokio::test]
    async fn p6_a_root_row_names_its_old_and_its_new_document() {
        let (index, table) = users();
        let documents = MemoryDocuments::new([(index.clone(), table.clone())]);
        let mut row = ChangedRow::new(table, key("2"), Operation::Upsert, Fence::NONE);
        row.old_key = Some(key("1"));
        let pages: Vec<_> = documents.resolve(&index, &[&row]).collect().await;
        let page = pages[0].as_ref().unwrap();
        assert_eq!(page.touches, [(0, key("1")), (0, key("2"))]);
    }

    #[tokio::test]
    async fn p3_a_related_row_that_is_not_visible_is_asked_again() {
        let (index, table) = users();
        let documents = MemoryDocuments::with_related([(index.clone(), table)], |_, _| vec![key("1")]);
        documents.set_sight(Arc::new(Nothing));
        let orders = QualifiedTable::new("public", "orders");
        let row = ChangedRow::new(orders, key("7"), Operation::Upsert, Fence::new(9, Position(9)));
        let pages: Vec<_> = documents.resolve(&index, &[&row]).collect().await;
        assert_eq!(pages[0].as_ref().unwrap(), &ResolvedPage { touches: Vec::new(), not_yet: vec![0] });
        documents.set_sight(Arc::new(Everything));
        let pages: Vec<_> = documents.resolve(&index, &[&row]).collect().await;
        assert_eq!(pages[0].as_ref().unwrap().touches, [(0, key("1"))]);
    }
}
