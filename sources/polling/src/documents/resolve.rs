//! From changed rows to the documents that they touch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use millstream_core::{Result, SourceError};
use millstream_document::ResolvedPage;
use millstream_document::seeds::{Seed, SeedRows, seeds};
use millstream_model::{ChangedRow, IndexName, Operation, RowKey, Text};
use sqlx::pool::PoolConnection;
use sqlx::sqlite::{Sqlite, SqliteRow};
use sqlx::{AssertSqlSafe, Row};

use super::SqliteDocuments;
use super::error::classify;
use super::plan::{IndexPlan, Queries, json_array};
use super::walk::{PAGE, Route, WalkQuery};

/// The pages of touches. The first has those that need no query.
pub(super) fn pages<'a>(
    documents: &'a SqliteDocuments,
    index: &'a IndexName,
    rows: &'a [&'a ChangedRow],
) -> BoxStream<'a, Result<ResolvedPage>> {
    stream::once(async move {
        let plan = documents.plan(index).await?;
        let resolving = Resolving::new(documents, index, rows, plan)?;
        Ok(stream::try_unfold(resolving, Resolving::next))
    })
    .flat_map(|resolving: Result<_>| match resolving {
        Ok(pages) => pages.left_stream(),
        Err(error) => stream::once(async { Err(error) }).right_stream(),
    })
    .boxed()
}

/// What is left to do for one call.
struct Resolving<'a> {
    documents: &'a SqliteDocuments,
    index: &'a IndexName,
    plan: Arc<IndexPlan>,
    connection: Option<PoolConnection<Sqlite>>,
    work: VecDeque<Work>,
    ready: VecDeque<ResolvedPage>,
}

enum Work {
    /// One query for all seeds; a fan-out that is wide goes on from a table of its own.
    Ask { query: WalkQuery, seeds: Seeds },
    /// The rows of that table behind one.
    Fetch { seeds: Seeds, after: i64 },
    /// The next page of all root keys, after one.
    Everything { rows: Vec<usize>, after: Option<Vec<String>> },
}

/// Seeds, and the numbers of the rows that have each.
type Seeds = Arc<[(Vec<Text>, Vec<usize>)]>;

const DOING: &str = "the resolve query failed";

/// Where a wide fan-out waits to be paged: of this connection alone, in a file of SQLite's, so that neither memory nor an old
/// view of the store is held while whoever asked is busy.
const FAN_OUT: &str = "temp.millstream_fan_out";

impl<'a> Resolving<'a> {
    fn new(
        documents: &'a SqliteDocuments,
        index: &'a IndexName,
        rows: &'a [&'a ChangedRow],
        plan: Arc<IndexPlan>,
    ) -> Result<Self> {
        let root = &documents.index(index)?.schema.table;
        let queries = plan.queries()?;
        let mut touches = Vec::new();
        let mut truncated = Vec::new();
        let mut asked: BTreeMap<(usize, bool), SeedRows> = BTreeMap::new();
        for (number, row) in rows.iter().enumerate() {
            if row.table == *root && row.operation != Operation::Truncate {
                for key in [Some(&row.key), row.old_key.as_ref()].into_iter().flatten() {
                    touches.push((number, root_key(queries, key)?));
                }
            }
            if row.operation == Operation::Truncate {
                truncated.extend(queries.walks.of(&row.table).next().map(|_| number));
                continue;
            }
            for (place, walk) in queries.walks.of(&row.table) {
                for seed in seeds(walk.tie(), row) {
                    match (seed, &walk.by_values) {
                        (Seed::Values(values), Route::Direct(places)) => {
                            let values = places.iter().map(|place| values[*place].clone());
                            touches.push((number, RowKey::new(queries.key.columns.clone(), values)));
                        }
                        (Seed::Values(values), Route::Query(_)) => {
                            asked.entry((place, false)).or_default().add(values, number);
                        }
                        (Seed::Row(key), _) => asked.entry((place, true)).or_default().add(key, number),
                    }
                }
            }
        }
        let mut work: VecDeque<Work> = asked.into_iter().filter_map(|(at, seeds)| ask(queries, at, seeds)).collect();
        if !truncated.is_empty() {
            work.push_back(Work::Everything { rows: truncated, after: None });
        }
        Ok(Self { documents, index, plan, connection: None, work, ready: cut(touches) })
    }

    async fn next(mut self) -> Result<Option<(ResolvedPage, Self)>> {
        loop {
            if let Some(page) = self.ready.pop_front() {
                return Ok(Some((page, self)));
            }
            let Some(work) = self.work.pop_front() else { return Ok(None) };
            if let Err(error) = self.run(work).await {
                self.documents.shared.plans.forget_on(self.index, &error);
                return Err(error.context(format!("index {}", self.index)));
            }
        }
    }

    async fn run(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Ask { query, seeds } => self.ask(query, seeds).await,
            Work::Fetch { seeds, after } => self.fetch(seeds, after).await,
            Work::Everything { rows, after } => self.everything(rows, after).await,
        }
    }

    async fn ask(&mut self, query: WalkQuery, seeds: Seeds) -> Result<()> {
        let parameter = json_array(seeds.iter().map(|(values, _)| values.iter().map(Text::as_str).collect()));
        let found = self.read(query.narrow.to_string(), std::slice::from_ref(&parameter)).await?;
        if found.len() <= PAGE {
            let found = found.iter().map(|row| self.found(row, 0)).collect::<Result<Vec<_>>>()?;
            self.ready = cut(expand(found, &seeds)?);
            return Ok(());
        }
        // The table goes with the connection, however this ends.
        self.connection().await?.close_on_drop();
        self.read(format!("drop table if exists {FAN_OUT}"), &[]).await?;
        let keys = (0..self.plan.queries()?.key.columns.len()).map(|at| format!(", k{at}")).collect::<String>();
        self.read(format!("create table {FAN_OUT} (id integer primary key, n{keys})"), &[]).await?;
        self.read(format!("insert into {FAN_OUT} (n{keys}) {}", query.wide), &[parameter]).await?;
        self.work.push_front(Work::Fetch { seeds, after: 0 });
        Ok(())
    }

    async fn fetch(&mut self, seeds: Seeds, after: i64) -> Result<()> {
        let sql = format!("select * from {FAN_OUT} where id > ?1 order by id limit {PAGE}");
        let rows = self.read(sql, &[after.to_string()]).await?;
        if let Some(last) = rows.last().filter(|_| rows.len() == PAGE) {
            let after = integer(last, 0)?;
            self.work.push_front(Work::Fetch { seeds: seeds.clone(), after });
        }
        let found = rows.iter().map(|row| self.found(row, 1)).collect::<Result<Vec<_>>>()?;
        self.ready = cut(expand(found, &seeds)?);
        Ok(())
    }

    async fn everything(&mut self, rows: Vec<usize>, after: Option<Vec<String>>) -> Result<()> {
        let plan = self.plan.clone();
        let roots = &plan.queries()?.walks.roots;
        let (sql, key) = match after {
            None => (&roots.first, Vec::new()),
            Some(key) => (&roots.next, key),
        };
        let found = self.read(sql.to_string(), &key).await?;
        let found = found.iter().map(|row| self.found(row, 0)).collect::<Result<Vec<_>>>()?;
        let last = found.last().filter(|_| found.len() == PAGE);
        let last = last.map(|(_, key)| key.values().iter().map(ToString::to_string).collect());
        self.ready = cut(found.into_iter().flat_map(|(_, key)| rows.iter().map(move |row| (*row, key.clone()))));
        if last.is_some() {
            self.work.push_front(Work::Everything { rows, after: last });
        }
        Ok(())
    }

    async fn connection(&mut self) -> Result<&mut PoolConnection<Sqlite>> {
        if self.connection.is_none() {
            self.connection = Some(self.documents.connection().await?);
        }
        Ok(self.connection.as_mut().expect("taken just now"))
    }

    async fn read(&mut self, sql: String, parameters: &[String]) -> Result<Vec<SqliteRow>> {
        let connection = self.connection().await?;
        let query = parameters.iter().fold(sqlx::query(AssertSqlSafe(sql)), |query, text| query.bind(text));
        query.fetch_all(&mut **connection).await.map_err(|error| classify(DOING, error))
    }

    /// A seed's number and a key, from a column on.
    fn found(&self, row: &SqliteRow, first: usize) -> Result<(usize, RowKey)> {
        let number = integer(row, first)?;
        let number = usize::try_from(number)
            .map_err(|_| SourceError::decode(format!("the resolve query numbered a seed {number}")))?;
        let columns = &self.plan.queries()?.key.columns;
        let texts = (0..columns.len()).map(|at| {
            let text: std::result::Result<&str, _> = row.try_get(first + 1 + at);
            text.map(Text::from).map_err(|error| classify("a key can't be read", error))
        });
        Ok((number, RowKey::new(columns.clone(), texts.collect::<Result<Vec<_>>>()?)))
    }
}

fn integer(row: &SqliteRow, at: usize) -> Result<i64> {
    row.try_get(at).map_err(|error| classify("a row's number can't be read", error))
}

fn root_key(plan: &Queries, key: &RowKey) -> Result<RowKey> {
    key.reordered(&plan.key.columns).ok_or_else(|| {
        SourceError::decode(format!("a changed row's key is not the root's (columns={:?})", key.columns()))
    })
}

fn ask(plan: &Queries, (place, by_row): (usize, bool), seeds: SeedRows) -> Option<Work> {
    let walk = &plan.walks.walks[place];
    let query = match (&walk.by_values, by_row) {
        (_, true) => walk.by_row.clone()?,
        (Route::Query(query), false) => query.clone(),
        (Route::Direct(_), false) => return None,
    };
    Some(Work::Ask { query, seeds: seeds.seeds.into() })
}

/// Each found key once for every row that has the seed.
fn expand(found: Vec<(usize, RowKey)>, seeds: &[(Vec<Text>, Vec<usize>)]) -> Result<Vec<(usize, RowKey)>> {
    let mut known = BTreeSet::new();
    let mut touches = Vec::with_capacity(found.len());
    for (number, key) in found {
        let (_, rows) = seeds
            .get(number)
            .ok_or_else(|| SourceError::decode(format!("the resolve query numbered a seed {number}")))?;
        if known.insert((number, key.values().to_vec())) {
            touches.extend(rows.iter().map(|row| (*row, key.clone())));
        }
    }
    Ok(touches)
}

/// Touches in pages.
fn cut(touches: impl IntoIterator<Item = (usize, RowKey)>) -> VecDeque<ResolvedPage> {
    let mut pages = VecDeque::new();
    let mut touches = touches.into_iter();
    loop {
        let touches: Vec<_> = touches.by_ref().take(PAGE).collect();
        if touches.is_empty() {
            return pages;
        }
        pages.push_back(ResolvedPage { touches, not_yet: Vec::new() });
    }
}
