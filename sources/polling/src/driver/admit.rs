//! Which rows of a page may be landed, and why the others may not. Pure.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::model::{
    Carries, ColumnAssignment, Page, Payload, Reading, ReadingWindow, Record, RecordChange, RecordShape, RefusedRow,
    StreamDescriptor, Timestamp,
};
use crate::store::{Complete, Dialect, Protected, Row, Same, digest_of, key_of, reading_row, record_row};

/// By what rows are judged.
pub(crate) struct Judge<'a> {
    pub dialect: Dialect,
    pub stream: &'a StreamDescriptor,
    pub pins: &'a [ColumnAssignment],
    pub now: Timestamp,
    pub age_max: Duration,
    pub ahead_max: Duration,
}

/// What a page comes down to.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Admitted {
    /// Readings in order of instant and index; records in the source's order, each key once.
    pub rows: Vec<Row>,
    /// Of readings: when each was taken.
    pub instants: Vec<Timestamp>,
    /// Keys that the source says are gone.
    pub removed: Vec<Vec<String>>,
    pub complete: Option<Complete>,
    pub protected: Protected,
    /// Rows that may not be landed, each a sentence that names it.
    pub refused: Vec<String>,
    /// Rows that the source was read for, of a complete payload.
    pub rows_read: u64,
}

/// Judges the rows of a page.
///
/// # Errors
/// When the page is not one of this stream at all.
pub(crate) fn admit(judge: &Judge<'_>, page: Page) -> Result<Admitted, String> {
    let mut admitted = Admitted::default();
    for refusal in page.refused {
        judge.protect(&refusal.row, &mut admitted.protected);
        admitted.refused.push(refusal.reason);
    }
    match (&judge.stream.carries, page.payload) {
        (Carries::Readings(_), Payload::Readings(readings)) => judge.readings(readings, None, &mut admitted),
        (Carries::Readings(_), Payload::ReadingWindow(window)) => judge.window(window, &mut admitted)?,
        (Carries::Records(shape), Payload::Records(changes)) => judge.changes(shape, changes, &mut admitted),
        (Carries::Records(shape), Payload::RecordSet(set)) => {
            admitted.rows_read = set.rows_read;
            admitted.complete = Some(Complete::Everything);
            judge.changes(shape, set.records.into_iter().map(RecordChange::Present), &mut admitted);
        }
        (Carries::Records(shape), Payload::KeySet(set)) => {
            admitted.rows_read = set.keys.len() as u64;
            let mut present = std::collections::HashSet::new();
            for key in set.keys {
                match key_of(judge.dialect, shape, &key) {
                    Ok((texts, _)) => {
                        present.insert(texts);
                    }
                    Err(why) => {
                        admitted.protected.unknown = true;
                        admitted.refused.push(format!("key {key:?}: {why}"));
                    }
                }
            }
            admitted.complete = Some(Complete::Keys(present));
        }
        (Carries::Readings(_), _) => return Err("a stream of readings was answered with records".to_owned()),
        (Carries::Records(_), _) => return Err("a stream of records was answered with readings".to_owned()),
    }
    Ok(admitted)
}

impl Judge<'_> {
    fn protect(&self, row: &RefusedRow, protected: &mut Protected) {
        match (row, &self.stream.carries) {
            (RefusedRow::At(at), _) => match at.decode() {
                Ok(at) => {
                    protected.instants.insert(self.dialect.instant(at));
                }
                Err(_) => protected.unknown = true,
            },
            (RefusedRow::Under(key), Carries::Records(shape)) => match key_of(self.dialect, shape, key) {
                Ok((texts, _)) => {
                    protected.keys.insert(texts);
                }
                Err(_) => protected.unknown = true,
            },
            _ => protected.unknown = true,
        }
    }

    fn window(&self, window: ReadingWindow, admitted: &mut Admitted) -> Result<(), String> {
        let (from, to) = (window.from, window.to);
        if from >= to {
            return Err(format!("a window ends before it begins (from={from}, to={to})"));
        }
        admitted.rows_read = window.rows_read;
        admitted.complete = Some(Complete::Window { from, to });
        self.readings(window.readings, Some((from, to)), admitted);
        Ok(())
    }

    fn readings(&self, readings: Vec<Reading>, span: Option<(Timestamp, Timestamp)>, admitted: &mut Admitted) {
        let mut kept: Vec<(Timestamp, u32, f64)> = Vec::with_capacity(readings.len());
        for reading in readings {
            match self.reading(&reading, span, &mut admitted.protected) {
                Ok(at) => kept.push((at, reading.replicate, reading.value)),
                Err(why) => admitted.refused.push(format!("reading at {}: {why}", reading.at)),
            }
        }
        // Stable: of two with one key the later in the source's order counts.
        kept.sort_by_key(|(at, replicate, _)| (*at, *replicate));
        for (at, replicate, value) in kept {
            admitted.rows.push(reading_row(self.dialect, &self.stream.key, at, replicate, value));
            admitted.instants.push(at);
        }
    }

    /// When a reading was taken, if it may be landed.
    fn reading(
        &self,
        reading: &Reading,
        span: Option<(Timestamp, Timestamp)>,
        protected: &mut Protected,
    ) -> Result<Timestamp, String> {
        let at = reading.at.decode().inspect_err(|_| protected.unknown = true)?;
        if at < self.now.minus(self.age_max) {
            protected.instants.insert(self.dialect.instant(at));
            return Err("it is too old to be true".to_owned());
        }
        if at > self.now.plus(self.ahead_max) {
            protected.instants.insert(self.dialect.instant(at));
            return Err("it is too far ahead to be true".to_owned());
        }
        if span.is_some_and(|(from, to)| at < from || at >= to) {
            return Err("it is outside of its window".to_owned());
        }
        let key = || vec![self.stream.key.to_string(), self.dialect.instant(at), reading.replicate.to_string()];
        let is_pinned = match self.pins {
            [] => reading.replicate == 0,
            pins => pins.iter().any(|pin| pin.active && pin.index == reading.replicate),
        };
        if !is_pinned {
            protected.keys.insert(key());
            return Err(format!("no active column has this index (replicate={})", reading.replicate));
        }
        if !reading.value.is_finite() {
            protected.keys.insert(key());
            return Err(format!("the number is not finite ({})", reading.value));
        }
        Ok(at)
    }

    fn changes(&self, shape: &RecordShape, changes: impl IntoIterator<Item = RecordChange>, admitted: &mut Admitted) {
        // By key: of two the later counts.
        let mut last: HashMap<Vec<String>, usize> = HashMap::new();
        let mut kept: Vec<Option<(Vec<String>, Option<Row>)>> = Vec::new();
        for change in changes {
            let judged = match change {
                RecordChange::Present(record) => self.record(shape, &record, &mut admitted.protected),
                RecordChange::Removed(key) => key_of(self.dialect, shape, &key)
                    .map(|(texts, _)| (texts, None))
                    .map_err(|why| format!("removed record {key:?}: {why}")),
            };
            match judged {
                Ok((key, row)) => {
                    if let Some(earlier) = last.insert(key.clone(), kept.len()) {
                        kept[earlier] = None;
                    }
                    kept.push(Some((key, row)));
                }
                Err(why) => admitted.refused.push(why),
            }
        }
        for (key, row) in kept.into_iter().flatten() {
            match row {
                Some(row) => admitted.rows.push(row),
                None => admitted.removed.push(key),
            }
        }
    }

    fn record(
        &self,
        shape: &RecordShape,
        record: &Record,
        protected: &mut Protected,
    ) -> Result<(Vec<String>, Option<Row>), String> {
        match record_row(self.dialect, shape, record) {
            Ok(row) => Ok((row.key.clone(), Some(row))),
            Err(why) => {
                self.protect(&RefusedRow::Under(record.key.clone()), protected);
                Err(format!("record {:?}: {why}", record.key))
            }
        }
    }
}

/// Fields of a page's records that are no columns yet, in order of name.
pub(crate) fn unknown_columns(shape: &RecordShape, payload: &Payload) -> Vec<String> {
    let mut names = BTreeSet::new();
    let mut see = |record: &Record| {
        for (name, value) in &record.fields {
            let is_known = shape.key.contains(name) || shape.columns.iter().any(|column| column.name == *name);
            if !is_known && !value.is_null() {
                names.insert(name.clone());
            }
        }
    };
    match payload {
        Payload::Records(changes) => changes.iter().for_each(|change| {
            if let RecordChange::Present(record) = change {
                see(record);
            }
        }),
        Payload::RecordSet(set) => set.records.iter().for_each(see),
        _ => {}
    }
    names.into_iter().collect()
}

/// The bounds of batches of about `size` rows: a run of equal instants is never split.
pub(crate) fn batches(instants: &[Timestamp], rows: usize, size: usize) -> Vec<std::ops::Range<usize>> {
    let mut bounds = Vec::new();
    let mut start = 0;
    while start < rows {
        let mut end = (start + size.max(1)).min(rows);
        while end < rows && instants.get(end).is_some_and(|at| instants.get(end - 1) == Some(at)) {
            end += 1;
        }
        bounds.push(start..end);
        start = end;
    }
    bounds
}

/// A digest of a complete payload's contents: the same in whatever order its rows came. Only what it claims to be complete about
/// is in it beside the rows; how many rows were read to make it is not.
pub(crate) fn digest(admitted: &Admitted) -> Option<String> {
    let scope = match admitted.complete.as_ref()? {
        Complete::Window { from, to } => format!("window {from} {to}"),
        Complete::Everything => "everything".to_owned(),
        Complete::Keys(_) => return None,
    };
    let of = |row: &Row| {
        let same = match &row.same {
            Same::Number(number) => format!("{:x}", (number + 0.0).to_bits()),
            Same::Text(text) => text.clone(),
        };
        digest_of(row.key.iter().map(String::as_str).chain([same.as_str()]).map(Some))
    };
    let mut rows: Vec<String> = admitted.rows.iter().map(of).collect();
    rows.sort_unstable();
    Some(digest_of([Some(scope.as_str())].into_iter().chain(rows.iter().map(|row| Some(row.as_str())))))
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
