//! The keys of a table's current rows, page by page: what a backfill reads.

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use millstream_core::{Result, SnapshotTable, SourceError};
use millstream_model::{KeyColumns, QualifiedTable, RowKey, Text};
use millstream_postgres::sqlx::postgres::{PgArguments, PgRow};
use millstream_postgres::sqlx::{self, Arguments, AssertSqlSafe, Row};
use millstream_postgres::{Connections, classify, quote};

use crate::KeyRange;

/// How to read a table's keys.
struct Pages {
    table: QualifiedTable,
    /// The document ids' order of columns.
    columns: KeyColumns,
    /// The primary key's: the order of the pages, since an index gives it.
    order: KeyColumns,
    /// Types of `order`, without modifiers.
    types: Vec<String>,
    page: usize,
}

/// Streams the keys after `range.after`, in the primary key's order.
pub(crate) async fn stream_keys(
    connections: Connections,
    table: &SnapshotTable,
    range: KeyRange,
    page: usize,
) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
    let pages = Pages::of(&connections, table, page).await?;
    let after = match range.after {
        None => None,
        Some(key) => Some(key.reordered(&pages.order).ok_or_else(|| {
            SourceError::setup(format!("the key to go on from is not of this table (table={})", table.table))
        })?),
    };
    let pages = stream::try_unfold((pages, connections, Some(after)), |(pages, connections, after)| async move {
        let Some(after) = after else { return Ok(None) };
        let keys = pages.read(&connections, after.as_ref()).await?;
        let Some(last) = keys.last().cloned() else { return Ok(None) };
        let next = (keys.len() >= pages.page).then_some(Some(last));
        let columns = pages.columns.clone();
        let keys = keys.into_iter().filter_map(|key| key.reordered(&columns)).collect();
        Ok(Some((keys, (pages, connections, next))))
    });
    Ok(pages.into_stream().boxed())
}

/// Rows of a table as the server's statistics estimate them, leaves summed; `None` before any statistics.
pub(crate) async fn estimate(connections: &Connections, table: &SnapshotTable) -> Result<Option<u64>> {
    let mut lease = connections.get().await?;
    let rows: Option<f64> = sqlx::query_scalar(
        "with recursive tree as (select $1::regclass::oid as oid union all \
           select inhrelid from pg_inherits i join tree t on i.inhparent = t.oid) \
         select sum(greatest(reltuples, 0))::float8 from pg_class c join tree using (oid) where relkind <> 'p'",
    )
    .bind(quote::table(&table.table))
    .fetch_one(&mut *lease)
    .await
    .map_err(|error| classify(&format!("can't estimate the rows (table={})", table.table), error))?;
    lease.keep();
    Ok(rows.filter(|rows| *rows > 0.0).map(|rows| rows as u64))
}

impl Pages {
    async fn of(connections: &Connections, table: &SnapshotTable, page: usize) -> Result<Self> {
        let mut lease = connections.get().await?;
        let key: Vec<(String, String)> = sqlx::query_as(
            "select a.attname::text, format_type(a.atttypid, -1) from pg_index x \
             cross join unnest(x.indkey::int2[]) with ordinality k(att, n) \
             join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.att \
             where x.indrelid = $1::regclass and x.indisprimary and k.n <= x.indnkeyatts order by k.n",
        )
        .bind(quote::table(&table.table))
        .fetch_all(&mut *lease)
        .await
        .map_err(|error| classify(&format!("can't read the primary key (table={})", table.table), error))?;
        lease.keep();
        if key.is_empty() {
            return Err(SourceError::setup(format!("the table has no primary key (table={})", table.table)));
        }
        let order: KeyColumns = key.iter().map(|(name, _)| Text::from(name.as_str())).collect();
        let columns: KeyColumns = table.key.clone().map_or_else(|| order.clone(), Into::into);
        let types = key.into_iter().map(|(_, native)| native).collect();
        Ok(Self { table: table.table.clone(), columns, order, types, page: page.max(1) })
    }

    fn query(&self, after: bool) -> String {
        let each = |form: &dyn Fn(usize, &Text) -> String| {
            self.order.iter().enumerate().map(|(at, name)| form(at, name)).collect::<Vec<_>>().join(", ")
        };
        let texts = each(&|_, name| format!("format('%s', {})", quote::ident(name)));
        let names = each(&|_, name| quote::ident(name));
        let values = each(&|at, _| format!("${}::text::{}", at + 1, self.types[at]));
        let range = if after { format!(" where ({names}) > ({values})") } else { String::new() };
        format!("select {texts} from {}{range} order by {names} limit {}", quote::table(&self.table), self.page)
    }

    /// One page, behind `after`, in the order of the primary key.
    async fn read(&self, connections: &Connections, after: Option<&RowKey>) -> Result<Vec<RowKey>> {
        let failed = |error| classify(&format!("can't read keys (table={})", self.table), error);
        let mut arguments = PgArguments::default();
        for value in after.map(RowKey::values).unwrap_or_default() {
            arguments.add(value.as_str()).map_err(|error| SourceError::decode(error.to_string()))?;
        }
        let mut lease = connections.get().await?;
        let rows: Vec<PgRow> = sqlx::query_with(AssertSqlSafe(self.query(after.is_some())), arguments)
            .fetch_all(&mut *lease)
            .await
            .map_err(failed)?;
        lease.keep();
        let mut keys = Vec::with_capacity(rows.len());
        for row in &rows {
            let values: Result<Vec<Text>, sqlx::Error> =
                (0..self.order.len()).map(|at| row.try_get::<&str, _>(at).map(Text::from)).collect();
            keys.push(RowKey::new(self.order.clone(), values.map_err(failed)?));
        }
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn p13_a_page_is_read_by_type_and_quoted() {
        let names: KeyColumns = vec![Text::from("user"), Text::from("a\"b")].into();
        let pages = Pages {
            table: QualifiedTable::new("Sales-2", "Order"),
            columns: names.clone(),
            order: names,
            types: vec!["bpchar".into(), "numeric".into()],
            page: 10,
        };
        assert_eq!(
            pages.query(true),
            "select format('%s', \"user\"), format('%s', \"a\"\"b\") from \"Sales-2\".\"Order\" \
             where (\"user\", \"a\"\"b\") > ($1::text::bpchar, $2::text::numeric) order by \"user\", \"a\"\"b\" limit 10"
        );
    }
}
