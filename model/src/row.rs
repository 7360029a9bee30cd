use smallvec::SmallVec;

use crate::{Fence, KeyColumns, QualifiedTable, RowKey, Text};

/// What happened to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Inserted or updated: the row is there once its transaction is visible.
    Upsert,
    /// Deleted: the row is gone once its transaction is visible.
    Delete,
    /// Every row of the table is gone. The key is empty.
    Truncate,
}

/// What the log said of one link column.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LinkValue {
    /// The log did not carry the column: it tells nothing, and least of all NULL.
    Absent,
    /// NULL: it links to no row.
    Null,
    /// The value's output text.
    Text(Text),
}

/// The link columns of one row at one moment, in the order that the source's spec lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkValues {
    columns: KeyColumns,
    values: SmallVec<[LinkValue; 2]>,
}

impl LinkValues {
    /// Pairs each link column with what the log said of it.
    ///
    /// # Panics
    /// When there are not as many values as columns.
    pub fn new(columns: KeyColumns, values: impl IntoIterator<Item = LinkValue>) -> Self {
        let values: SmallVec<[LinkValue; 2]> = values.into_iter().collect();
        assert_eq!(columns.len(), values.len(), "links have one value a column");
        Self { columns, values }
    }

    /// What the log said of a column; [`LinkValue::Absent`] for one that is not among them.
    pub fn get(&self, column: &str) -> &LinkValue {
        static ABSENT: LinkValue = LinkValue::Absent;
        self.columns.iter().position(|name| name == column).map_or(&ABSENT, |at| &self.values[at])
    }
}

/// One row that changed: which, how, and what its links were. Never its contents.
#[derive(Clone, Debug, PartialEq)]
pub struct ChangedRow {
    /// The table, a partition's root in place of its leaf.
    pub table: QualifiedTable,
    /// The row's key after the change (before it, for a delete). Empty for a truncate.
    pub key: RowKey,
    /// What happened.
    pub operation: Operation,
    /// The key before the change, where it differs from `key`.
    pub old_key: Option<RowKey>,
    /// Link values before the change. `None`: there was no row before (an insert), or none of them changed.
    pub before: Option<LinkValues>,
    /// Link values after the change. `None`: there is no row after it (a delete, a truncate).
    pub after: Option<LinkValues>,
    /// What a read must be able to see before it counts for this change.
    pub fence: Fence,
}

impl ChangedRow {
    /// A change of one row that carries no links: what most tests and sources without links need.
    pub fn new(table: QualifiedTable, key: RowKey, operation: Operation, fence: Fence) -> Self {
        Self { table, key, operation, old_key: None, before: None, after: None, fence }
    }

    /// Bytes held, for budgets.
    pub fn size(&self) -> usize {
        size_of::<Self>() + self.key.size() + self.old_key.as_ref().map_or(0, RowKey::size)
    }
}
