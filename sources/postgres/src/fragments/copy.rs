use millstream_core::{Result, TableInfo};
use millstream_model::{QualifiedTable, Text};
use sqlx::{AssertSqlSafe, Executor, PgConnection};

use super::collect::Fragment;
use super::scan::Scan;
use super::{Verdict, begin, refusal, tells_time};
use crate::{classify, quote};

/// What the server thinks of each fragment over an empty copy of the table, in their order; `None` when this role, or this
/// server, allows no temporary table.
pub(super) async fn judge(
    connection: &mut PgConnection,
    table: &QualifiedTable,
    info: &TableInfo,
    fragments: &[(Fragment, Scan)],
) -> Result<Option<Vec<Vec<Verdict>>>> {
    let mut transaction = begin(connection).await?;
    if let Err(error) = run(&mut transaction, &copy_of(table, info)).await {
        let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        // No right to make one, or a server that only reads.
        if code == "42501" || code == "25006" {
            return Ok(None);
        }
        return Err(classify("can't copy a table's columns to check fragments over them", error));
    }
    let mut judged = Vec::with_capacity(fragments.len());
    for (fragment, scan) in fragments {
        judged.push(judge_one(&mut transaction, table, info, fragment, scan).await?);
    }
    transaction.rollback().await.map_err(|error| classify("can't check fragments", error))?;
    Ok(Some(judged))
}

/// A temporary table of the same name and columns. It asks for no right on the table itself.
fn copy_of(table: &QualifiedTable, info: &TableInfo) -> String {
    let columns = info.columns.iter().map(|column| format!("{} {}", quote::ident(&column.name), column.native_type));
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("CREATE TEMPORARY TABLE {} ({columns}) ON COMMIT DROP", quote::ident(table.table()))
}

async fn run(connection: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.map(drop)
}

async fn judge_one(
    connection: &mut PgConnection,
    table: &QualifiedTable,
    info: &TableInfo,
    fragment: &Fragment,
    scan: &Scan,
) -> Result<Vec<Verdict>> {
    let lost = |error| classify("can't check a fragment", error);
    let copy = format!("pg_temp.{}", quote::ident(table.table()));
    run(connection, "SAVEPOINT fragment").await.map_err(lost)?;
    let condition = fragment.condition();
    let added = run(connection, &format!("ALTER TABLE {copy} ADD CONSTRAINT fragment CHECK {condition}")).await;
    let verdicts = match added {
        Err(error) => vec![refusal(table, error)?],
        Ok(()) => {
            let read = read_constraint(connection, &copy).await?;
            let mut verdicts = unreadable(info, &read.columns);
            // Index predicates take nothing that could change: the server's own judgement.
            let indexed = run(connection, &format!("CREATE INDEX ON {copy} ((1)) WHERE {condition}")).await;
            match indexed {
                Ok(()) => verdicts.extend(frozen_moment(scan, &read)),
                Err(error) if is_not_immutable(&error) => {
                    run(connection, "ROLLBACK TO SAVEPOINT fragment").await.map_err(lost)?;
                    verdicts.push(changing(connection, scan, &read).await?);
                }
                Err(error) => verdicts.push(refusal(table, error)?),
            }
            verdicts
        }
    };
    run(connection, "ROLLBACK TO SAVEPOINT fragment").await.map_err(lost)?;
    Ok(verdicts)
}

fn is_not_immutable(error: &sqlx::Error) -> bool {
    error.as_database_error().and_then(|error| error.code()).is_some_and(|code| code == "42P17")
}

/// A fragment as the server keeps it.
struct Kept {
    columns: Vec<String>,
    /// Its tree in the server's own notation.
    tree: String,
    /// As SQL again, with constants worked out.
    shown: String,
}

async fn read_constraint(connection: &mut PgConnection, copy: &str) -> Result<Kept> {
    let row: (Vec<String>, String, String) = sqlx::query_as(
        "select array(select a.attname::text from pg_catalog.pg_attribute a
                      where a.attrelid = k.conrelid and a.attnum = any (k.conkey) order by a.attnum),
                k.conbin::text, pg_catalog.pg_get_constraintdef(k.oid)
         from pg_catalog.pg_constraint k where k.conrelid = $1::text::regclass and k.conname = 'fragment'",
    )
    .bind(copy)
    .fetch_one(connection)
    .await
    .map_err(|error| classify("can't check a fragment", error))?;
    let (columns, tree, shown) = row;
    Ok(Kept { columns, tree, shown })
}

fn unreadable(info: &TableInfo, columns: &[String]) -> Vec<Verdict> {
    let columns = columns.iter().filter_map(|name| info.column(name));
    columns
        .filter(|column| !column.readable)
        .map(|column| Verdict::Unreadable(Text::from(column.name.as_str())))
        .collect()
}

/// A literal such as `'today'` that became a time when it was read: the constant then differs each day.
fn frozen_moment(scan: &Scan, kept: &Kept) -> Option<Verdict> {
    let shown = kept.shown.to_lowercase();
    let gone = scan.maybe_moments.iter().find(|text| !shown.contains(text.as_str()))?;
    Some(Verdict::Volatile(format!("'{gone}' is another moment each time it is read")))
}

/// Says which part may change: the tree names every function and operator.
async fn changing(connection: &mut PgConnection, scan: &Scan, kept: &Kept) -> Result<Verdict> {
    if let Some(word) = scan.moments.first() {
        return Ok(Verdict::Volatile(format!("{word} is the present moment")));
    }
    if let Some(verdict) = frozen_moment(scan, kept) {
        return Ok(verdict);
    }
    let functions: Vec<i64> = numbers(&kept.tree, ":funcid ");
    let operators: Vec<i64> = numbers(&kept.tree, ":opno ");
    let found: Vec<(String, String, i16, bool)> = sqlx::query_as(
        "select p.proname::text, p.provolatile::text, p.pronargs, p.pronamespace = 'pg_catalog'::regnamespace
         from pg_catalog.pg_proc p
         where p.provolatile <> 'i' and (p.oid::int8 = any ($1) or p.oid in (
           select o.oprcode from pg_catalog.pg_operator o where o.oid::int8 = any ($2)))
         order by p.provolatile desc, p.proname",
    )
    .bind(functions)
    .bind(operators)
    .fetch_all(connection)
    .await
    .map_err(|error| classify("can't check a fragment", error))?;
    Ok(worst(&found))
}

/// The verdict over functions that are not immutable: name, volatility, number of arguments, whether the server's own.
fn worst(found: &[(String, String, i16, bool)]) -> Verdict {
    let volatile = found.iter().find(|(_, volatility, _, _)| volatility == "v");
    if let Some((name, ..)) = volatile {
        return Verdict::Volatile(format!("{name} is volatile"));
    }
    let timely = found.iter().find(|(name, _, arguments, of_server)| *of_server && tells_time(name, *arguments));
    match (timely, found.first()) {
        (Some((name, ..)), _) => Verdict::Volatile(format!("{name} tells the time")),
        (None, Some((name, ..))) => Verdict::NotImmutable(format!("{name} is only stable")),
        (None, None) => Verdict::NotImmutable("a conversion in it depends on settings".to_owned()),
    }
}

/// The numbers that follow a label in a tree.
fn numbers(tree: &str, label: &str) -> Vec<i64> {
    let after = tree.split(label).skip(1);
    after.filter_map(|rest| rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_has_every_column_by_its_own_name() {
        let column = |name: &str, native: &str| millstream_core::ColumnInfo {
            name: name.into(),
            native_type: native.to_owned(),
            ..Default::default()
        };
        let info =
            TableInfo { columns: vec![column("a\"b", "numeric(10,2)"), column("c", "text[]")], ..Default::default() };
        assert_eq!(
            copy_of(&QualifiedTable::new("s", "T"), &info),
            r#"CREATE TEMPORARY TABLE "T" ("a""b" numeric(10,2), "c" text[]) ON COMMIT DROP"#
        );
    }

    #[test]
    fn the_tree_gives_up_its_functions() {
        let tree = "{OPEXPR :opno 1322 :opfuncid 0 :args ({FUNCEXPR :funcid 1299 :funcresulttype 1184})}";
        assert_eq!(numbers(tree, ":funcid "), [1299]);
        assert_eq!(numbers(tree, ":opno "), [1322]);
    }

    #[test]
    fn the_worst_function_decides() {
        let of = |name: &str, volatility: &str, arguments| (name.to_owned(), volatility.to_owned(), arguments, true);
        assert_eq!(worst(&[of("random", "v", 0), of("now", "s", 0)]), Verdict::Volatile("random is volatile".into()));
        assert_eq!(worst(&[of("date", "s", 1), of("now", "s", 0)]), Verdict::Volatile("now tells the time".into()));
        assert_eq!(worst(&[of("age", "s", 2)]), Verdict::NotImmutable("age is only stable".into()));
        assert!(matches!(worst(&[]), Verdict::NotImmutable(_)));
    }
}
