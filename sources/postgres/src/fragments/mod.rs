//! Whether the SQL pieces of a schema can be used: each alone over its own table, each changing with no event.
//!
//! `scan` reads a piece's words without a server: what would break out of its brackets is refused there. Then Postgres itself
//! tells, on an empty temporary copy of the table, what it thinks of the piece as a check constraint (names, types,
//! sub-queries) and as an index predicate (immutable or not). Where the role may make no temporary table, `without_copy` asks
//! as much as can be asked by preparing.

mod collect;
mod copy;
mod scan;
mod without_copy;

use std::collections::BTreeMap;

use millstream_core::{Catalog, Diagnostic, Result, SourceSpec};
use millstream_model::{IndexName, QualifiedTable, Text};
use sqlx::Connection;
use sqlx::postgres::PgConnection;

use crate::classify;
use collect::Fragment;
use scan::Scan;

/// Checks `where`, `when`, `delete_when` and `sql` of every index against the database. Empty: all can be used.
///
/// Codes: `sql` (an error: can't be used at all), `sql-volatile` (an error: changes with no event), `sql-not-immutable` (a
/// warning: may change with settings or other tables) and `unreadable` (an error: a column that the role may not read).
/// Tables that the catalog does not have are passed over: validation names them. What is made on the way is rolled back.
/// Dropping the future is safe once the connection is not used again.
///
/// # Errors
/// When the server can't be asked.
pub async fn check_fragments(
    connection: &mut PgConnection,
    spec: &SourceSpec,
    catalog: &Catalog,
) -> Result<Vec<Diagnostic>> {
    let mut found = Vec::new();
    let mut by_table: BTreeMap<QualifiedTable, Vec<(Fragment, Scan)>> = BTreeMap::new();
    for fragment in collect::fragments(spec) {
        match scan::scan(&fragment.sql) {
            Err(flaw) => found.push(fragment.finding(flaw.into())),
            Ok(scan) if catalog.table(&fragment.table).is_some() => {
                by_table.entry(fragment.table.clone()).or_default().push((fragment, scan));
            }
            Ok(_) => {}
        }
    }
    for (table, fragments) in by_table {
        let Some(info) = catalog.table(&table) else { continue };
        let judged = match copy::judge(connection, &table, info, &fragments).await? {
            Some(judged) => judged,
            None => without_copy::judge(connection, &table, &fragments).await?,
        };
        for ((fragment, _), verdicts) in fragments.iter().zip(judged) {
            found.extend(verdicts.into_iter().map(|verdict| fragment.finding(verdict)));
        }
    }
    Ok(found)
}

/// What is thought of a fragment.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    /// It can't be used.
    Wrong { why: String, mend: String },
    /// It changes with no event.
    Volatile(String),
    /// It may change with settings or other tables.
    NotImmutable(String),
    /// It reads a column that the role may not.
    Unreadable(Text),
}

impl Fragment {
    fn finding(&self, verdict: Verdict) -> Diagnostic {
        let index: &IndexName = &self.index;
        match verdict {
            Verdict::Wrong { why, mend } => Diagnostic::error("sql", index, &self.path, why, mend),
            Verdict::Volatile(why) => {
                let mend = "use what depends on the row alone; let time reach the row by an update";
                Diagnostic::error("sql-volatile", index, &self.path, format!("changes with no event: {why}"), mend)
            }
            Verdict::NotImmutable(why) => {
                let message = format!("may change with no event: {why}");
                let mend = "make sure that it depends on the row alone, or fill the index again when it changes";
                Diagnostic::warning("sql-not-immutable", index, &self.path, message, mend)
            }
            Verdict::Unreadable(column) => {
                let message = format!("this role may not read column `{column}` of {}", self.table);
                Diagnostic::error("unreadable", index, &self.path, message, "let the role read it")
                    .about(&self.table, [column])
            }
        }
    }

    /// The fragment as a condition, in brackets that a comment at its end does not swallow.
    fn condition(&self) -> String {
        if self.is_condition { format!("(\n{}\n)", self.sql) } else { format!("((\n{}\n) IS NULL)", self.sql) }
    }
}

/// What the server says against a fragment; an error when it is not about the fragment.
fn refusal(table: &QualifiedTable, error: sqlx::Error) -> Result<Verdict> {
    let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
    let message = error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default();
    if !["0A", "22", "42"].iter().any(|class| code.starts_with(class)) || code == "42501" {
        return Err(classify("can't check a fragment", error));
    }
    let mend = match code.as_str() {
        "42703" | "42P01" => format!("name columns of {table} only"),
        "42804" => "write a condition, true or false".to_owned(),
        _ => String::new(),
    };
    Ok(Verdict::Wrong { why: message, mend })
}

/// Functions of the server that are stable within a statement and tell the time, or how far the server is.
fn tells_time(function: &str, arguments: i16) -> bool {
    match function {
        "now" | "transaction_timestamp" | "statement_timestamp" | "clock_timestamp" | "timeofday" => true,
        // Of one argument: the distance to today.
        "age" => arguments == 1,
        other => ["txid_", "pg_current_", "pg_last_"].iter().any(|prefix| other.starts_with(prefix)),
    }
}

/// Begins a transaction that is always rolled back.
async fn begin(connection: &mut PgConnection) -> Result<sqlx::Transaction<'_, sqlx::Postgres>> {
    connection.begin().await.map_err(|error| classify("can't check fragments", error))
}
