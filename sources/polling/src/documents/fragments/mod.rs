//! Whether the SQL pieces of a schema can be used: each alone over its own table, each changing with no event.
//!
//! `scan` reads a piece's words. Then SQLite itself tells what it thinks of the piece as an index's expression over a temporary
//! copy of the table with one row of NULLs: there it takes no other table's columns, no sub-query, no parameter, no aggregate,
//! and nothing that could give another value for the same row.

mod collect;
mod scan;

use std::collections::BTreeMap;

use millstream_core::{Catalog, Diagnostic, IndexSpec, Result, TableInfo};
use millstream_model::{IndexName, QualifiedTable};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::error::classify;
use super::quote::ident;
use collect::Fragment;

/// Checks `where`, `when`, `delete_when` and `sql` of an index. Codes: `sql` (can't be used at all), `sql-volatile` (changes with
/// no event); both are errors. Tables that the catalog does not have are passed over: validation names them.
///
/// # Errors
/// When the store can't be asked. The connection may then hold temporary tables: close it.
pub(super) async fn check_fragments(
    connection: &mut SqliteConnection,
    index: &IndexSpec,
    catalog: &Catalog,
) -> Result<Vec<Diagnostic>> {
    let mut found = Vec::new();
    let mut by_table: BTreeMap<QualifiedTable, Vec<Fragment>> = BTreeMap::new();
    for fragment in collect::fragments(index) {
        let Some(info) = catalog.table(&fragment.table) else { continue };
        match words(&fragment, info) {
            Some((message, remedy)) => {
                found.push(Diagnostic::error("sql", &index.name, &fragment.path, message, remedy));
            }
            None => by_table.entry(fragment.table.clone()).or_default().push(fragment),
        }
    }
    for (table, fragments) in by_table {
        let Some(info) = catalog.table(&table) else { continue };
        found.extend(judge(connection, &index.name, &table, info, &fragments).await?);
    }
    Ok(found)
}

/// What the words alone give away, and what mends it.
fn words(fragment: &Fragment, info: &TableInfo) -> Option<(String, String)> {
    let names = match scan::quoted_names(&fragment.sql) {
        Ok(names) => names,
        Err(flaw) => return Some((flaw.message(), "write one expression".to_owned())),
    };
    let is_known = |name: &String| info.columns.iter().any(|column| column.name.eq_ignore_ascii_case(name));
    let other = names.iter().find(|name| !is_known(name))?;
    let message = format!("{} has no column `{other}`, and SQLite would take the name for a text", fragment.table);
    Some((message, format!("name columns of {} in double quotes, and write texts in single ones", fragment.table)))
}

async fn judge(
    connection: &mut SqliteConnection,
    index: &IndexName,
    table: &QualifiedTable,
    info: &TableInfo,
    fragments: &[Fragment],
) -> Result<Vec<Diagnostic>> {
    let name = ident(table.table());
    let columns = info.columns.iter().map(|column| ident(&column.name)).collect::<Vec<_>>().join(", ");
    let doing = "the schema's SQL can't be checked";
    for sql in [
        format!("drop table if exists temp.{name}"),
        format!("create temporary table {name} ({columns})"),
        format!("insert into temp.{name} default values"),
    ] {
        run(connection, sql).await.map_err(|error| classify(doing, error))?;
    }
    let mut found = Vec::new();
    for fragment in fragments {
        let sql = format!("create index temp.millstream_check on {name} (({}\n))", fragment.sql);
        match run(connection, sql).await {
            Ok(()) => {
                run(connection, "drop index temp.millstream_check".to_owned())
                    .await
                    .map_err(|error| classify(doing, error))?;
            }
            Err(error) if is_about_it(&error) => found.push(finding(index, fragment, &error)),
            Err(error) => return Err(classify(doing, error)),
        }
    }
    run(connection, format!("drop table temp.{name}")).await.map_err(|error| classify(doing, error))?;
    Ok(found)
}

async fn run(connection: &mut SqliteConnection, sql: String) -> sqlx::Result<()> {
    sqlx::query(AssertSqlSafe(sql)).persistent(false).execute(connection).await.map(|_| ())
}

fn is_about_it(error: &sqlx::Error) -> bool {
    let about = |code: &str| code.parse::<i64>().is_ok_and(|code| matches!(code & 0xFF, 1 | 19 | 20));
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| about(&code))
}

fn finding(index: &IndexName, fragment: &Fragment, error: &sqlx::Error) -> Diagnostic {
    let said = error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default();
    let why = said.replace(" in index expressions", "").replace(" in an index", "");
    if why.contains("non-deterministic") {
        let message = format!("changes with no event: {why}");
        let remedy = "use what depends on the row alone; let time reach the row by an update";
        return Diagnostic::error("sql-volatile", index, &fragment.path, message, remedy);
    }
    let remedy = if why.contains("\".\" operator") {
        "name columns without their table".to_owned()
    } else if why.starts_with("no such column") {
        format!("name columns of {} only", fragment.table)
    } else if why.contains("subqueries") {
        "take the other table's rows by a relation or an aggregate".to_owned()
    } else {
        "write an expression that SQLite takes over this table's columns".to_owned()
    };
    Diagnostic::error("sql", index, &fragment.path, why, remedy)
}
