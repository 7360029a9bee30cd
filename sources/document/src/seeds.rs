//! Which values a changed row ties it to its parent by: before and after the change. For whoever writes a builder.

use std::collections::HashMap;

use millstream_model::{ChangedRow, LinkValue, LinkValues, Operation, RowKey, Text};

/// The columns that tie a related table to its parent.
#[derive(Clone, Copy, Debug)]
pub struct Tie<'a> {
    /// The related table's side of the pairs.
    pub columns: &'a [Text],
    /// The related table's key, where a row can be asked for what it is tied to now.
    pub key: Option<&'a [Text]>,
}

/// Where to begin on the way up to the documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Seed {
    /// At the parent, by the values of the tie.
    Values(Vec<Text>),
    /// At the row itself: what it is tied to now was not told.
    Row(Vec<Text>),
}

/// The seeds of one changed row: both ends of a tie that changed. None for a truncate, which has no rows to ask.
pub fn seeds(tie: Tie<'_>, row: &ChangedRow) -> Vec<Seed> {
    let old_key = row.old_key.as_ref().unwrap_or(&row.key);
    let mut seeds = Vec::new();
    match row.operation {
        Operation::Truncate => {}
        Operation::Delete => {
            if let Tied::To(values) = tied(tie, old_key, [row.before.as_ref(), None]) {
                seeds.push(Seed::Values(values));
            }
        }
        Operation::Upsert => {
            match tied(tie, &row.key, [row.after.as_ref(), None]) {
                Tied::To(values) => seeds.push(Seed::Values(values)),
                Tied::Nowhere => {}
                Tied::Unknown => seeds.extend(row_seed(tie, &row.key)),
            }
            // What the log did not tell of the time before had not changed.
            let had_other = row.before.is_some() || row.old_key.is_some();
            if had_other
                && let Tied::To(values) = tied(tie, old_key, [row.before.as_ref(), row.after.as_ref()])
                && !seeds.contains(&Seed::Values(values.clone()))
            {
                seeds.push(Seed::Values(values));
            }
        }
    }
    seeds
}

enum Tied {
    To(Vec<Text>),
    /// NULL links to no row.
    Nowhere,
    /// The log did not carry a column.
    Unknown,
}

/// The tie's values from the key, then from the first of `links` that knows each.
fn tied(tie: Tie<'_>, key: &RowKey, links: [Option<&LinkValues>; 2]) -> Tied {
    let mut values = Vec::with_capacity(tie.columns.len());
    let mut unknown = false;
    for column in tie.columns {
        if let Some(value) = key.get(column) {
            values.push(Text::from(value));
            continue;
        }
        let told = links.iter().flatten().map(|links| links.get(column)).find(|value| **value != LinkValue::Absent);
        match told {
            Some(LinkValue::Text(value)) => values.push(value.clone()),
            Some(LinkValue::Null) => return Tied::Nowhere,
            Some(LinkValue::Absent) | None => unknown = true,
        }
    }
    if unknown { Tied::Unknown } else { Tied::To(values) }
}

fn row_seed(tie: Tie<'_>, key: &RowKey) -> Option<Seed> {
    tie.key?.iter().map(|column| key.get(column).map(Text::from)).collect::<Option<Vec<_>>>().map(Seed::Row)
}

/// The seeds of many rows, each once, with the numbers of the rows that have it.
#[derive(Debug, Default)]
pub struct SeedRows {
    places: HashMap<Vec<Text>, usize>,
    /// In the order in which they were first seen: the values and the rows.
    pub seeds: Vec<(Vec<Text>, Vec<usize>)>,
}

impl SeedRows {
    /// One more row that has a seed.
    pub fn add(&mut self, values: Vec<Text>, row: usize) {
        let place = *self.places.entry(values).or_insert_with_key(|values| {
            self.seeds.push((values.clone(), Vec::new()));
            self.seeds.len() - 1
        });
        self.seeds[place].1.push(row);
    }
}

#[cfg(test)]
mod tests {
    use millstream_model::{Fence, QualifiedTable};

    use super::*;

    /// Memberships: keyed by team and number, tied by team and member.
    static COLUMNS: [Text; 2] = [Text::const_new("team"), Text::const_new("member")];
    static KEY: [Text; 2] = [Text::const_new("team"), Text::const_new("n")];

    fn tie() -> Tie<'static> {
        Tie { columns: &COLUMNS, key: Some(&KEY) }
    }

    fn key(team: &str) -> RowKey {
        RowKey::new(vec![Text::from("team"), Text::from("n")].into(), [Text::from(team), Text::from("1")])
    }

    fn links(member: LinkValue) -> Option<LinkValues> {
        Some(LinkValues::new(vec![Text::from("member")].into(), [member]))
    }

    fn row(operation: Operation) -> ChangedRow {
        ChangedRow::new(QualifiedTable::new("public", "memberships"), key("a"), operation, Fence::NONE)
    }

    fn text(value: &str) -> LinkValue {
        LinkValue::Text(value.into())
    }

    fn values(team: &str, member: &str) -> Seed {
        Seed::Values(vec![team.into(), member.into()])
    }

    #[test]
    fn p5_both_ends_of_a_tie_that_changed_are_seeds() {
        let mut moved = row(Operation::Upsert);
        (moved.before, moved.after) = (links(text("1")), links(text("2")));
        assert_eq!(seeds(tie(), &moved), [values("a", "2"), values("a", "1")]);
        moved.before = links(text("2"));
        assert_eq!(seeds(tie(), &moved), [values("a", "2")]);
        moved.after = links(LinkValue::Null);
        assert_eq!(seeds(tie(), &moved), [values("a", "2")]);
    }

    #[test]
    fn p6_a_changed_key_is_part_of_the_old_tie() {
        let mut moved = row(Operation::Upsert);
        moved.old_key = Some(key("b"));
        moved.after = links(text("2"));
        assert_eq!(seeds(tie(), &moved), [values("a", "2"), values("b", "2")]);
    }

    #[test]
    fn an_absent_link_is_asked_of_the_row_and_is_not_null() {
        let mut changed = row(Operation::Upsert);
        assert_eq!(seeds(tie(), &changed), [Seed::Row(vec!["a".into(), "1".into()])]);
        changed.after = links(LinkValue::Absent);
        changed.before = links(text("1"));
        assert_eq!(seeds(tie(), &changed), [Seed::Row(vec!["a".into(), "1".into()]), values("a", "1")]);
        let mut unchanged = row(Operation::Upsert);
        (unchanged.before, unchanged.after) = (links(LinkValue::Absent), links(text("2")));
        assert_eq!(seeds(tie(), &unchanged), [values("a", "2")]);
    }

    #[test]
    fn a_deleted_row_was_tied_by_what_it_had() {
        let mut deleted = row(Operation::Delete);
        assert!(seeds(tie(), &deleted).is_empty());
        deleted.before = links(text("1"));
        assert_eq!(seeds(tie(), &deleted), [values("a", "1")]);
        deleted.before = links(LinkValue::Null);
        assert!(seeds(tie(), &deleted).is_empty());
    }

    #[test]
    fn rows_with_one_tie_are_asked_once() {
        let mut asked = SeedRows::default();
        for (value, row) in [("x", 0), ("y", 1), ("x", 2)] {
            asked.add(vec![value.into()], row);
        }
        assert_eq!(asked.seeds, [(vec!["x".into()], vec![0, 2]), (vec!["y".into()], vec![1])]);
    }
}
