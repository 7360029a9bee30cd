//! What a table of the store looks like to whoever lands rows in it.

use millstream_core::Result;
use millstream_model::QualifiedTable;

use super::Store;
use super::compare::StoredRow;
use super::dialect::{Dialect, ident, idents};
use super::sql::{SqlRow, Value};
use crate::model::{ColumnType, RecordShape, StreamKey, Timestamp};

/// The driver's own column in a table of records: a digest of the row's contents.
pub(crate) const DIGEST: &str = "millstream_digest";

/// A table and how its rows are told apart and compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableShape {
    pub table: QualifiedTable,
    pub key: Vec<(String, ColumnType)>,
    /// All other columns, the one that is compared among them.
    pub columns: Vec<(String, ColumnType)>,
    /// The column by which two rows of one key are compared.
    pub compared: &'static str,
    /// The place in the key of the replicate column.
    pub replicate: Option<usize>,
    /// The first column of the key and its text, where one table holds the rows of many streams.
    pub owner: Option<String>,
}

/// What is compared of two rows with one key.
#[derive(Clone, Debug)]
pub(crate) enum Same {
    Number(f64),
    Text(String),
}

impl PartialEq for Same {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            // A minus zero is a zero: SQLite keeps no sign of it.
            (Self::Number(one), Self::Number(other)) => one == other,
            (Self::Text(one), Self::Text(other)) => one == other,
            _ => false,
        }
    }
}

/// A row to land.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The texts that the key's columns have once they are stored.
    pub key: Vec<String>,
    pub key_values: Vec<Value>,
    /// In the order of the shape's columns.
    pub values: Vec<Value>,
    pub same: Same,
}

/// A reading as a row.
pub(crate) fn reading_row(dialect: Dialect, stream: &StreamKey, at: Timestamp, replicate: u32, value: f64) -> Row {
    Row {
        key: vec![stream.to_string(), dialect.instant(at), replicate.to_string()],
        key_values: vec![stream.as_str().into(), at.to_string().into(), i64::from(replicate).into()],
        values: vec![Value::Real(Some(value))],
        same: Same::Number(value),
    }
}

impl Store {
    /// The readings of one stream.
    pub(crate) fn readings_shape(&self, stream: &StreamKey) -> TableShape {
        TableShape {
            table: self.table("readings"),
            key: vec![
                ("stream".to_owned(), ColumnType::Text),
                ("instant".to_owned(), ColumnType::Timestamp),
                ("replicate".to_owned(), ColumnType::Integer),
            ],
            columns: vec![("value".to_owned(), ColumnType::Double)],
            compared: "value",
            replicate: Some(2),
            owner: Some(stream.to_string()),
        }
    }

    /// The table of a stream of records.
    pub(crate) fn records_shape(&self, stream: &StreamKey, shape: &RecordShape) -> TableShape {
        let key: Vec<_> = shape.key.iter().map(|name| (name.clone(), shape.kind(name))).collect();
        let others = shape.columns.iter().filter(|column| !shape.key.contains(&column.name));
        let mut columns: Vec<_> = others.map(|column| (column.name.clone(), column.kind)).collect();
        columns.push((DIGEST.to_owned(), ColumnType::Text));
        TableShape { table: self.table(stream.as_str()), key, columns, compared: DIGEST, replicate: None, owner: None }
    }
}

impl TableShape {
    /// The table's name in SQL: its schema is on the search path.
    pub(crate) fn name(&self) -> String {
        ident(self.table.table())
    }

    /// True when it has such a column.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.key.iter().chain(&self.columns).any(|(name, _)| name == column)
    }

    pub(crate) fn key_list(&self) -> String {
        idents(self.key.iter().map(|(name, _)| name.as_str()))
    }

    /// `select` of key texts, what is compared, and link texts, without its condition.
    pub(crate) fn select(&self, dialect: Dialect, links: &[String]) -> String {
        let mut columns: Vec<String> = self.key.iter().map(|(name, _)| dialect.text_of(name)).collect();
        columns.push(ident(self.compared));
        columns.extend(links.iter().map(|link| dialect.text_of(link)));
        format!("select {} from {}", columns.join(", "), self.name())
    }

    /// A row of [`select`](Self::select).
    pub(crate) fn read(&self, row: &SqlRow, links: usize) -> Result<(Vec<String>, StoredRow)> {
        let width = self.key.len();
        let key = (0..width).map(|at| row.text(at)).collect::<Result<_>>()?;
        let same = match self.compared {
            DIGEST => Same::Text(row.text(width)?),
            _ if self.owner.is_some() && self.columns[0].1 == ColumnType::Double => Same::Number(row.real(width)?),
            _ => Same::Text(row.text(width)?),
        };
        let links = (0..links).map(|at| row.text_or_null(width + 1 + at)).collect::<Result<_>>()?;
        Ok((key, StoredRow { same, links }))
    }

    /// One row of parameters, casts included.
    pub(crate) fn tuple<'a>(
        dialect: Dialect,
        kinds: impl IntoIterator<Item = &'a (String, ColumnType)>,
        first: usize,
    ) -> String {
        let casts: Vec<String> =
            kinds.into_iter().enumerate().map(|(at, (_, kind))| dialect.cast(first + at, *kind)).collect();
        format!("({})", casts.join(", "))
    }

    /// As many tuples as fit into a statement, each of `width` parameters.
    pub(crate) fn rows_at_once(width: usize) -> usize {
        (Dialect::PARAMETERS / width.max(1)).clamp(1, 1000)
    }
}
