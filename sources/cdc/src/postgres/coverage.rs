//! Holds what the database looks like now against what it looked like before: which tables' changes may have been missed.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::{KeyColumns, QualifiedTable};
use millstream_postgres::provision::{Facts, Finding, Needs, Relation};

/// What happened to one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Its changes are no longer told, or not fully.
    Broken { reason: String, remedy: String },
    /// They are again.
    Mended,
    /// They were not for a while between two inspections.
    Blinked { reason: String },
    /// Rows changed without an event.
    Rewritten { reason: String },
    /// A leaf joined it that was not made as one: with rows in it, that is a rewrite.
    Attached { leaf: QualifiedTable },
}

/// What is known from before.
pub(crate) struct Coverage {
    needs: Needs,
    /// The keys by which documents were filled.
    keys: BTreeMap<QualifiedTable, KeyColumns>,
    facts: Facts,
    broken: BTreeSet<QualifiedTable>,
}

impl Coverage {
    pub(crate) fn new(needs: Needs, facts: Facts) -> Self {
        let keys = needs
            .tables()
            .filter_map(|need| Some((need.table.clone(), facts.root(&need.table)?.identity.key.clone().into())))
            .collect();
        Self { needs, keys, facts, broken: BTreeSet::new() }
    }

    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Takes a new look: what turned for each table. `found` is what is wrong with `now`.
    pub(crate) fn look(&mut self, now: Facts, found: &[Finding]) -> Vec<(QualifiedTable, Turn)> {
        let mut turns = Vec::new();
        for need in self.needs.tables() {
            let table = &need.table;
            match self.problem(table, &now, found) {
                Some((reason, remedy)) => {
                    if self.broken.insert(table.clone()) {
                        turns.push((table.clone(), Turn::Broken { reason, remedy }));
                    }
                }
                None if self.broken.remove(table) => turns.push((table.clone(), Turn::Mended)),
                None => turns.extend(self.changes(table, &now).into_iter().map(|turn| (table.clone(), turn))),
            }
        }
        self.facts = now;
        turns
    }

    /// Why a table's changes are not told as they must be, and what mends it.
    fn problem(&self, table: &QualifiedTable, now: &Facts, found: &[Finding]) -> Option<(String, String)> {
        let concerns =
            |finding: &&Finding| !finding.advice && finding.table.as_ref().is_none_or(|concerned| concerned == table);
        let concerning: Vec<&Finding> = found.iter().filter(concerns).collect();
        if !concerning.is_empty() {
            let reasons: Vec<&str> = concerning.iter().map(|finding| finding.reason.as_str()).collect();
            let remedies: Vec<String> = concerning.iter().map(|finding| finding.statements()).collect();
            return Some((reasons.join("; "), remedies.join(" ").trim().to_owned()));
        }
        let (was, is) = (self.keys.get(table)?, &now.root(table)?.identity.key);
        (was.as_ref() != is.as_slice()).then(|| {
            let reason =
                format!("the primary key changed (table={table}, was={}, is={})", was.join(", "), is.join(", "));
            (reason, "put the key back, or restart the engine to fill the index by the new one".to_owned())
        })
    }

    fn changes(&self, table: &QualifiedTable, now: &Facts) -> Vec<Turn> {
        let (Some(was), Some(is)) = (self.facts.root(table), now.root(table)) else { return Vec::new() };
        if was.oid != is.oid {
            return vec![Turn::Blinked { reason: format!("the table was dropped and made anew (table={table})") }];
        }
        let publication = |facts: &Facts| {
            facts.publication.as_ref().map(|publication| (publication.oid, publication.version.clone()))
        };
        if publication(&self.facts) != publication(now) || was.membership != is.membership {
            return vec![Turn::Blinked { reason: format!("the publication was changed under us (table={table})") }];
        }
        let before: BTreeMap<u32, &Relation> = self.facts.leaves(table).map(|leaf| (leaf.oid, leaf)).collect();
        let after: BTreeMap<u32, &Relation> = now.leaves(table).map(|leaf| (leaf.oid, leaf)).collect();
        let mut turns = Vec::new();
        for gone in before.values().filter(|leaf| !after.contains_key(&leaf.oid)) {
            turns.push(Turn::Rewritten { reason: format!("a partition was taken away (partition={})", gone.relation) });
        }
        for leaf in after.values() {
            match before.get(&leaf.oid) {
                Some(old) if is_rewritten(old, leaf) => turns.push(Turn::Rewritten {
                    reason: format!("the table was rewritten by a change of its columns (table={})", leaf.relation),
                }),
                None if !leaf.born_as_leaf => turns.push(Turn::Attached { leaf: leaf.relation.clone() }),
                _ => {}
            }
        }
        turns
    }
}

/// A new file alone is a VACUUM FULL or a TRUNCATE, a new definition alone no rewrite; both together are one, unless the
/// column is new.
fn is_rewritten(was: &Relation, is: &Relation) -> bool {
    was.file != is.file
        && was.columns.iter().any(|(number, column)| is.columns.get(number).is_some_and(|now| now != column))
}
