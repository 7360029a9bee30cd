//! Which tables are read, and how their changes are found.

use std::time::Duration;

use millstream_model::Secret;

use crate::model::ColumnType;

/// A database and the tables of it that are streams.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SqlTableSettings {
    /// `postgres://…`, `mysql://…` (MariaDB too), or `sqlite:PATH`.
    pub url: Secret,
    /// The tables, each a stream.
    pub tables: Vec<TableSettings>,
    /// Rows of one page. Default 1000, at least 1. More: fewer queries; fewer: less memory.
    pub page_rows: usize,
    /// Rows that may be read in one piece: of a reconciled table, or keys of any. Default 1 000 000. More: larger tables; fewer:
    /// less memory.
    pub rows_max: usize,
}

/// One table, and how its changes are found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TableSettings {
    /// The stream's name: the table's name in the store.
    pub stream: String,
    /// The schema (MySQL: the database). `None`: `public`, MySQL's current database, SQLite's `main`.
    pub schema: Option<String>,
    /// The table or view.
    pub table: String,
    /// The columns by which a row is found; empty: the primary key. A unique index must back them, except in a view.
    pub key: Vec<String>,
    /// The only columns to read beside the key; `None`: all.
    pub only: Option<Vec<String>>,
    /// Types of columns, by name; those that are not named have the type that the database tells.
    pub columns: Vec<(String, ColumnType)>,
    /// How its changes are found.
    pub changes: TableChanges,
    /// SQL over the table's own columns: rows for which it is not true are gone.
    pub filter: Option<String>,
    /// A column that says whether a row is gone: it is true, another number than zero, or anything else but NULL.
    pub soft_delete: Option<String>,
    /// What moments without a zone mean, in minutes east of UTC. Default 0.
    pub zone_minutes: i32,
}

/// How the changes of a table are found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TableChanges {
    /// The whole table is read each time and held against what is stored: corrections and removals show by themselves.
    Reconciled,
    /// Rows are read in order of a column that grows with every change.
    Cursor {
        /// The column, and how it is read.
        cursor: CursorSettings,
        /// A table in which every removal leaves a row.
        delete_log: Option<Box<DeleteLog>>,
        /// How often all keys are compared, to find rows that are gone. `None`: only when everything is asked for.
        reconcile_keys: Option<Duration>,
    },
}

/// A column that grows with every change of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CursorSettings {
    /// The column. An index on it and the key's columns makes reading cheap.
    pub column: String,
    /// What its numbers count, where they are moments: since 1970 in UTC.
    pub unit: Option<CursorUnit>,
    /// A moment counts once the source's own clock is so far past it: who wrote it has committed by then. Default 5 s.
    pub settle: Duration,
    /// What is read again each time, for rows that were committed later than that. Default: nothing.
    pub look_back: LookBack,
    /// True: rows without a value there are read each time. False: they are left alone. Default true.
    pub nulls: bool,
    /// True: rows that are ahead of the source's clock are read each time until it gets there. False: not before. Default true.
    pub future: bool,
}

/// What a cursor's whole numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CursorUnit {
    /// Seconds since 1970.
    Seconds,
    /// Thousandths of a second since 1970.
    Millis,
    /// Millionths of a second since 1970.
    Micros,
}

/// How far behind the newest row of the last pass the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookBack {
    /// Right behind that row.
    Nothing,
    /// So long before, of a cursor of moments.
    Time(Duration),
    /// So many before, of a cursor of whole numbers.
    Numbers(u64),
}

/// A table in which every removal leaves a row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeleteLog {
    /// The schema; as [`TableSettings::schema`].
    pub schema: Option<String>,
    /// The table.
    pub table: String,
    /// Its columns that hold the key of the row that is gone, in the key's order; empty: they are named as the key's.
    pub key: Vec<String>,
    /// Its own cursor.
    pub cursor: CursorSettings,
}

impl SqlTableSettings {
    /// No table yet.
    pub fn new(url: Secret) -> Self {
        Self { url, tables: Vec::new(), page_rows: 1000, rows_max: 1_000_000 }
    }

    /// Adds a table.
    #[must_use]
    pub fn with_table(mut self, table: TableSettings) -> Self {
        self.tables.push(table);
        self
    }

    /// Says how many rows a page has.
    #[must_use]
    pub fn with_page_rows(mut self, rows: usize) -> Self {
        self.page_rows = rows;
        self
    }

    /// Says how many rows may be read in one piece.
    #[must_use]
    pub fn with_rows_max(mut self, rows: usize) -> Self {
        self.rows_max = rows;
        self
    }
}

impl TableSettings {
    /// A table that is read whole each time.
    pub fn reconciled(stream: impl Into<String>) -> Self {
        Self::new(stream.into(), TableChanges::Reconciled)
    }

    /// A table that is read in order of a column.
    pub fn cursor(stream: impl Into<String>, column: impl Into<String>) -> Self {
        Self::by(stream, CursorSettings::new(column))
    }

    /// The same, with all that is to be said of the column.
    pub fn by(stream: impl Into<String>, cursor: CursorSettings) -> Self {
        Self::new(stream.into(), TableChanges::Cursor { cursor, delete_log: None, reconcile_keys: None })
    }

    fn new(stream: String, changes: TableChanges) -> Self {
        Self {
            table: stream.clone(),
            stream,
            schema: None,
            key: Vec::new(),
            only: None,
            columns: Vec::new(),
            changes,
            filter: None,
            soft_delete: None,
            zone_minutes: 0,
        }
    }

    /// Changes any of them.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Names the table in which removals leave a row. Says nothing of a table that is read whole.
    #[must_use]
    pub fn with_delete_log(mut self, log: DeleteLog) -> Self {
        if let TableChanges::Cursor { delete_log, .. } = &mut self.changes {
            *delete_log = Some(Box::new(log));
        }
        self
    }

    /// Says how often all keys are compared. Says nothing of a table that is read whole.
    #[must_use]
    pub fn with_reconcile_keys(mut self, every: Duration) -> Self {
        if let TableChanges::Cursor { reconcile_keys, .. } = &mut self.changes {
            *reconcile_keys = Some(every);
        }
        self
    }
}

impl CursorSettings {
    /// A column with everything at its default.
    pub fn new(column: impl Into<String>) -> Self {
        let settle = Duration::from_secs(5);
        let column = column.into();
        Self { column, unit: None, settle, look_back: LookBack::Nothing, nulls: true, future: true }
    }

    /// Changes any of it.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

impl DeleteLog {
    /// A table whose key columns are named as those of the rows that are gone.
    pub fn new(table: impl Into<String>, cursor: CursorSettings) -> Self {
        Self { schema: None, table: table.into(), key: Vec::new(), cursor }
    }

    /// Names its key's columns.
    #[must_use]
    pub fn with_key(mut self, key: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.key = key.into_iter().map(Into::into).collect();
        self
    }
}
