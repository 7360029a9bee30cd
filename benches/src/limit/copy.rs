use futures::TryStreamExt;
use millstream::config::Config;
use millstream::model::IndexName;
use sqlx::Connection as _;
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Executor};

use crate::clock::{now_ns, seconds_between};
use crate::{Result, shop};

/// What every query of the line is run under: as the engine pins its own, on one core each.
const PINNED: [(&str, &str); 7] = [
    ("IntervalStyle", "iso_8601"),
    ("DateStyle", "ISO"),
    ("bytea_output", "hex"),
    ("xmlbinary", "base64"),
    ("lc_monetary", "C"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
];

/// How documents are asked for.
#[derive(Clone, Debug)]
pub enum Shape {
    /// The engine's own query, once a key.
    Correlated(String),
    /// A query by hand over a range of keys.
    SetBased(&'static str),
}

impl Shape {
    /// A query of one column of text over the roots from `from` to `to`.
    pub fn over(&self, from: i64, to: i64) -> String {
        let sql = match self {
            Self::Correlated(sql) => sql.as_str(),
            Self::SetBased(sql) => sql,
        };
        sql.replace(":from", &from.to_string()).replace(":to", &to.to_string())
    }
}

/// The engine's own document query over a range of roots: as its planner writes it, but for where the keys come from.
///
/// # Errors
/// When the planner can't be asked, or no longer writes what is looked for here.
pub async fn correlated_sql(config: &Config, index: &str) -> Result<String> {
    let documents = config.postgres_source().map_err(|error| error.to_string())?.documents(1);
    let sql = documents.document_sql(&IndexName::new(index)).await.map_err(|error| error.to_string())?;
    let unknown = || format!("the planner's query is of another shape; teach the bench\n{sql}");
    let from = sql.find("from unnest(").ok_or_else(unknown)?;
    let ends = ") with ordinality as k(";
    let to = sql[from..].find(ends).ok_or_else(unknown)? + from + ends.len();
    if !sql[to..].starts_with("v0, n)") {
        return Err(unknown());
    }
    let keys = format!(
        "from (select id, row_number() over () from {} where id between :from and :to) as k(",
        shop::root(index)
    );
    Ok(format!("select q.doc from ({}{keys}{}) as q where q.doc is not null", &sql[..from], &sql[to..]))
}

/// Copies all documents of a shape out, over so many connections, to nowhere; documents and seconds.
///
/// # Errors
/// The server's.
pub async fn copy(url: &str, root: &str, shape: &Shape, connections: usize) -> Result<(u64, f64)> {
    let failed = |error: sqlx::Error| format!("the limit line failed: {error}");
    let options: PgConnectOptions = url.parse().map_err(failed)?;
    let options = options.application_name("bench limit").options(PINNED).extra_float_digits(1);
    let mut open: Vec<PgConnection> = Vec::new();
    for _ in 0..connections.max(1) {
        open.push(options.connect().await.map_err(failed)?);
    }
    let bounds = sqlx::AssertSqlSafe(format!("select min(id), max(id) from {root}"));
    let (first, last): (i64, i64) = sqlx::query_as(bounds).fetch_one(&mut open[0]).await.map_err(failed)?;
    let count = open.len() as i64;
    let step = (last - first + 1).div_euclid(count) + 1;
    let began = now_ns();
    let parts = open.into_iter().zip(0..).map(|(connection, part)| {
        let from = first + part * step;
        let sql = format!("copy ({}) to stdout", shape.over(from, (from + step - 1).min(last)));
        tokio::spawn(part_out(connection, sql))
    });
    let mut documents = 0;
    for part in parts.collect::<Vec<_>>() {
        documents += part.await.map_err(|error| error.to_string())?.map_err(failed)?;
    }
    Ok((documents, seconds_between(began, now_ns())))
}

/// One message a row; each is looked at and dropped.
async fn part_out(mut connection: PgConnection, sql: String) -> Result<u64, sqlx::Error> {
    let mut rows = 0;
    {
        let mut data = connection.copy_out_raw(&sql).await?;
        while let Some(piece) = data.try_next().await? {
            rows += u64::from(piece.ends_with(b"\n"));
        }
    }
    // Nothing waits behind the copy: the good-bye can't fail in a way that matters.
    let _ = connection.execute("").await;
    let _ = connection.close().await;
    Ok(rows)
}
