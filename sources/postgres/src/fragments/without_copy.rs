use millstream_core::Result;
use millstream_model::QualifiedTable;
use sqlx::{AssertSqlSafe, Executor, PgConnection, SqlSafeStr};

use super::collect::Fragment;
use super::scan::Scan;
use super::{Verdict, refusal, tells_time};
use crate::{classify, quote};

/// What can be told of each fragment by preparing it and by the names that it calls, in their order.
///
/// Which of several functions of one name is called is not known here: one that is volatile in every form is an error, one
/// that is so in some form a warning. Operators and conversions are not looked at.
pub(super) async fn judge(
    connection: &mut PgConnection,
    table: &QualifiedTable,
    fragments: &[(Fragment, Scan)],
) -> Result<Vec<Vec<Verdict>>> {
    let mut judged = Vec::with_capacity(fragments.len());
    for (fragment, scan) in fragments {
        let sql = format!(
            "SELECT 1 FROM {} AS {} WHERE {}",
            quote::table(table),
            quote::ident(table.table()),
            fragment.condition()
        );
        let prepared = connection.prepare(AssertSqlSafe(sql).into_sql_str()).await.map(drop);
        judged.push(match prepared {
            Err(error) => vec![refusal(table, error)?],
            Ok(()) => changing(connection, scan).await?.into_iter().collect(),
        });
    }
    Ok(judged)
}

async fn changing(connection: &mut PgConnection, scan: &Scan) -> Result<Option<Verdict>> {
    if let Some(word) = scan.moments.first() {
        return Ok(Some(Verdict::Volatile(format!("{word} is the present moment"))));
    }
    let found: Vec<(String, i16, bool, bool)> = sqlx::query_as(
        "select p.proname::text, min(p.pronargs), bool_and(p.provolatile = 'v'), bool_and(p.provolatile <> 'i')
         from pg_catalog.pg_proc p where p.proname = any ($1) and p.prokind = 'f'
         group by p.proname having bool_or(p.provolatile <> 'i') order by 3 desc, 4 desc, 1",
    )
    .bind(&scan.called)
    .fetch_all(connection)
    .await
    .map_err(|error| classify("can't check a fragment", error))?;
    if let Some((name, ..)) = found.iter().find(|(_, _, always_volatile, _)| *always_volatile) {
        return Ok(Some(Verdict::Volatile(format!("{name} is volatile"))));
    }
    let timely = found.iter().find(|(name, arguments, _, _)| name != "age" && tells_time(name, *arguments));
    if let Some((name, ..)) = timely {
        return Ok(Some(Verdict::Volatile(format!("{name} tells the time"))));
    }
    if let Some((name, _, _, always)) = found.first() {
        let how = if *always { "is only stable" } else { "is only stable in some of its forms" };
        return Ok(Some(Verdict::NotImmutable(format!("{name} {how}"))));
    }
    let moment = scan.maybe_moments.first();
    Ok(moment.map(|text| Verdict::NotImmutable(format!("'{text}' is another moment each time it is read as a time"))))
}
