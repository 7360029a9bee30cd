use std::collections::{BTreeMap, BTreeSet};

use millstream_core::SourceSpec;
use millstream_model::{QualifiedTable, Text};

use super::Facts;

/// What a spec needs the log to tell, table by table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    tables: BTreeMap<QualifiedTable, TableNeeds>,
    listed: BTreeSet<u32>,
}

/// What the log must tell of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableNeeds {
    /// The table, as the schemas name it: a partitioned one stands for all its leaves.
    pub table: QualifiedTable,
    /// Link columns in order of name: told after every change.
    pub links: Vec<Text>,
    /// Those of them whose old values must be told too: all but the ones where every join says `on_move: ignore`.
    pub old_links: Vec<Text>,
    /// The sets of columns by which rows are found from their parents: each wants an index.
    pub joins: BTreeSet<Vec<Text>>,
    /// True when it is the root of an index.
    pub is_root: bool,
}

impl Needs {
    /// Reads them off a spec.
    pub fn of(spec: &SourceSpec) -> Self {
        let mut tables: BTreeMap<QualifiedTable, TableNeeds> = BTreeMap::new();
        for table in spec.all_tables() {
            let links = spec.link_columns(&table);
            let is_root = !spec.rooted_at(&table).is_empty();
            let needs =
                TableNeeds { table: table.clone(), links, old_links: Vec::new(), joins: BTreeSet::new(), is_root };
            tables.insert(table, needs);
        }
        for node in spec.indexes().flat_map(|index| index.tree.nodes()) {
            let Some(needs) = tables.get_mut(&node.table) else { continue };
            let columns: Vec<Text> = node.pairs.iter().map(|pair| pair.right.clone()).collect();
            if columns.is_empty() {
                continue;
            }
            if !node.ignore_moves {
                needs.old_links.extend(
                    columns.iter().filter(|column| !needs.old_links.contains(column)).cloned().collect::<Vec<_>>(),
                );
                needs.old_links.sort();
            }
            needs.joins.insert(columns);
        }
        Self { tables, listed: BTreeSet::new() }
    }

    /// The relations (by number) that the publication must list by themselves, although it lists the table that they are a
    /// part of.
    ///
    /// Before version 15 the server's decoder keeps for as long as it runs what it once found of a relation: of a table that
    /// changed while it was on its own that it is not published, also after it is attached to a published one. Only a change of
    /// the publication's list makes it look again.
    pub fn listed(&self) -> &BTreeSet<u32> {
        &self.listed
    }

    /// Sets which relations the publication must list by themselves.
    #[must_use]
    pub fn with_listed(mut self, relations: BTreeSet<u32>) -> Self {
        self.listed = relations;
        self
    }

    /// The same without columns that are not there: what is asked of the log about those mends nothing.
    #[must_use]
    pub fn known_to(mut self, facts: &Facts) -> Self {
        for needs in self.tables.values_mut() {
            let Some(root) = facts.root(&needs.table) else { continue };
            needs.links.retain(|column| root.names.contains(column));
            needs.old_links.retain(|column| root.names.contains(column));
            needs.joins.retain(|columns| columns.iter().all(|column| root.names.contains(column)));
        }
        self
    }

    /// Each table's needs, in order of table.
    pub fn tables(&self) -> impl Iterator<Item = &TableNeeds> {
        self.tables.values()
    }

    /// One table's needs.
    pub fn table(&self, table: &QualifiedTable) -> Option<&TableNeeds> {
        self.tables.get(table)
    }
}
