//! Holds the schemas of a spec against what a source really has.
//!
//! `fields` walks a schema beside the catalog; `links` looks at the columns that tie tables together; `types` knows which
//! native types each stated type accepts. Pure: nothing is asked of the source.

mod fields;
mod links;
#[cfg(test)]
mod tests;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use millstream_model::{QualifiedTable, Text};

use crate::nearest::nearest;
use crate::{Catalog, ColumnInfo, Diagnostic, IndexSpec, SourceSpec, TableInfo, TableKind};

/// Checks every index of a spec against a catalog. Empty: all agrees.
///
/// Codes: `schema` (can't be right whatever the source holds), `missing-table`, `missing-column`, `unsupported-table`,
/// `no-primary-key`, `key`, `type`, `array`, `nullable`, `unreadable`, `row-security`, `join-types`, `generated-column`,
/// `identity` (an old row does not tell enough), `unindexed-link`. `nullable` and `unindexed-link` are warnings, and `type`
/// for aggregates; `row-security` is an error that a caller may choose to accept. A finding that a statement mends names its
/// table and columns: whoever speaks the source's language can put the statement in place of the remedy.
pub fn validate_indexes(spec: &SourceSpec, catalog: &Catalog) -> Vec<Diagnostic> {
    spec.indexes().flat_map(|index| Validator::new(index, catalog).run()).collect()
}

struct Validator<'a> {
    index: &'a IndexSpec,
    catalog: &'a Catalog,
    found: Vec<Diagnostic>,
    /// What has been said of a table's columns, so that it is said once.
    said: BTreeSet<(&'static str, QualifiedTable, Vec<Text>)>,
    /// Columns whose old values a change of the table must tell, and where in the schema that shows first.
    links: BTreeMap<QualifiedTable, (String, BTreeSet<Text>)>,
}

impl<'a> Validator<'a> {
    fn new(index: &'a IndexSpec, catalog: &'a Catalog) -> Self {
        Self { index, catalog, found: Vec::new(), said: BTreeSet::new(), links: BTreeMap::new() }
    }

    fn run(mut self) -> Vec<Diagnostic> {
        for fault in self.index.schema.check() {
            self.error("schema", fault.path, fault.message, fault.remedy);
        }
        self.tables();
        self.key();
        self.fields(&self.index.schema.table, "fields", &self.index.schema.fields);
        self.identities();
        self.found
    }

    fn error(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> &mut Diagnostic {
        self.say(Diagnostic::error(code, &self.index.name, path, message, remedy))
    }

    fn warning(
        &mut self,
        code: &'static str,
        path: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> &mut Diagnostic {
        self.say(Diagnostic::warning(code, &self.index.name, path, message, remedy))
    }

    fn say(&mut self, diagnostic: Diagnostic) -> &mut Diagnostic {
        self.found.push(diagnostic);
        self.found.last_mut().expect("one was pushed just now")
    }

    /// False when this was said of these columns before.
    fn first_time(&mut self, code: &'static str, table: &QualifiedTable, columns: &[Text]) -> bool {
        self.said.insert((code, table.clone(), columns.to_vec()))
    }

    /// What is known of a table; `None` for one that `tables` has refused.
    fn table(&self, table: &QualifiedTable) -> Option<&'a TableInfo> {
        self.catalog.table(table).filter(|info| !matches!(info.kind, TableKind::Unsupported(_)))
    }

    /// Each table once, where it shows first.
    fn tables(&mut self) {
        let mut seen = BTreeSet::new();
        for node in self.index.tree.nodes() {
            if seen.insert(&node.table) {
                let path = if node.parent.is_none() { "table" } else { node.path.as_str() };
                self.one_table(&node.table, path);
            }
        }
    }

    fn one_table(&mut self, table: &QualifiedTable, path: &str) {
        let Some(info) = self.catalog.table(table) else {
            let remedy = self.meant(table);
            self.error("missing-table", path, format!("there is no table {table}"), remedy).table = Some(table.clone());
            return;
        };
        if let TableKind::Unsupported(what) = &info.kind {
            let message = format!("{table} is {what}: its changes are not told");
            self.error("unsupported-table", path, message, "name the table that holds the rows").table =
                Some(table.clone());
            return;
        }
        if info.primary_key.is_empty() {
            let message = format!("{table} has no primary key: its rows can't be told apart");
            self.error("no-primary-key", path, message, "give it a primary key").table = Some(table.clone());
        }
        if info.row_security {
            let message = format!("row-level security hides rows of {table} from this role");
            let remedy = "use a role that row-level security passes by, or accept what is hidden in the settings";
            self.error("row-security", path, message, remedy).table = Some(table.clone());
        }
        for column in &info.primary_key {
            self.column(table, path, column);
            if info.column(column).is_some_and(|column| column.generated) {
                let message = format!("{table}'s key column `{column}` is generated: the log does not carry it");
                self.error("generated-column", path, message, "give it a primary key of ordinary columns").table =
                    Some(table.clone());
            }
        }
    }

    /// The table that was meant, if one is like it.
    fn meant(&self, table: &QualifiedTable) -> String {
        let others = || self.catalog.tables.keys().chain(&self.catalog.others);
        let elsewhere = others().find(|other| other.table() == table.table());
        let alike = || {
            let here = others().filter(|other| other.schema() == table.schema());
            nearest(table.table(), here.map(QualifiedTable::table))
                .map(|name| QualifiedTable::new(table.schema(), name))
        };
        match elsewhere.cloned().or_else(alike) {
            Some(meant) => format!("write `{meant}`"),
            None => "create it, or name another".to_owned(),
        }
    }

    fn key(&mut self) {
        let schema = &self.index.schema;
        let (Some(key), Some(info)) = (&schema.key, self.table(&schema.table)) else { return };
        let stated: BTreeSet<&Text> = key.iter().collect();
        let primary: BTreeSet<&Text> = info.primary_key.iter().collect();
        if stated != primary && !info.primary_key.is_empty() {
            let message = format!("`key` names other columns than the primary key of {}", schema.table);
            let remedy = format!("write `key: [{}]` in the order you like, or leave it out", list(&info.primary_key));
            self.error("key", "key", message, remedy);
        }
    }

    /// A column, after what is wrong with naming it has been said.
    fn column(&mut self, table: &QualifiedTable, path: &str, name: &Text) -> Option<&'a ColumnInfo> {
        let info = self.table(table)?;
        let Some(column) = info.column(name) else {
            let known = info.columns.iter().map(|column| column.name.as_str());
            let remedy = match nearest(name, known) {
                Some(meant) => format!("write `{meant}`"),
                None => "add it, or name another".to_owned(),
            };
            let message = format!("{table} has no column `{name}`");
            let said = self.error("missing-column", path, message, remedy);
            *said = said.clone().about(table, [name.clone()]);
            return None;
        };
        let at = std::slice::from_ref(name);
        if !column.readable && self.first_time("unreadable", table, at) {
            let message = format!("this role may not read column `{name}` of {table}");
            let said = self.error("unreadable", path, message, "let the role read it");
            *said = said.clone().about(table, [name.clone()]);
        }
        Some(column)
    }
}

/// Names with commas between.
fn list(names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    names.into_iter().map(|name| name.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}
