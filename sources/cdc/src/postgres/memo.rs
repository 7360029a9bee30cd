//! What is remembered of the tables across restarts, so that what changed without an event while nobody watched is noticed.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::QualifiedTable;
use millstream_postgres::provision::{Facts, Needs, Relation};
use serde::{Deserialize, Serialize};

/// The first major whose decoder looks at a relation's publications again when the relation is attached to another.
const LOOKS_AGAIN_SINCE: u32 = 150_000;

/// The numbers of two types that show the same.
const TEXT: i64 = 25;
const VARCHAR: i64 = 1043;

/// The tables as they were at some moment: an opaque text for whoever keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Memo {
    /// The publication's number and version.
    pub(crate) publication: Option<(i64, String)>,
    tables: Vec<TableMemo>,
}

/// One table of the schemas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableMemo {
    schema: String,
    name: String,
    /// Changes when it is dropped and made again.
    pub(crate) oid: u32,
    /// Changes when it is taken out of the publication and put back.
    pub(crate) membership: Option<i64>,
    /// Its primary key.
    pub(crate) key: Vec<String>,
    /// The links whose old values had to be told. Was not always remembered.
    #[serde(default)]
    old_links: Vec<String>,
    /// Its leaves, itself if it has none, by number.
    pub(crate) leaves: BTreeMap<u32, LeafMemo>,
}

/// One relation that holds rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeafMemo {
    schema: String,
    name: String,
    file: i64,
    columns: BTreeMap<i64, String>,
    /// Each column's number by its name. Was not always remembered: empty then.
    #[serde(default)]
    names: BTreeMap<String, i64>,
    /// The labels of its enums by number. Was not always remembered: empty then.
    #[serde(default)]
    labels: BTreeMap<i64, String>,
    /// True when it was made as a leaf, so that it never had rows that were not told.
    pub(crate) born_as_leaf: bool,
    /// Changes when it is taken away and attached again. Was not always remembered: empty then.
    #[serde(default)]
    link: String,
    /// True while the publication must list it by itself.
    #[serde(default)]
    unlisted: bool,
}

impl Memo {
    /// The tables as they are.
    pub(crate) fn of(needs: &Needs, facts: &Facts) -> Self {
        let tables = needs.tables().filter_map(|need| {
            let root = facts.root(&need.table)?;
            let leaves = facts.leaves(&need.table).map(|leaf| {
                let memo = LeafMemo {
                    schema: leaf.relation.schema().to_owned(),
                    name: leaf.relation.table().to_owned(),
                    file: leaf.file,
                    columns: leaf.columns.clone(),
                    names: leaf.names.iter().map(ToString::to_string).zip(leaf.columns.keys().copied()).collect(),
                    labels: leaf.labels.clone(),
                    born_as_leaf: leaf.born_as_leaf,
                    link: leaf.link.clone(),
                    unlisted: needs.listed().contains(&leaf.oid),
                };
                (leaf.oid, memo)
            });
            Some(TableMemo {
                schema: need.table.schema().to_owned(),
                name: need.table.table().to_owned(),
                oid: root.oid,
                membership: root.membership,
                key: root.identity.key.iter().map(ToString::to_string).collect(),
                old_links: need.old_links.iter().map(ToString::to_string).collect(),
                leaves: leaves.collect(),
            })
        });
        let publication = facts.publication.as_ref().map(|publication| (publication.oid, publication.version.clone()));
        Self { publication, tables: tables.collect() }
    }

    /// Reads what was kept; `None` when it is of another version.
    pub(crate) fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The publication's number, if there was one.
    pub(crate) fn publication(&self) -> Option<i64> {
        self.publication.as_ref().map(|(oid, _)| *oid)
    }

    /// The text to keep.
    pub(crate) fn text(&self) -> String {
        serde_json::to_string(self).expect("a memo is plain data")
    }

    /// The links whose old values had to be told, by table.
    pub(crate) fn old_links(&self) -> impl Iterator<Item = (QualifiedTable, Vec<String>)> {
        self.tables.iter().map(|memo| (QualifiedTable::new(&memo.schema, &memo.name), memo.old_links.clone()))
    }

    /// One table.
    pub(crate) fn table(&self, table: &QualifiedTable) -> Option<&TableMemo> {
        self.tables.iter().find(|memo| memo.schema == table.schema() && memo.name == table.table())
    }
}

/// The relations that the publication must list by themselves: those that came, or came back, as leaves since `memo`, and
/// those that had to be listed before and are not. Of what was not remembered: all that were published without being born so.
pub(crate) fn to_be_listed(memo: Option<&Memo>, needs: &Needs, facts: &Facts) -> BTreeSet<u32> {
    let is_owed = |table: &QualifiedTable, leaf: &Relation| {
        let known = memo.and_then(|memo| memo.table(table));
        match known.map(|known| known.leaves.get(&leaf.oid)) {
            Some(Some(known)) => known.unlisted || known.came_back(&leaf.link),
            Some(None) => !leaf.born_as_leaf,
            None => leaf.relation != *table && leaf.published && !leaf.born_as_leaf,
        }
    };
    let is_forgetful = facts.server.version < LOOKS_AGAIN_SINCE;
    let leaves = needs.tables().flat_map(|need| facts.leaves(&need.table).map(|leaf| (&need.table, leaf)));
    let owed = leaves.filter(|(table, leaf)| is_forgetful && !leaf.listed && is_owed(table, leaf));
    owed.map(|(_, leaf)| leaf.oid).collect()
}

impl LeafMemo {
    /// Its name.
    pub(crate) fn relation(&self) -> QualifiedTable {
        QualifiedTable::new(&self.schema, &self.name)
    }

    /// True when it was taken away and attached again: meanwhile its rows were not told.
    pub(crate) fn came_back(&self, link: &str) -> bool {
        !self.link.is_empty() && self.link != link
    }

    /// Its link, as it is.
    pub(crate) fn link(&self) -> &str {
        &self.link
    }

    /// The first column whose name another column has now, or that has another type, though no row was written anew: what it
    /// shows may be something else.
    pub(crate) fn redefined<'a>(&self, is: &'a Self) -> Option<&'a str> {
        let kind = |columns: &BTreeMap<i64, String>, number: &i64| {
            let kind = columns.get(number)?.split(':').next()?.parse().ok()?;
            // The same text in every row.
            Some(if kind == VARCHAR { TEXT } else { kind })
        };
        let is_other = |(name, number): &(&String, &i64)| {
            let was = self.names.get(*name);
            was.is_some_and(|was| was != *number || kind(&self.columns, was) != kind(&is.columns, number))
        };
        is.names.iter().find(is_other).map(|(name, _)| name.as_str())
    }

    /// The first enum's label that was renamed: every row that holds it shows another text.
    pub(crate) fn relabelled<'a>(&self, is: &'a Self) -> Option<&'a str> {
        let is_other = |(number, label): &(&i64, &String)| self.labels.get(number).is_some_and(|was| was != *label);
        is.labels.iter().find(is_other).map(|(_, label)| label.as_str())
    }

    /// A new file alone is a VACUUM FULL or a TRUNCATE, a new definition alone no rewrite; both together are one, unless the
    /// column is new.
    pub(crate) fn is_rewritten(&self, is: &Self) -> bool {
        self.file != is.file
            && self.columns.iter().any(|(number, column)| is.columns.get(number).is_some_and(|now| now != column))
    }
}
