//! What a file's first line says, and what its other lines are by that.

use std::collections::{HashMap, HashSet};

use csv::ByteRecord;
use serde_json::{Map, Value};

use super::line::{Line, each_line};
use super::{CsvFolderSettings, CsvRows};
use crate::BackendError;
use crate::model::{
    ColumnType, Payload, Reading, ReadingWindow, Record, RecordChange, RecordKey, RecordSet, Refusal, RefusedRow,
    SourceInstant, StreamDescriptor, StreamKey, Timestamp,
};

/// A file's columns, and which of them mean something to us.
pub(super) struct Header {
    file: String,
    delimiter: u8,
    names: Vec<String>,
    kinds: Vec<ColumnType>,
    roles: Roles,
    /// The first byte behind it.
    pub(super) end: usize,
    /// Lines that it takes.
    pub(super) lines: u64,
}

/// Places of columns.
enum Roles {
    Records { key: Vec<usize> },
    Readings { time: usize, value: usize, replicate: Option<usize> },
}

/// What lines came to.
#[derive(Default)]
pub(super) struct Lines {
    records: Vec<Record>,
    readings: Vec<Reading>,
    pub(super) refused: Vec<Refusal>,
    /// The first byte behind what was taken.
    pub(super) end: usize,
    /// Lines of the text up to there.
    pub(super) lines: u64,
    /// Rows, refused ones among them.
    rows: u64,
}

/// What a stream is as long as its file can't be made sense of.
pub(super) fn bare(key: &StreamKey, settings: &CsvFolderSettings) -> StreamDescriptor {
    match &settings.rows {
        CsvRows::Records { key: columns } => typed(StreamDescriptor::records(key, columns), columns, settings),
        CsvRows::Readings { .. } => StreamDescriptor::readings(key),
    }
}

fn typed(descriptor: StreamDescriptor, names: &[String], settings: &CsvFolderSettings) -> StreamDescriptor {
    names.iter().fold(descriptor, |descriptor, name| descriptor.with_column(name, kind_of(name, settings)))
}

fn kind_of(name: &str, settings: &CsvFolderSettings) -> ColumnType {
    settings.columns.iter().find(|(column, _)| column == name).map_or(ColumnType::Text, |(_, kind)| *kind)
}

impl Header {
    /// Reads the first line of a text; what stands behind it may be cut off.
    pub(super) fn read(file: &str, text: &[u8], settings: &CsvFolderSettings) -> Result<Self, BackendError> {
        // Spreadsheets put a byte order mark in front of UTF-8.
        let mark = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let mut first = None;
        each_line(&text[mark..], settings.delimiter, |line| {
            first = Some((line.fields.clone(), line.end, line.last, line.is_finished));
            Ok::<_, BackendError>(false)
        })?;
        let Some((fields, end, lines, true)) = first else {
            return Err(BackendError::transient(format!("{file}: there is no whole first line yet")));
        };
        let names = texts(&fields).map_err(|why| BackendError::undecodable(format!("{file} line 1: {why}")))?;
        let names: Vec<String> = names.into_iter().map(|name| name.trim().to_owned()).collect();
        let mut seen = HashSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.as_str())) {
            return Err(BackendError::undecodable(format!(
                "{file} line 1: two columns have one name (column={twice})"
            )));
        }
        if names.iter().any(String::is_empty) {
            return Err(BackendError::undecodable(format!("{file} line 1: a column has no name")));
        }
        let place = |name: &String| {
            names.iter().position(|column| column == name).ok_or_else(|| {
                let there = names.join(", ");
                BackendError::undecodable(format!("{file} line 1: the column {name} is missing (columns={there})"))
            })
        };
        let roles = match &settings.rows {
            CsvRows::Records { key } => Roles::Records { key: key.iter().map(place).collect::<Result<_, _>>()? },
            CsvRows::Readings { time, value, replicate } => Roles::Readings {
                time: place(time)?,
                value: place(value)?,
                replicate: replicate.as_ref().map(place).transpose()?,
            },
        };
        let kinds = names.iter().map(|name| kind_of(name, settings)).collect();
        let (file, delimiter) = (file.to_owned(), settings.delimiter);
        Ok(Self { file, delimiter, names, kinds, roles, end: mark + end, lines })
    }

    /// The stream that such a file is, its replicates aside.
    pub(super) fn descriptor(&self, key: &StreamKey, settings: &CsvFolderSettings) -> StreamDescriptor {
        match &self.roles {
            Roles::Records { key: places } => {
                let columns = places.iter().map(|place| &self.names[*place]);
                typed(StreamDescriptor::records(key, columns), &self.names, settings)
            }
            Roles::Readings { .. } => bare(key, settings),
        }
    }

    /// True when a column names the replicates.
    pub(super) fn has_replicates(&self) -> bool {
        matches!(self.roles, Roles::Readings { replicate: Some(_), .. })
    }

    /// The replicates that a text's lines name, in the order in which they first do.
    pub(super) fn replicates(&self, text: &[u8]) -> Vec<String> {
        let Roles::Readings { replicate: Some(place), .. } = &self.roles else { return Vec::new() };
        let mut names: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        let _: Result<(), ()> = each_line(text, self.delimiter, |line| {
            if let Some(Ok(name)) = line.fields.get(*place).map(|name| std::str::from_utf8(name.trim_ascii()))
                && line.fields.len() == self.names.len()
                && seen.insert(name.to_owned())
            {
                names.push(name.to_owned());
            }
            Ok(true)
        });
        names
    }

    /// The lines of a text behind `before` lines. A last line that may not be whole is taken only if `is_whole`. Stops in front
    /// of a reading whose replicate has no index yet, unless `all` is asked for: there it is refused.
    pub(super) fn lines(
        &self,
        text: &[u8],
        before: u64,
        pins: &HashMap<String, u32>,
        is_whole: bool,
        all: bool,
    ) -> Lines {
        let mut taken = Lines::default();
        let _: Result<(), ()> = each_line(text, self.delimiter, |line| {
            if !line.is_finished && !is_whole {
                return Ok(false);
            }
            match self.row(line, before, pins) {
                Ok(Row::Record(record)) => taken.records.push(record),
                Ok(Row::Reading(reading)) => taken.readings.push(reading),
                Err(Wrong::NotPinned(_)) if !all => return Ok(false),
                Err(Wrong::NotPinned(refusal) | Wrong::Refused(refusal)) => taken.refused.push(refusal),
            }
            (taken.end, taken.lines) = (line.end, line.last);
            taken.rows += 1;
            Ok(true)
        });
        taken
    }

    fn row(&self, line: &Line, before: u64, pins: &HashMap<String, u32>) -> Result<Row, Wrong> {
        let place = |why: String| format!("{} line {}: {why}", self.file, before + line.number);
        let unknown = |why: String| Wrong::Refused(Refusal { row: RefusedRow::Unknown, reason: place(why) });
        let fields = texts(&line.fields).map_err(unknown)?;
        if fields.len() != self.names.len() {
            let why = format!("it has {} fields, not {}", fields.len(), self.names.len());
            return Err(unknown(why));
        }
        match &self.roles {
            Roles::Records { key } => {
                let key: RecordKey = key.iter().map(|place| fields[*place].to_owned()).collect();
                let named = self.names.iter().zip(&self.kinds).zip(&fields);
                let value = |((name, kind), text): ((&String, &ColumnType), &&str)| {
                    let is_null = text.is_empty() && *kind != ColumnType::Text;
                    (name.clone(), if is_null { Value::Null } else { Value::String((*text).to_owned()) })
                };
                Ok(Row::Record(Record { key, fields: named.map(value).collect::<Map<_, _>>() }))
            }
            Roles::Readings { time, value, replicate } => {
                let at = instant(fields[*time].trim());
                let refusal = |why: String| Refusal { row: RefusedRow::At(at.clone()), reason: place(why) };
                let text = fields[*value].trim();
                let number: f64 =
                    text.parse().map_err(|_| Wrong::Refused(refusal(format!("{:?} is no number", short(text)))))?;
                let index = match replicate {
                    None => 0,
                    Some(column) => {
                        let name = fields[*column].trim();
                        let why = || refusal(format!("the replicate {:?} has no index yet", short(name)));
                        *pins.get(name).ok_or_else(|| Wrong::NotPinned(why()))?
                    }
                };
                Ok(Row::Reading(Reading { at, value: number, replicate: index }))
            }
        }
    }

    /// All that a file holds, as the whole truth.
    pub(super) fn everything(&self, mut lines: Lines) -> (Payload, Vec<Refusal>) {
        let payload = match self.roles {
            Roles::Records { .. } => {
                lines.refuse_twins(&self.file);
                Payload::RecordSet(RecordSet { records: lines.records, rows_read: lines.rows })
            }
            Roles::Readings { .. } => {
                let bound = |year| Timestamp::utc(year, 1, 1, 0, 0, 0).expect("a day of the calendar");
                let window = ReadingWindow::new(bound(1), bound(9999), lines.readings);
                Payload::ReadingWindow(ReadingWindow { rows_read: lines.rows, ..window })
            }
        };
        (payload, lines.refused)
    }

    /// What was read on.
    pub(super) fn some(&self, lines: Lines) -> (Payload, Vec<Refusal>) {
        let payload = match self.roles {
            Roles::Records { .. } => Payload::Records(lines.records.into_iter().map(RecordChange::from).collect()),
            Roles::Readings { .. } => Payload::Readings(lines.readings),
        };
        (payload, lines.refused)
    }
}

enum Row {
    Record(Record),
    Reading(Reading),
}

enum Wrong {
    /// Nobody can make sense of it.
    Refused(Refusal),
    /// It can be made sense of once its replicate has an index.
    NotPinned(Refusal),
}

impl Lines {
    /// Nobody knows which of two lines with one key is true: the stored record is left as it is.
    fn refuse_twins(&mut self, file: &str) {
        let mut counts: HashMap<&RecordKey, u32> = HashMap::new();
        for record in &self.records {
            *counts.entry(&record.key).or_default() += 1;
        }
        let twins: HashSet<RecordKey> =
            counts.into_iter().filter(|(_, count)| *count > 1).map(|(key, _)| key.clone()).collect();
        self.records.retain(|record| !twins.contains(&record.key));
        let refusal = |key: RecordKey| {
            let reason = format!("{file}: several lines have one key (key={})", short(&key.join(":")));
            Refusal { row: RefusedRow::Under(key), reason }
        };
        self.refused.extend(twins.into_iter().map(refusal));
    }
}

fn texts(fields: &ByteRecord) -> Result<Vec<&str>, String> {
    let text = |(at, field)| std::str::from_utf8(field).map_err(|_| format!("field {} is not UTF-8", at + 1));
    fields.iter().enumerate().map(text).collect()
}

/// Numbers are seconds, anything else is left to the driver.
fn instant(text: &str) -> SourceInstant {
    text.parse().map_or_else(|_| SourceInstant::Text(text.to_owned()), SourceInstant::Seconds)
}

fn short(text: &str) -> String {
    text.chars().take(60).collect()
}
