//! Which values a changed row ties it to its parent by: before and after the change.

use std::collections::HashMap;

use millstream_model::{ChangedRow, LinkValue, LinkValues, Operation, RowKey, Text};

use super::walk::Walk;

/// Where to begin a walk.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seed {
    /// At the parent, by the values of the tie.
    Values(Vec<Text>),
    /// At the row itself: what it is tied to now was not told.
    Row(Vec<Text>),
}

/// The seeds of one changed row: both ends of a tie that changed.
pub(super) fn seeds(walk: &Walk, row: &ChangedRow) -> Vec<Seed> {
    let old_key = row.old_key.as_ref().unwrap_or(&row.key);
    let mut seeds = Vec::new();
    match row.operation {
        Operation::Truncate => {}
        Operation::Delete => {
            if let Tie::Values(values) = tie(walk, old_key, [row.before.as_ref(), None]) {
                seeds.push(Seed::Values(values));
            }
        }
        Operation::Upsert => {
            match tie(walk, &row.key, [row.after.as_ref(), None]) {
                Tie::Values(values) => seeds.push(Seed::Values(values)),
                Tie::Nowhere => {}
                Tie::Unknown => seeds.extend(row_seed(walk, &row.key)),
            }
            // What the log did not tell of the time before had not changed.
            let had_other = row.before.is_some() || row.old_key.is_some();
            if had_other
                && let Tie::Values(values) = tie(walk, old_key, [row.before.as_ref(), row.after.as_ref()])
                && !seeds.contains(&Seed::Values(values.clone()))
            {
                seeds.push(Seed::Values(values));
            }
        }
    }
    seeds
}

enum Tie {
    Values(Vec<Text>),
    /// NULL links to no row.
    Nowhere,
    /// The log did not carry a column.
    Unknown,
}

/// The tie's values from the key, then from the first of `links` that knows each.
fn tie(walk: &Walk, key: &RowKey, links: [Option<&LinkValues>; 2]) -> Tie {
    let mut values = Vec::with_capacity(walk.columns.len());
    let mut unknown = false;
    for column in &walk.columns {
        if let Some(value) = key.get(column) {
            values.push(Text::from(value));
            continue;
        }
        let told = links.iter().flatten().map(|links| links.get(column)).find(|value| **value != LinkValue::Absent);
        match told {
            Some(LinkValue::Text(value)) => values.push(value.clone()),
            Some(LinkValue::Null) => return Tie::Nowhere,
            Some(LinkValue::Absent) | None => unknown = true,
        }
    }
    if unknown { Tie::Unknown } else { Tie::Values(values) }
}

fn row_seed(walk: &Walk, key: &RowKey) -> Option<Seed> {
    walk.by_row.as_ref()?;
    walk.key.iter().map(|column| key.get(column).map(Text::from)).collect::<Option<Vec<_>>>().map(Seed::Row)
}

/// The seeds of many rows, each once, with the numbers of the rows that have it.
#[derive(Default)]
pub(super) struct SeedRows {
    places: HashMap<Vec<Text>, usize>,
    /// In the order in which they were first seen: the values and the rows.
    pub seeds: Vec<(Vec<Text>, Vec<usize>)>,
}

impl SeedRows {
    pub fn add(&mut self, values: Vec<Text>, row: usize) {
        let place = *self.places.entry(values).or_insert_with_key(|values| {
            self.seeds.push((values.clone(), Vec::new()));
            self.seeds.len() - 1
        });
        self.seeds[place].1.push(row);
    }
}
