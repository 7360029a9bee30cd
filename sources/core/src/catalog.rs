use std::collections::{BTreeMap, BTreeSet};

use millstream_model::{QualifiedTable, Text};

/// A source's view of its tables: what exists, with which columns, keys and indexes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    /// The tables that were asked for and exist.
    pub tables: BTreeMap<QualifiedTable, TableInfo>,
    /// Tables that were not asked for, to name the one that was meant; a source may leave it empty.
    pub others: BTreeSet<QualifiedTable>,
}

impl Catalog {
    /// What is known of one table.
    pub fn table(&self, table: &QualifiedTable) -> Option<&TableInfo> {
        self.tables.get(table)
    }
}

/// What sort of relation a table is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableKind {
    /// An ordinary table.
    #[default]
    Table,
    /// A table whose rows live in partitions.
    Partitioned,
    /// Something whose changes the source can't tell of: a view, a foreign or unlogged table, an inheritance parent. The
    /// text names it, with its article: `a view`.
    Unsupported(String),
}

/// One table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableInfo {
    /// What sort of relation it is.
    pub kind: TableKind,
    /// All columns, in the table's order.
    pub columns: Vec<ColumnInfo>,
    /// The primary key's columns in the key's order; empty without one.
    pub primary_key: Vec<Text>,
    /// Usable indexes, the primary key's among them.
    pub indexes: Vec<IndexInfo>,
    /// Columns whose old values the log carries with an update or delete; `None`: all of them.
    pub old_values: Option<Vec<Text>>,
    /// Rows, as the source estimates them; negative or zero when it does not know.
    pub estimated_rows: i64,
    /// True when the source hides some rows from the current role, or would if it were asked to.
    pub row_security: bool,
}

impl TableInfo {
    /// One column.
    pub fn column(&self, name: &str) -> Option<&ColumnInfo> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// True when an index starts with these columns, in any order among them.
    pub fn is_indexed(&self, columns: &[Text]) -> bool {
        self.indexes.iter().any(|index| {
            !index.partial
                && index.columns.len() >= columns.len()
                && index.columns[..columns.len()].iter().all(|column| columns.contains(column))
        })
    }
}

/// One column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ColumnInfo {
    /// Its name.
    pub name: Text,
    /// The type as the source writes it, with modifiers: `numeric(10,2)`, `character varying(20)[]`.
    pub native_type: String,
    /// The type without modifiers, domains resolved to their base: `numeric`, `varchar`; an array's is its element's.
    pub base_type: String,
    /// True for an array.
    pub is_array: bool,
    /// True for an enum.
    pub is_enum: bool,
    /// True when it may hold NULL.
    pub nullable: bool,
    /// True when equal values always have equal texts, so that a key's text finds the row (not so for numeric: 1.0 = 1.00).
    pub one_text_per_value: bool,
    /// True when it is computed from others: the log does not carry it.
    pub generated: bool,
    /// True when the current role may read it.
    pub readable: bool,
}

/// One index.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct IndexInfo {
    /// Its name.
    pub name: String,
    /// Its key columns in order; stops before the first expression.
    pub columns: Vec<Text>,
    /// True for a unique index.
    pub unique: bool,
    /// True when it covers only some rows.
    pub partial: bool,
}
