//! What the log's relations mean to us, and how a row of one becomes a [`ChangedRow`].

use std::collections::HashMap;
use std::sync::Arc;

use millstream_core::{Result, SourceError};
use millstream_model::{ChangedRow, Fence, KeyColumns, LinkValue, LinkValues, Operation, QualifiedTable, RowKey, Text};
use smallvec::SmallVec;

use super::coverage::Coverage;
use super::decode::{Old, Relation, Tuple, Value};

/// A table of the schemas, as changes of it are told.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) table: QualifiedTable,
    /// The primary key, from the catalog.
    pub(crate) key: KeyColumns,
    /// The link columns, in order of name.
    pub(crate) links: KeyColumns,
    /// Those of them whose old values must be told.
    pub(crate) old_links: Vec<Text>,
    /// Those whose old values had to be told before this run; `None`: it was not watched.
    pub(crate) old_links_before: Option<Vec<Text>>,
    /// True when an index is rooted in it.
    pub(crate) is_root: bool,
    /// The relations that hold its rows.
    pub(crate) leaves: Vec<u32>,
    /// The table's own number.
    pub(crate) oid: u32,
}

/// The relations whose rows are told, by their number.
pub(crate) type Leaves = HashMap<u32, Arc<Watched>>;

/// Which relations are told as which tables.
pub(crate) fn leaves(coverage: &Coverage) -> Leaves {
    let (facts, needs) = (coverage.facts(), coverage.needs());
    let texts = |names: &[String]| names.iter().map(|name| Text::from(name.as_str())).collect();
    let mut leaves = Leaves::new();
    for need in needs.tables() {
        let Some(root) = facts.root(&need.table) else { continue };
        let numbers: Vec<u32> = facts.leaves(&need.table).map(|leaf| leaf.oid).collect();
        let watched = Arc::new(Watched {
            table: need.table.clone(),
            key: root.identity.key.clone().into(),
            links: need.links.clone().into(),
            old_links: need.old_links.clone(),
            old_links_before: coverage.old_links(&need.table).map(texts),
            is_root: need.is_root,
            leaves: numbers.clone(),
            oid: root.oid,
        });
        leaves.extend(numbers.into_iter().map(|number| (number, watched.clone())));
    }
    leaves
}

/// What one column of a relation is to us.
#[derive(Clone, Copy, Debug, Default)]
struct Role {
    key: Option<u8>,
    link: Option<u8>,
    in_identity: bool,
}

/// A relation's columns, as the log lists them, by what they are to us.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) watched: Arc<Watched>,
    roles: Vec<Role>,
    /// Columns behind this one are nothing to us.
    used: usize,
    /// Changes come without some old value that we need.
    lacks: bool,
    /// The same by what was needed before this run.
    lacked: bool,
    /// It was told under another name, or without a link column: a look at the catalog, before or after, may not show that.
    renamed: bool,
}

/// Key and links of one row, as far as the log told them.
struct Values {
    key: SmallVec<[Option<Text>; 1]>,
    links: SmallVec<[LinkValue; 2]>,
}

impl Shape {
    pub(crate) fn new(watched: Arc<Watched>, relation: &Relation<'_>) -> Self {
        let place = |columns: &KeyColumns, name: &str| {
            columns.iter().position(|column| column == name).and_then(|at| u8::try_from(at).ok())
        };
        let roles: Vec<Role> = relation
            .columns()
            .map(|(name, in_identity)| Role {
                key: place(&watched.key, name),
                link: place(&watched.links, name),
                in_identity,
            })
            .collect();
        let used = roles.iter().rposition(|role| role.key.is_some() || role.link.is_some()).map_or(0, |at| at + 1);
        let columns: Vec<(&str, bool)> = relation.columns().collect();
        // A column that is not there is not lacking but renamed.
        let lacks =
            |links: &[Text]| watched.key.iter().chain(links).any(|name| columns.contains(&(name.as_str(), false)));
        let (lacks, lacked) = (lacks(&watched.old_links), watched.old_links_before.as_deref().is_some_and(lacks));
        let is_other = relation.id == watched.oid
            && (relation.schema, relation.name) != (watched.table.schema(), watched.table.table());
        let renamed =
            is_other || watched.links.iter().any(|link| !columns.iter().any(|(name, _)| *name == link.as_str()));
        Self { watched, roles, used, lacks, lacked, renamed }
    }

    /// True when some changed row may lack an old value that somebody needs.
    pub(crate) fn is_lacking(&self) -> bool {
        self.lacks || self.lacked || self.renamed
    }

    /// True when a changed row lacks what those who read the table must know. `named`: the log told its key. `before`: it was
    /// written before this run's coverage, so that what is filled since sees it.
    pub(crate) fn misses(&self, named: bool, before: bool) -> bool {
        match before {
            true => self.watched.old_links_before.is_some() && (self.lacked || self.renamed || !named),
            false => self.lacks || self.renamed || !named,
        }
    }

    /// A row that is new; `None` when the log does not tell its key.
    pub(crate) fn inserted(&self, new: &Tuple<'_>, fence: Fence) -> Result<Option<ChangedRow>> {
        let new = self.values(new, true)?;
        let Some(key) = self.key(new.key) else { return Ok(None) };
        let mut row = ChangedRow::new(self.watched.table.clone(), key, Operation::Upsert, fence);
        row.after = Some(self.links(new.links));
        Ok(Some(row))
    }

    /// A row that changed; `None` when the log does not tell its key.
    pub(crate) fn updated(&self, old: Option<&Old<'_>>, new: &Tuple<'_>, fence: Fence) -> Result<Option<ChangedRow>> {
        let mut new = self.values(new, true)?;
        let old = old.map(|old| self.values(&old.tuple, old.whole)).transpose()?;
        if let Some(old) = &old {
            new.fill_from(old);
        }
        let Some(key) = self.key(new.key) else { return Ok(None) };
        let mut row = ChangedRow::new(self.watched.table.clone(), key, Operation::Upsert, fence);
        if let Some(old) = old {
            row.old_key = self.key(old.key).filter(|old| *old != row.key);
            if old.links != new.links {
                row.before = Some(self.links(old.links));
            }
        }
        row.after = Some(self.links(new.links));
        Ok(Some(row))
    }

    /// A row that is gone; `None` when the log does not tell its key.
    pub(crate) fn deleted(&self, old: &Old<'_>, fence: Fence) -> Result<Option<ChangedRow>> {
        let old = self.values(&old.tuple, old.whole)?;
        let Some(key) = self.key(old.key) else { return Ok(None) };
        let mut row = ChangedRow::new(self.watched.table.clone(), key, Operation::Delete, fence);
        row.before = Some(self.links(old.links));
        Ok(Some(row))
    }

    /// `whole`: every column counts; else only those of the identity, the others are told as NULL whatever they were.
    fn values(&self, tuple: &Tuple<'_>, whole: bool) -> Result<Values> {
        let mut values = Values {
            key: smallvec::smallvec![None; self.watched.key.len()],
            links: smallvec::smallvec![LinkValue::Absent; self.watched.links.len()],
        };
        for (role, value) in self.roles[..self.used].iter().zip(tuple.values()) {
            if !whole && !role.in_identity {
                continue;
            }
            let link = role.link.map(usize::from);
            match (value, role.key.map(usize::from)) {
                (_, None) if link.is_none() => {}
                (Value::Text(bytes), key) => {
                    let text = Text::from(text(bytes)?);
                    if let Some(at) = link {
                        values.links[at] = LinkValue::Text(text.clone());
                    }
                    if let Some(at) = key {
                        values.key[at] = Some(text);
                    }
                }
                (Value::Null, _) => {
                    if let Some(at) = link {
                        values.links[at] = LinkValue::Null;
                    }
                }
                (Value::Unchanged, _) => {}
            }
        }
        Ok(values)
    }

    fn key(&self, values: SmallVec<[Option<Text>; 1]>) -> Option<RowKey> {
        if values.iter().any(Option::is_none) || values.is_empty() {
            return None;
        }
        Some(RowKey::new(self.watched.key.clone(), values.into_iter().flatten()))
    }

    fn links(&self, values: SmallVec<[LinkValue; 2]>) -> LinkValues {
        LinkValues::new(self.watched.links.clone(), values)
    }
}

impl Values {
    /// What is out of line and unchanged is what it was.
    fn fill_from(&mut self, old: &Self) {
        for (new, old) in self.key.iter_mut().zip(&old.key) {
            if new.is_none() {
                new.clone_from(old);
            }
        }
        for (new, old) in self.links.iter_mut().zip(&old.links) {
            if *new == LinkValue::Absent {
                new.clone_from(old);
            }
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| SourceError::decode("the log holds a value that is not UTF-8"))
}

#[cfg(test)]
#[path = "tables_tests.rs"]
mod tests;
