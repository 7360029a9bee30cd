//! One occurrence of a table in a query: a sub-select that shows the columns used, and the author's SQL worked out where
//! only this table's columns can be seen.

use std::collections::BTreeSet;

use millstream_core::schema::Sql;
use millstream_core::{Catalog, ColumnInfo, Result, SourceError, TableInfo};
use millstream_model::{QualifiedTable, Text};
use millstream_postgres::quote;

use super::group::{Group, Rows};

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
    /// How its rows can be listed for a range of roots.
    pub rows: Rows,
    /// True where joins may follow it: every row of it is shown, and its `from` is followed by its [`tail`](Self::tail).
    joinable: bool,
    /// Single rows of other tables that it is joined to.
    joins: String,
    /// Grouped rows of other tables that it is joined to.
    pub groups: Vec<Group<'a>>,
}

/// A column as an expression, and what the catalog knows of it.
pub(super) struct Column<'a> {
    pub sql: String,
    pub info: &'a ColumnInfo,
}

impl<'a> Scope<'a> {
    pub fn new(catalog: &'a Catalog, table: &'a QualifiedTable, alias: String, at: &str) -> Result<Self> {
        let info = catalog.table(table).ok_or_else(|| {
            let at = if at.is_empty() { String::new() } else { format!(" at {at}") };
            SourceError::unknown_column(format!("there is no such table{at} (table={table})"))
        })?;
        let at = at.to_owned();
        Ok(Self {
            table,
            info,
            at,
            alias,
            columns: BTreeSet::new(),
            fragments: Vec::new(),
            filters: Vec::new(),
            rows: Rows::Unknown,
            joinable: false,
            joins: String::new(),
            groups: Vec::new(),
        })
    }

    pub fn info(&self) -> &'a TableInfo {
        self.info
    }

    pub fn table(&self) -> &'a QualifiedTable {
        self.table
    }

    /// A column as the inside of the sub-select names it.
    pub fn own(&self, name: &str) -> String {
        format!("{}.{}", quote::ident(self.table.table()), quote::ident(name))
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

    /// Only rows for which this holds: an expression over [`own`](Self::own) columns.
    pub fn condition(&mut self, sql: String) {
        self.filters.push(sql);
    }

    /// The sub-select, once every column and fragment that the query uses has been asked for.
    pub fn from(&self) -> String {
        if self.filters.is_empty() && self.fragments.is_empty() {
            return format!("{} as {}", quote::table(self.table), self.alias);
        }
        format!("(select {} {}) as {}", self.list(), self.rows_from(), self.alias)
    }

    /// The sub-select of those rows that are tied to what stands before it; `end` closes it.
    ///
    /// With a fence (`offset 0`, or a limit) at its end the server looks rows up, however many it thinks that there are.
    pub fn lateral(&self, ties: &[String], end: &str) -> String {
        let holds = self.filters.iter().chain(ties).map(String::as_str).collect::<Vec<_>>().join(" and ");
        let (table, own) = (quote::table(self.table), quote::ident(self.table.table()));
        format!("(select {} from {table} as {own} where {holds}{end}) as {}", self.list(), self.alias)
    }

    /// `from … where …` as the inside of the sub-select has it.
    pub fn rows_from(&self) -> String {
        let own = quote::ident(self.table.table());
        let filter =
            if self.filters.is_empty() { String::new() } else { format!(" where {}", self.filters.join(" and ")) };
        format!("from {} as {own}{filter}", quote::table(self.table))
    }

    /// Lets joins follow.
    pub fn make_joinable(&mut self) {
        self.joinable = true;
    }

    pub fn is_joinable(&self) -> bool {
        self.joinable
    }

    /// Joins single rows of another table.
    pub fn join(&mut self, join: &str) {
        self.joins.push_str(join);
    }

    /// What it is joined to, once all has been asked for.
    pub fn tail(&self) -> String {
        let groups = self.groups.iter().map(Group::join).collect::<String>();
        format!("{}{groups}", self.joins)
    }

    fn list(&self) -> String {
        let columns = self.columns.iter().map(|column| self.own(column));
        let fragments = self.fragments.iter().enumerate();
        let fragments =
            fragments.map(|(at, sql)| format!("{} as {}", bracket(sql), quote::ident(&self.fragment_name(at))));
        columns.chain(fragments).collect::<Vec<_>>().join(", ")
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
