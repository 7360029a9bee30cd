use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millstream_model::{IndexMapping, IndexName, QualifiedTable, Text};

use crate::schema::{IndexSchema, SchemaPlaces, SchemaTree};
use crate::{Diagnostic, Location};

/// One enabled index.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// Its name.
    pub name: IndexName,
    /// What its documents look like.
    pub schema: Arc<IndexSchema>,
    /// The tables of the schema and how they hang together.
    pub tree: Arc<SchemaTree>,
    /// Where the schema's parts stand in its file; nowhere for one that was built in Rust.
    pub places: Arc<SchemaPlaces>,
}

/// A source's own view of what to build: the enabled indexes and their schemas.
#[derive(Clone, Debug, Default)]
pub struct SourceSpec {
    indexes: BTreeMap<IndexName, IndexSpec>,
}

/// A table to read through when filling an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotTable {
    /// The index to fill.
    pub index: IndexName,
    /// Its root table.
    pub table: QualifiedTable,
    /// The order of the id's parts, where the schema states one; else the table's primary key.
    pub key: Option<Vec<Text>>,
}

impl SourceSpec {
    /// A spec of these indexes; of two with one name the later stays.
    pub fn new(indexes: impl IntoIterator<Item = (IndexName, IndexSchema)>) -> Self {
        let indexes = indexes
            .into_iter()
            .map(|(name, schema)| {
                let tree = Arc::new(SchemaTree::of(&schema));
                let places = Arc::default();
                (name.clone(), IndexSpec { name, schema: Arc::new(schema), tree, places })
            })
            .collect();
        Self { indexes }
    }

    /// The same, knowing where the parts of these schemas stand in their files.
    #[must_use]
    pub fn with_places(mut self, places: impl IntoIterator<Item = (IndexName, SchemaPlaces)>) -> Self {
        for (name, places) in places {
            if let Some(index) = self.indexes.get_mut(&name) {
                index.places = Arc::new(places);
            }
        }
        self
    }

    /// The diagnostic, with the place in the schema's file that it is about.
    #[must_use]
    pub fn located(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        if diagnostic.location.is_none() {
            let index = self.indexes.get(&diagnostic.index);
            diagnostic.location = index.and_then(|index| index.places.at(&diagnostic.path));
        }
        diagnostic
    }

    /// Where a schema names a table first: the file's place, if it came from one.
    pub fn location_of(&self, table: &QualifiedTable) -> Option<Location> {
        self.indexes().find_map(|index| {
            let node = index.tree.nodes().iter().find(|node| node.table == *table)?;
            index.places.at(if node.parent.is_none() { "table" } else { &node.path })
        })
    }

    /// The enabled indexes, by name.
    pub fn indexes(&self) -> impl Iterator<Item = &IndexSpec> {
        self.indexes.values()
    }

    /// One index.
    pub fn index(&self, name: &IndexName) -> Option<&IndexSpec> {
        self.indexes.get(name)
    }

    /// Every table that any index reads, each once, in order.
    pub fn all_tables(&self) -> BTreeSet<QualifiedTable> {
        self.indexes().flat_map(|index| index.tree.nodes().iter().map(|node| node.table.clone())).collect()
    }

    /// The columns by which rows of `table` are found from their parents in any index, each once, in order of name.
    ///
    /// May name columns of the table's own key: only a catalog knows which those are.
    pub fn link_columns(&self, table: &QualifiedTable) -> Vec<Text> {
        let columns: BTreeSet<Text> = self
            .indexes()
            .flat_map(|index| index.tree.nodes().iter().filter(|node| node.table == *table))
            .flat_map(|node| node.pairs.iter().map(|pair| pair.right.clone()))
            .collect();
        columns.into_iter().collect()
    }

    /// The indexes that read `table` anywhere in their schemas.
    pub fn indexes_of(&self, table: &QualifiedTable) -> Vec<&IndexSpec> {
        self.indexes().filter(|index| index.tree.nodes().iter().any(|node| node.table == *table)).collect()
    }

    /// The indexes whose root is `table`.
    pub fn rooted_at(&self, table: &QualifiedTable) -> Vec<&IndexSpec> {
        self.indexes().filter(|index| index.schema.table == *table).collect()
    }

    /// What sinks must know of each index.
    pub fn index_mappings(&self) -> Vec<IndexMapping> {
        self.indexes().map(|index| index.schema.mapping(&index.name)).collect()
    }

    /// The tables to read through when filling each index.
    pub fn snapshot_tables(&self) -> Vec<SnapshotTable> {
        self.indexes()
            .map(|index| SnapshotTable {
                index: index.name.clone(),
                table: index.schema.table.clone(),
                key: index.schema.key.clone(),
            })
            .collect()
    }
}
