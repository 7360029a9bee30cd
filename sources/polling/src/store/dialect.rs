//! Where the two databases differ, and the one quoting function.

use crate::model::{ColumnType, Timestamp};

/// Which database a store lives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Embedded, one file.
    Sqlite,
    /// A server.
    Postgres,
}

impl Dialect {
    /// The type of a column of records in a table's definition.
    pub(crate) fn type_name(self, kind: ColumnType) -> &'static str {
        match (self, kind) {
            (_, ColumnType::Text) => "text",
            (Self::Sqlite, ColumnType::Integer) => "integer",
            (Self::Sqlite, ColumnType::Decimal) => "decimal_text",
            (Self::Sqlite, ColumnType::Double) => "real",
            (Self::Sqlite, ColumnType::Boolean) => "boolean",
            (Self::Sqlite, ColumnType::Timestamp) => "timestamp_text",
            (Self::Sqlite, ColumnType::Date) => "date_text",
            (Self::Sqlite, ColumnType::Json) => "json_text",
            (Self::Postgres, ColumnType::Integer) => "bigint",
            (Self::Postgres, ColumnType::Decimal) => "numeric",
            (Self::Postgres, ColumnType::Double) => "double precision",
            (Self::Postgres, ColumnType::Boolean) => "boolean",
            (Self::Postgres, ColumnType::Timestamp) => "timestamptz",
            (Self::Postgres, ColumnType::Date) => "date",
            (Self::Postgres, ColumnType::Json) => "jsonb",
        }
    }

    /// A parameter as a value of a column's type. Whole numbers, floating-point numbers and truths travel as what they are,
    /// all else as text.
    pub(crate) fn cast(self, number: usize, kind: ColumnType) -> String {
        match (self, kind) {
            (Self::Postgres, ColumnType::Decimal | ColumnType::Timestamp | ColumnType::Date | ColumnType::Json) => {
                format!("${number}::text::{}", self.type_name(kind))
            }
            _ => format!("${number}"),
        }
    }

    /// The text that a column's output function gives: what keys and link values are spelled in. NULL stays NULL.
    pub(crate) fn text_of(self, column: &str) -> String {
        let column = ident(column);
        match self {
            Self::Sqlite => format!("cast({column} as text)"),
            Self::Postgres => format!("case when {column} is not null then format('%s', {column}) end"),
        }
    }

    /// A moment as the key columns of the store spell it.
    pub(crate) fn instant(self, at: Timestamp) -> String {
        match self {
            Self::Sqlite => at.to_string(),
            Self::Postgres => at.to_postgres(),
        }
    }

    /// A truth as a boolean column's output function spells it.
    pub(crate) fn boolean(self, value: bool) -> &'static str {
        match (self, value) {
            (Self::Sqlite, true) => "1",
            (Self::Sqlite, false) => "0",
            (Self::Postgres, true) => "t",
            (Self::Postgres, false) => "f",
        }
    }

    /// Parameters that one statement may have, with room to spare.
    pub(crate) const PARAMETERS: usize = 16_000;
}

/// A name as an SQL identifier, always in quotes.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Names as SQL identifiers, one after another.
pub(crate) fn idents<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(ident).collect::<Vec<_>>().join(", ")
}
