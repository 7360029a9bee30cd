//! Holds what the database looks like now against what it looked like before: which tables' changes may have been missed.

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::{KeyColumns, QualifiedTable};
use millstream_postgres::provision::{Facts, Finding, Needs};

use super::gaps::Gaps;
use super::memo::{Memo, to_be_listed};
use super::prepare::Covered;
use crate::StartLine;

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
#[derive(Clone)]
pub(crate) struct Coverage {
    needs: Needs,
    /// The keys by which documents were filled.
    keys: BTreeMap<QualifiedTable, KeyColumns>,
    facts: Facts,
    memo: Memo,
    /// Before here counts what `old_links` says.
    line: StartLine,
    /// The links whose old values had to be told before this run.
    old_links: BTreeMap<QualifiedTable, Vec<String>>,
    broken: BTreeSet<QualifiedTable>,
}

impl Coverage {
    /// Goes on from what was remembered, if anything was: says also what happened since.
    pub(crate) fn resume(covered: Covered, memo: Option<Memo>, line: StartLine) -> (Self, Vec<(QualifiedTable, Turn)>) {
        let Covered { needs, facts, found } = covered;
        let keys = needs
            .tables()
            .filter_map(|need| Some((need.table.clone(), facts.root(&need.table)?.identity.key.clone().into())))
            .collect();
        let old_links = memo.iter().flat_map(Memo::old_links).collect();
        let memo = memo.unwrap_or_else(|| Memo::of(&needs, &facts));
        let broken = BTreeSet::new();
        let mut coverage = Self { needs, keys, facts: facts.clone(), memo, line, old_links, broken };
        let turns = coverage.look(facts, &found);
        (coverage, turns)
    }

    /// What to remember across restarts.
    pub(crate) fn memo(&self) -> &Memo {
        &self.memo
    }

    pub(crate) fn needs(&self) -> &Needs {
        &self.needs
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Rows that lack old values, of which nothing is said yet.
    pub(crate) fn gaps(&self) -> Gaps {
        Gaps::new(self.line, self.broken.iter().cloned())
    }

    /// The links of a table whose old values had to be told before this run; `None`: it was not watched.
    pub(crate) fn old_links(&self, table: &QualifiedTable) -> Option<&[String]> {
        self.old_links.get(table).map(Vec::as_slice)
    }

    /// What the log must tell of these facts: to be asked before [`look`](Self::look) with what is found wrong by it.
    pub(crate) fn meet(&mut self, now: &Facts) -> &Needs {
        let listed = to_be_listed(Some(&self.memo), &self.needs, now);
        self.needs = std::mem::take(&mut self.needs).with_listed(listed);
        &self.needs
    }

    /// Takes a new look: what turned for each table. `found` is what is wrong with `now`.
    pub(crate) fn look(&mut self, now: Facts, found: &[Finding]) -> Vec<(QualifiedTable, Turn)> {
        let memo = Memo::of(&self.needs, &now);
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
                None => turns.extend(self.changes(table, &memo).into_iter().map(|turn| (table.clone(), turn))),
            }
        }
        self.facts = now;
        self.memo = memo;
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

    /// What happened to a table between two looks, however far apart.
    fn changes(&self, table: &QualifiedTable, now: &Memo) -> Vec<Turn> {
        let (Some(was), Some(is)) = (self.memo.table(table), now.table(table)) else { return Vec::new() };
        if was.oid != is.oid {
            return vec![Turn::Blinked { reason: format!("the table was dropped and made anew (table={table})") }];
        }
        if was.key != is.key {
            return vec![Turn::Rewritten { reason: format!("the primary key changed (table={table})") }];
        }
        if self.memo.publication != now.publication || was.membership != is.membership {
            return vec![Turn::Blinked { reason: format!("the publication was changed under us (table={table})") }];
        }
        let mut turns = Vec::new();
        for (_, gone) in was.leaves.iter().filter(|(oid, _)| !is.leaves.contains_key(oid)) {
            let reason = format!("a partition was taken away (partition={})", gone.relation());
            turns.push(Turn::Rewritten { reason });
        }
        for (oid, leaf) in &is.leaves {
            match was.leaves.get(oid) {
                Some(old) if old.came_back(leaf.link()) => turns.push(Turn::Rewritten {
                    reason: format!("a partition was taken away and attached again (partition={})", leaf.relation()),
                }),
                Some(old) if old.is_rewritten(leaf) => turns.push(Turn::Rewritten {
                    reason: format!("the table was rewritten by a change of its columns (table={})", leaf.relation()),
                }),
                Some(old) if let Some(column) = old.redefined(leaf) => turns.push(Turn::Rewritten {
                    reason: format!(
                        "a column is another one than it was, or of another type (table={}, column={column})",
                        leaf.relation()
                    ),
                }),
                Some(old) if let Some(label) = old.relabelled(leaf) => turns.push(Turn::Rewritten {
                    reason: format!("a label of an enum was renamed (table={}, label={label})", leaf.relation()),
                }),
                None if !leaf.born_as_leaf => turns.push(Turn::Attached { leaf: leaf.relation() }),
                _ => {}
            }
        }
        turns
    }
}
