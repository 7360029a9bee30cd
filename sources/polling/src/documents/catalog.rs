//! The store's tables as SQLite describes them.

use std::collections::BTreeSet;

use millstream_core::{Catalog, ColumnInfo, IndexInfo, Result, TableInfo, TableKind};
use millstream_model::{QualifiedTable, Text};
use sqlx::sqlite::SqliteConnection;

use super::error::classify;
use super::types::{UNDECLARED, base_type, has_exact_text, native_type};

/// The schema in which the tables of an embedded store are known.
const SCHEMA: &str = "public";

const DOING: &str = "the store's tables can't be looked at";

const TABLES: &str = "select l.name, l.type, coalesce(m.sql, '') from pragma_table_list as l \
                      join sqlite_schema as m on m.name = l.name and m.type in ('table', 'view') \
                      where l.schema = 'main' and l.name not like 'sqlite\\_%' escape '\\'";

/// Hidden columns are those of virtual tables (1) and generated ones (2, 3).
const COLUMNS: &str = "select t.value, c.name, c.type, c.\"notnull\", c.pk, c.hidden \
                       from json_each(?) as t cross join pragma_table_xinfo(t.value, 'main') as c order by t.key, c.cid";

const INDEXES: &str = "select t.value, i.name, i.\"unique\", i.partial, x.name \
                       from json_each(?) as t cross join pragma_index_list(t.value, 'main') as i \
                       cross join pragma_index_xinfo(i.name, 'main') as x \
                       where x.key = 1 order by t.key, i.seq, x.seqno";

/// Reads what there is of these tables, in three statements.
pub(super) async fn read_catalog(
    connection: &mut SqliteConnection,
    wanted: &BTreeSet<QualifiedTable>,
) -> Result<Catalog> {
    let found: Vec<(String, String, String)> =
        sqlx::query_as(TABLES).fetch_all(&mut *connection).await.map_err(|error| classify(DOING, error))?;
    let mut catalog = Catalog::default();
    let mut collated = BTreeSet::new();
    for (name, kind, sql) in found {
        let table = QualifiedTable::new(SCHEMA, &name);
        if !wanted.contains(&table) {
            catalog.others.insert(table);
            continue;
        }
        if sql.to_lowercase().contains("collate") {
            collated.insert(table.clone());
        }
        let info = TableInfo { kind: kind_of(&name, &kind), estimated_rows: -1, ..TableInfo::default() };
        catalog.tables.insert(table, info);
    }
    let names: Vec<&str> = catalog.tables.keys().map(QualifiedTable::table).collect();
    let names = serde_json::Value::from(names).to_string();
    add_columns(connection, &names, &mut catalog, &collated).await?;
    add_indexes(connection, &names, &mut catalog).await?;
    Ok(catalog)
}

fn kind_of(name: &str, kind: &str) -> TableKind {
    match kind {
        _ if name.starts_with("millstream_") => TableKind::Unsupported("a table of the driver's own".to_owned()),
        "table" => TableKind::Table,
        "view" => TableKind::Unsupported("a view".to_owned()),
        other => TableKind::Unsupported(format!("a {other} table")),
    }
}

async fn add_columns(
    connection: &mut SqliteConnection,
    names: &str,
    catalog: &mut Catalog,
    collated: &BTreeSet<QualifiedTable>,
) -> Result<()> {
    let found: Vec<(String, String, String, bool, i64, i64)> = sqlx::query_as(COLUMNS)
        .bind(names)
        .fetch_all(&mut *connection)
        .await
        .map_err(|error| classify(DOING, error))?;
    let mut keys: Vec<(QualifiedTable, i64, Text)> = Vec::new();
    for (table, name, declared, not_null, place, hidden) in found {
        let table = QualifiedTable::new(SCHEMA, table);
        let Some(info) = catalog.tables.get_mut(&table).filter(|_| hidden != 1) else { continue };
        let base = base_type(&declared);
        let mut column = ColumnInfo {
            name: Text::from(&name),
            native_type: native_type(&declared, base),
            base_type: base.unwrap_or(UNDECLARED).to_owned(),
            nullable: !not_null && place == 0,
            generated: hidden != 0,
            readable: true,
            ..ColumnInfo::default()
        };
        // Under a collation of the table's own, different texts may be equal.
        column.one_text_per_value = has_exact_text(&column) && !collated.contains(&table);
        info.columns.push(column);
        if place > 0 {
            keys.push((table, place, Text::from(name)));
        }
    }
    keys.sort();
    for (table, _, name) in keys {
        if let Some(info) = catalog.tables.get_mut(&table) {
            info.primary_key.push(name);
        }
    }
    Ok(())
}

async fn add_indexes(connection: &mut SqliteConnection, names: &str, catalog: &mut Catalog) -> Result<()> {
    let found: Vec<(String, String, bool, bool, Option<String>)> = sqlx::query_as(INDEXES)
        .bind(names)
        .fetch_all(&mut *connection)
        .await
        .map_err(|error| classify(DOING, error))?;
    let mut at_expression = BTreeSet::new();
    for (table, name, unique, partial, column) in found {
        let Some(info) = catalog.tables.get_mut(&QualifiedTable::new(SCHEMA, &table)) else { continue };
        if info.indexes.last().is_none_or(|last| last.name != name) {
            info.indexes.push(IndexInfo { name: name.clone(), columns: Vec::new(), unique, partial });
        }
        let Some(index) = info.indexes.last_mut() else { continue };
        match column {
            Some(column) if !at_expression.contains(&name) => index.columns.push(Text::from(column)),
            _ => {
                // A unique index that goes on with an expression says nothing of its first columns alone.
                index.unique = false;
                at_expression.insert(name);
            }
        }
    }
    for info in catalog.tables.values_mut() {
        // A table of rows by number has no index of its key: it is one.
        if !info.primary_key.is_empty() && !info.is_indexed(&info.primary_key) {
            let columns = info.primary_key.clone();
            info.indexes.push(IndexInfo { name: "primary key".to_owned(), columns, unique: true, partial: false });
        }
    }
    Ok(())
}
