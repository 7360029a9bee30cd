//! Keys of a table's rows, in key order, in pages: what a backfill reads.

use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_core::{Result, SnapshotTable, SourceError};
use millstream_model::{KeyColumns, RowKey, Text};

use super::dialect::{Dialect, ident, idents};
use super::sql::{Value, values};
use super::{Sql, Store};

/// Keys in one page.
const PAGE: usize = 1000;

impl Store {
    /// Keys behind one, in pages.
    pub(crate) async fn keys(
        &self,
        table: &SnapshotTable,
        after: Option<RowKey>,
    ) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
        let columns = self.key_columns(table).await?;
        let scan = Scan { store: self.clone(), table: table.table.table().to_owned(), columns };
        let pages = stream::try_unfold((scan, Some(after)), |(scan, after)| async move {
            let Some(after) = after else { return Ok(None) };
            let page = scan.page(after.as_ref()).await?;
            let next = if page.len() < PAGE { None } else { page.last().cloned().map(Some) };
            Ok((!page.is_empty()).then_some((page, (scan, next))))
        });
        Ok(pages.boxed())
    }

    /// The columns of the id, and their types: the schema's, or the table's primary key.
    async fn key_columns(&self, table: &SnapshotTable) -> Result<Vec<(Text, String)>> {
        let name = table.table.table();
        let found: Vec<(Text, String, i64)> = match self.sql() {
            Sql::Sqlite(_) => {
                let sql = "select name, lower(type), pk from pragma_table_info($1) order by pk";
                let rows = self.sql().fetch(sql, &values![name]).await?;
                rows.iter()
                    .map(|row| Ok((row.text(0)?.into(), row.text(1)?, row.integer(2)?)))
                    .collect::<Result<_>>()?
            }
            Sql::Postgres(_) => {
                const COLUMNS: &str = "select a.attname::text, format_type(a.atttypid, a.atttypmod), \
                     coalesce(array_position(i.indkey::int2[], a.attnum) + 1, 0)::bigint \
                     from pg_attribute a left join pg_index i on i.indrelid = a.attrelid and i.indisprimary \
                     where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped order by 3";
                let quoted = format!("{}.{}", ident(table.table.schema()), ident(name));
                let rows = self.sql().fetch(COLUMNS, &values![quoted]).await?;
                rows.iter()
                    .map(|row| Ok((row.text(0)?.into(), row.text(1)?, row.integer(2)?)))
                    .collect::<Result<_>>()?
            }
        };
        if found.is_empty() {
            return Err(SourceError::unknown_column(format!("the store has no such table (table={})", table.table)));
        }
        match &table.key {
            None => {
                Ok(found.into_iter().filter(|(.., place)| *place > 0).map(|(name, kind, _)| (name, kind)).collect())
            }
            Some(key) => key
                .iter()
                .map(|name| {
                    let column = found.iter().find(|(found, ..)| found == name);
                    let column = column.map(|(name, kind, _)| (name.clone(), kind.clone()));
                    let missing =
                        || format!("the store's table has no such column (table={}, column={name})", table.table);
                    column.ok_or_else(|| SourceError::unknown_column(missing()))
                })
                .collect(),
        }
    }

    /// Rows of a table, counted.
    pub(crate) async fn count(&self, table: &str) -> Result<u64> {
        let rows = self.sql().fetch(format!("select count(*) from {}", ident(table)), &[]).await?;
        let count = rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or(0);
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

struct Scan {
    store: Store,
    table: String,
    columns: Vec<(Text, String)>,
}

impl Scan {
    async fn page(&self, after: Option<&RowKey>) -> Result<Vec<RowKey>> {
        let dialect = self.store.dialect();
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let texts: Vec<String> = names.iter().map(|name| dialect.text_of(name)).collect();
        let mut values: Vec<Value> = Vec::new();
        let mut condition = String::new();
        if let Some(after) = after {
            let key: Vec<String> =
                self.columns.iter().enumerate().map(|(at, (_, kind))| cast(dialect, at + 1, kind)).collect();
            condition = format!(" where ({}) > ({})", idents(names.iter().copied()), key.join(", "));
            for name in &names {
                let text = after.get(name).ok_or_else(|| {
                    SourceError::decode(format!("the key that was reached lacks a column (column={name})"))
                })?;
                values.push(text.into());
            }
        }
        let sql = format!(
            "select {} from {}{condition} order by {} limit {PAGE}",
            texts.join(", "),
            ident(&self.table),
            idents(names.iter().copied())
        );
        let columns: KeyColumns = self.columns.iter().map(|(name, _)| name.clone()).collect();
        let rows = self.store.sql().fetch(sql, &values).await?;
        rows.iter()
            .map(|row| {
                let texts = (0..columns.len()).map(|at| row.text(at).map(Text::from)).collect::<Result<Vec<_>>>()?;
                Ok(RowKey::new(columns.clone(), texts))
            })
            .collect()
    }
}

/// A key's text as a value that compares as the column does.
fn cast(dialect: Dialect, number: usize, kind: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("${number}::text::{kind}"),
        Dialect::Sqlite if kind.contains("int") || kind == "boolean" => format!("cast(${number} as integer)"),
        Dialect::Sqlite if kind == "real" => format!("cast(${number} as real)"),
        Dialect::Sqlite => format!("${number}"),
    }
}
