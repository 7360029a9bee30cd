//! What differs between what is stored and what the source says, and whether that is too much to be true. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::shape::{Row, Same};

/// A row as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredRow {
    pub same: Same,
    /// Texts of the link columns, in order of name.
    pub links: Vec<Option<String>>,
}

/// Stored rows by the texts of their keys.
pub(crate) type Stored = HashMap<Vec<String>, StoredRow>;

/// Places in the list of rows, and keys.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Diff {
    pub new: Vec<usize>,
    pub changed: Vec<usize>,
    pub unchanged: usize,
    /// In order of their keys.
    pub withdrawn: Vec<Vec<String>>,
}

/// What a landing did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Rows that were not there.
    pub new: u64,
    /// Rows that were there and looked otherwise.
    pub changed: u64,
    /// Rows that were there as they are.
    pub unchanged: u64,
    /// Rows that the source has no more.
    pub withdrawn: u64,
}

impl Diff {
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            new: self.new.len() as u64,
            changed: self.changed.len() as u64,
            unchanged: self.unchanged as u64,
            withdrawn: self.withdrawn.len() as u64,
        }
    }
}

/// Which stored rows are gone.
pub(crate) enum Gone<'a> {
    /// These, if they are stored.
    Named(&'a [Vec<String>]),
    /// All that is stored but what is present or protected.
    Absent(&'a dyn Fn(&[String]) -> bool),
    /// None.
    Nothing,
}

/// Of two rows with one key the later counts.
pub(crate) fn compare(stored: &Stored, rows: &[Row], gone: &Gone<'_>) -> Diff {
    let mut diff = Diff::default();
    let last: HashMap<&[String], usize> = rows.iter().enumerate().map(|(at, row)| (row.key.as_slice(), at)).collect();
    for (at, row) in rows.iter().enumerate() {
        if last[row.key.as_slice()] != at {
            continue;
        }
        match stored.get(&row.key) {
            None => diff.new.push(at),
            Some(found) if found.same == row.same => diff.unchanged += 1,
            Some(_) => diff.changed.push(at),
        }
    }
    match gone {
        Gone::Nothing => {}
        Gone::Named(keys) => {
            let keys: HashSet<&Vec<String>> = keys.iter().filter(|key| stored.contains_key(*key)).collect();
            diff.withdrawn = keys.into_iter().filter(|key| !last.contains_key(key.as_slice())).cloned().collect();
        }
        Gone::Absent(is_kept) => {
            let absent = stored.keys().filter(|key| !last.contains_key(key.as_slice()) && !is_kept(key));
            diff.withdrawn = absent.cloned().collect();
        }
    }
    diff.withdrawn.sort_unstable();
    diff
}

/// Why a pass was not let through.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Brake {
    pub touched: usize,
    pub of: usize,
    /// The replicate column, if it is about one.
    pub replicate: Option<String>,
}

/// Rows that may be touched before anyone looks at their share.
const TOUCHED_FREELY: usize = 4;

/// Holds the share of rows that a complete payload would change or withdraw against what is stored in its window: more than 15
/// in 100, or more than half of one replicate column, is more likely a fault of the source than the truth.
pub(crate) fn brake(stored: &Stored, rows: &[Row], diff: &Diff, column: Option<usize>) -> Option<Brake> {
    let touched = diff.changed.len() + diff.withdrawn.len();
    if touched <= TOUCHED_FREELY {
        return None;
    }
    if touched * 100 > stored.len() * 15 {
        return Some(Brake { touched, of: stored.len(), replicate: None });
    }
    let column = column?;
    let mut shares: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for key in stored.keys() {
        shares.entry(&key[column]).or_default().1 += 1;
    }
    let keys = diff.changed.iter().map(|at| &rows[*at].key).chain(&diff.withdrawn);
    for key in keys {
        shares.entry(&key[column]).or_default().0 += 1;
    }
    let worst = shares.into_iter().find(|(_, (touched, of))| touched * 2 > *of);
    worst.map(|(replicate, (touched, of))| Brake { touched, of, replicate: Some(replicate.to_owned()) })
}

impl fmt::Display for Brake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (touched, of) = (self.touched, self.of);
        match &self.replicate {
            None => write!(f, "{touched} of {of} stored rows would change or go"),
            Some(replicate) => write!(f, "{touched} of {of} stored rows of replicate {replicate} would change or go"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(key: &str, value: f64) -> Row {
        let key = vec!["s".to_owned(), key.to_owned(), key.chars().last().unwrap().to_string()];
        Row { key, key_values: Vec::new(), values: Vec::new(), same: Same::Number(value) }
    }

    fn stored(rows: impl IntoIterator<Item = Row>) -> Stored {
        rows.into_iter().map(|row| (row.key, StoredRow { same: row.same, links: Vec::new() })).collect()
    }

    fn everything(stored: &Stored, rows: &[Row]) -> Diff {
        compare(stored, rows, &Gone::Absent(&|_| false))
    }

    #[test]
    fn rows_are_new_changed_unchanged_or_withdrawn() {
        let there = stored([row("a0", 1.0), row("b0", 2.0), row("c0", 3.0), row("d0", 4.0)]);
        let rows = [row("a0", 1.0), row("b0", 9.0), row("e0", 5.0), row("e0", 6.0)];
        let is_kept = |key: &[String]| key[1] == "d0";
        let diff = compare(&there, &rows, &Gone::Absent(&is_kept));
        assert_eq!((diff.new, diff.changed, diff.unchanged), (vec![3], vec![1], 1));
        assert_eq!(diff.withdrawn, [row("c0", 0.0).key]);
    }

    #[test]
    fn the_brake_needs_five_rows_and_a_share() {
        // (stored, withdrawn, braked)
        for (of, gone, braked) in
            [(4, 4, false), (5, 5, true), (33, 5, true), (34, 5, false), (100, 15, false), (100, 16, true)]
        {
            let there = stored((0..of).map(|at| row(&format!("{at}x"), 1.0)));
            let rows: Vec<Row> = (gone..of).map(|at| row(&format!("{at}x"), 1.0)).collect();
            let found = brake(&there, &rows, &everything(&there, &rows), None);
            assert_eq!(found.is_some(), braked, "{gone} of {of}");
        }
    }

    #[test]
    fn the_brake_looks_at_each_replicate_column() {
        let there = stored((0..100).map(|at| row(&format!("{at:03}{}", u8::from(at >= 90)), 1.0)));
        let changed = |count: usize| -> Vec<Row> {
            let value = |at| if (90..90 + count).contains(&at) { 2.0 } else { 1.0 };
            (0..100).map(|at| row(&format!("{at:03}{}", u8::from(at >= 90)), value(at))).collect()
        };
        let (half, more) = (changed(5), changed(6));
        assert_eq!(brake(&there, &half, &everything(&there, &half), Some(2)), None);
        let found = brake(&there, &more, &everything(&there, &more), Some(2)).unwrap();
        assert_eq!(found.to_string(), "6 of 10 stored rows of replicate 1 would change or go");
    }
}
