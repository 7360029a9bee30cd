//! One occurrence of a table in a query: a sub-select that shows the columns used, and the author's SQL worked out where
//! only this table's columns can be seen.

use std::collections::BTreeSet;

use millstream_core::schema::Sql;
use millstream_core::{Catalog, ColumnInfo, Result, SourceError, TableInfo};
use millstream_model::{QualifiedTable, Text};

use super::path::Term;
use super::types::has_exact_text;
use super::{decimal, quote};

/// A table in a `FROM`, under an alias of its own.
pub(super) struct Scope<'a> {
    table: &'a QualifiedTable,
    info: &'a TableInfo,
    /// Where in the schema it stands, for errors.
    at: String,
    alias: String,
    columns: BTreeSet<Text>,
    fragments: Vec<&'a str>,
    filters: Vec<String>,
}

/// A column as an expression, and what the catalog knows of it.
pub(super) struct Column<'a> {
    pub sql: String,
    pub info: &'a ColumnInfo,
}

impl Column<'_> {
    /// What orders rows by it.
    pub fn terms(&self, descending: bool) -> Vec<Term> {
        if self.is_decimal_text() {
            return decimal::terms(&self.sql, descending);
        }
        vec![Term { sql: self.sql.clone(), descending }]
    }

    /// True for a decimal that is kept as a text.
    pub fn is_decimal_text(&self) -> bool {
        self.info.base_type == "numeric" && has_exact_text(self.info)
    }
}

impl<'a> Scope<'a> {
    pub fn new(catalog: &'a Catalog, table: &'a QualifiedTable, alias: String, at: &str) -> Result<Self> {
        let info = catalog.table(table).ok_or_else(|| {
            let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
            SourceError::unknown_column(format!("there is no such table{at} (table={table})"))
        })?;
        let at = at.to_owned();
        Ok(Self { table, info, at, alias, columns: BTreeSet::new(), fragments: Vec::new(), filters: Vec::new() })
    }

    pub fn info(&self) -> &'a TableInfo {
        self.info
    }

    /// A column of this table.
    pub fn column(&mut self, name: &str) -> Result<Column<'a>> {
        let info = self.info.column(name).ok_or_else(|| {
            let at = if self.at.is_empty() { String::new() } else { format!(" at {}", self.at) };
            SourceError::unknown_column(format!("there is no such column{at} (table={}, column={name})", self.table))
        })?;
        self.columns.insert(info.name.clone());
        Ok(Column { sql: format!("{}.{}", self.alias, quote::ident(name)), info })
    }

    /// The author's expression over this table's row.
    pub fn fragment(&mut self, sql: &'a Sql) -> String {
        let known = self.fragments.iter().position(|known| *known == sql.0);
        let number = known.unwrap_or_else(|| {
            self.fragments.push(&sql.0);
            self.fragments.len() - 1
        });
        format!("{}.{}", self.alias, quote::ident(&self.fragment_name(number)))
    }

    /// Only rows for which the author's condition holds.
    pub fn filter(&mut self, sql: Option<&Sql>) {
        self.filters.extend(sql.map(|sql| bracket(&sql.0)));
    }

    /// Only rows for which the author's condition does not hold, be it false or NULL.
    pub fn filter_out(&mut self, sql: Option<&Sql>) {
        self.filters.extend(sql.map(|sql| format!("{} is not true", bracket(&sql.0))));
    }

    /// The sub-select, once every column and fragment that the query uses has been asked for.
    pub fn from(&self) -> String {
        let own = quote::ident(self.table.table());
        let columns = self.columns.iter().map(|column| format!("{own}.{}", quote::ident(column)));
        let fragments = self.fragments.iter().enumerate();
        let fragments =
            fragments.map(|(at, sql)| format!("{} as {}", bracket(sql), quote::ident(&self.fragment_name(at))));
        let list = columns.chain(fragments).collect::<Vec<_>>().join(", ");
        if self.filters.is_empty() && self.fragments.is_empty() {
            return format!("main.{own} as {}", self.alias);
        }
        let filter =
            if self.filters.is_empty() { String::new() } else { format!(" where {}", self.filters.join(" and ")) };
        format!("(select {list} from main.{own} as {own}{filter}) as {}", self.alias)
    }

    /// A name that no column of the table has.
    fn fragment_name(&self, number: usize) -> String {
        let mut name = format!("sql {number}");
        while self.info.column(&name).is_some() {
            name.push('_');
        }
        name
    }
}

/// The author's SQL in brackets; it may end in a comment, so they close on a line of their own.
fn bracket(sql: &str) -> String {
    format!("({sql}\n)")
}
