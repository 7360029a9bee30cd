use std::collections::{BTreeMap, BTreeSet};

use millstream_core::{Catalog, ColumnInfo, IndexInfo, Result, SourceError, TableInfo, TableKind};
use millstream_model::{QualifiedTable, Text};
use serde::Deserialize;
use sqlx::postgres::PgConnection;

use crate::classify;

/// What Postgres has of these tables, in one statement whatever their number. A table that is not there is left out; then
/// [`Catalog::others`] holds the tables that are, by a second statement.
///
/// Needs no right beyond that to connect: what the role may not read is told by [`ColumnInfo::readable`] and
/// [`TableInfo::row_security`]. Dropping the future is safe.
///
/// # Errors
/// When the server can't be asked.
pub async fn read_catalog(connection: &mut PgConnection, tables: &BTreeSet<QualifiedTable>) -> Result<Catalog> {
    let asked = tables;
    let schemas: Vec<&str> = tables.iter().map(QualifiedTable::schema).collect();
    let names: Vec<&str> = tables.iter().map(QualifiedTable::table).collect();
    let rows: Vec<(String, String, String)> = sqlx::query_as(include_str!("catalog.sql"))
        .bind(schemas)
        .bind(names)
        .fetch_all(&mut *connection)
        .await
        .map_err(|error| classify("can't read the catalog", error))?;
    let tables = rows.into_iter().map(|(schema, table, found)| {
        let found: Found = serde_json::from_str(&found)
            .map_err(|error| SourceError::decode(format!("the catalog has an unknown form: {error}")))?;
        Ok((QualifiedTable::new(schema, table), found.into_table()))
    });
    let tables = tables.collect::<Result<BTreeMap<_, _>>>()?;
    let others = if tables.len() < asked.len() { other_tables(connection).await? } else { BTreeSet::new() };
    Ok(Catalog { tables, others })
}

/// The users' own tables, at most as many as are worth a look for the one that was meant.
async fn other_tables(connection: &mut PgConnection) -> Result<BTreeSet<QualifiedTable>> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "select n.nspname::text, c.relname::text
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where c.relkind in ('r', 'p') and c.oid >= 16384 and n.nspname not like 'pg\\_%' limit 10000",
    )
    .fetch_all(connection)
    .await
    .map_err(|error| classify("can't read the catalog", error))?;
    Ok(rows.into_iter().map(|(schema, table)| QualifiedTable::new(schema, table)).collect())
}

/// Types of the server whose equal values have equal texts (under the pinned settings).
const ONE_TEXT: [&str; 14] = [
    "bool",
    "bytea",
    "date",
    "int2",
    "int4",
    "int8",
    "name",
    "oid",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "uuid",
    "varchar",
];

/// One table as the statement shows it.
#[derive(Deserialize)]
struct Found {
    relkind: String,
    persistence: String,
    system: bool,
    has_children: bool,
    row_security: bool,
    columns: Vec<FoundColumn>,
    indexes: Vec<FoundIndex>,
    holders: Vec<Holder>,
}

#[derive(Deserialize)]
struct FoundColumn {
    name: Text,
    native_type: String,
    base_type: String,
    of_server: bool,
    is_array: bool,
    is_enum: bool,
    nullable: bool,
    deterministic: bool,
    generated: bool,
    readable: bool,
}

#[derive(Deserialize)]
struct FoundIndex {
    name: String,
    columns: Vec<Option<Text>>,
    unique: bool,
    partial: bool,
    primary: bool,
}

/// A relation that stores rows: the table itself or a leaf of it.
#[derive(Deserialize)]
struct Holder {
    relkind: String,
    persistence: String,
    rows: i64,
    old_values: Option<Vec<Text>>,
}

impl Found {
    fn into_table(self) -> TableInfo {
        let kind = self.kind();
        let old_values = common_old_values(&self.holders);
        let estimated_rows = self.holders.iter().map(|holder| holder.rows).sum();
        let primary = self.indexes.iter().find(|index| index.primary);
        let primary_key = primary.map(FoundIndex::leading_columns).unwrap_or_default();
        let indexes = self.indexes.into_iter().map(|index| IndexInfo {
            columns: index.leading_columns(),
            name: index.name,
            unique: index.unique,
            partial: index.partial,
        });
        TableInfo {
            kind,
            primary_key,
            indexes: indexes.collect(),
            old_values,
            estimated_rows,
            row_security: self.row_security,
            columns: self.columns.into_iter().map(FoundColumn::into_column).collect(),
        }
    }

    fn kind(&self) -> TableKind {
        let unsupported = |what: &str| TableKind::Unsupported(what.to_owned());
        match (self.relkind.as_str(), self.persistence.as_str()) {
            ("v", _) => unsupported("a view"),
            ("m", _) => unsupported("a materialized view"),
            ("f", _) => unsupported("a foreign table"),
            ("r" | "p", _) if self.system => unsupported("a table of the server's own"),
            ("r" | "p", "t") => unsupported("a temporary table"),
            ("p", _) if self.holders.iter().any(|leaf| leaf.relkind == "f") => {
                unsupported("a partitioned table with a foreign table as a partition")
            }
            ("p", _) if self.holders.iter().any(|leaf| leaf.persistence == "u") => {
                unsupported("a partitioned table with an unlogged partition")
            }
            ("p", _) => TableKind::Partitioned,
            ("r", "u") => unsupported("an unlogged table"),
            ("r", _) if self.has_children => unsupported("an inheritance parent"),
            ("r", _) => TableKind::Table,
            _ => unsupported("not a table"),
        }
    }
}

impl FoundColumn {
    fn into_column(self) -> ColumnInfo {
        let one_text = self.is_enum || (self.of_server && ONE_TEXT.contains(&self.base_type.as_str()));
        ColumnInfo {
            one_text_per_value: one_text && self.deterministic && !self.is_array,
            name: self.name,
            native_type: self.native_type,
            base_type: self.base_type,
            is_array: self.is_array,
            is_enum: self.is_enum,
            nullable: self.nullable,
            generated: self.generated,
            readable: self.readable,
        }
    }
}

impl FoundIndex {
    /// Its columns up to the first expression.
    fn leading_columns(&self) -> Vec<Text> {
        self.columns.iter().map_while(Clone::clone).collect()
    }
}

/// What the old rows of every holder tell: each leaf is published with its own identity.
fn common_old_values(holders: &[Holder]) -> Option<Vec<Text>> {
    let mut told = holders.iter().filter_map(|holder| holder.old_values.as_ref());
    let first = told.next()?.clone();
    Some(told.fold(first, |mut common, columns| {
        common.retain(|column| columns.contains(column));
        common
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(old_values: Option<&[&str]>) -> Holder {
        let old_values = old_values.map(|columns| columns.iter().map(|column| Text::from(*column)).collect());
        Holder { relkind: "r".into(), persistence: "p".into(), rows: 0, old_values }
    }

    fn found(relkind: &str, persistence: &str) -> Found {
        Found {
            relkind: relkind.into(),
            persistence: persistence.into(),
            system: false,
            has_children: false,
            row_security: false,
            columns: Vec::new(),
            indexes: Vec::new(),
            holders: Vec::new(),
        }
    }

    fn refused(found: &Found) -> Option<String> {
        match found.kind() {
            TableKind::Unsupported(what) => Some(what),
            _ => None,
        }
    }

    #[test]
    fn old_values_are_what_every_leaf_tells() {
        assert_eq!(common_old_values(&[holder(None)]), None);
        assert_eq!(common_old_values(&[holder(None), holder(Some(&["b", "a"]))]), Some(vec!["b".into(), "a".into()]));
        assert_eq!(common_old_values(&[holder(Some(&["b", "a"])), holder(Some(&["a", "c"]))]), Some(vec!["a".into()]));
        assert_eq!(common_old_values(&[holder(None), holder(Some(&[]))]), Some(Vec::new()));
    }

    #[test]
    fn case_h9_what_tells_no_changes_is_refused_by_name() {
        assert_eq!(refused(&found("v", "p")).as_deref(), Some("a view"));
        assert_eq!(refused(&found("r", "u")).as_deref(), Some("an unlogged table"));
        assert_eq!(refused(&Found { has_children: true, ..found("r", "p") }).as_deref(), Some("an inheritance parent"));
        assert_eq!(refused(&found("r", "p")), None);
        assert_eq!(found("p", "p").kind(), TableKind::Partitioned);
        let foreign_leaf = Holder { relkind: "f".into(), ..holder(None) };
        assert!(refused(&Found { holders: vec![foreign_leaf], ..found("p", "p") }).is_some());
    }

    #[test]
    fn an_index_counts_up_to_its_first_expression() {
        let columns = vec![Some("a".into()), None, Some("b".into())];
        let index = FoundIndex { name: "i".into(), columns, unique: false, partial: false, primary: false };
        assert_eq!(index.leading_columns(), [Text::from("a")]);
    }
}
