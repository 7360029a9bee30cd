use std::fmt;
use std::sync::Arc;

use serde::Serialize;

/// A table's schema and name, kept apart because either may hold dots.
///
/// Ordered by schema, then table. Cloning copies two pointers.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct QualifiedTable {
    schema: Arc<str>,
    table: Arc<str>,
}

impl QualifiedTable {
    /// Names a table by its schema and its own name, both as the database spells them (no quotes).
    pub fn new(schema: impl AsRef<str>, table: impl AsRef<str>) -> Self {
        Self { schema: schema.as_ref().into(), table: table.as_ref().into() }
    }

    /// The schema's name, unquoted.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// The table's own name, unquoted.
    pub fn table(&self) -> &str {
        &self.table
    }
}

/// For people: `schema.table`, unquoted. Never put it into SQL.
impl fmt::Display for QualifiedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.schema, self.table)
    }
}

impl fmt::Debug for QualifiedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
