//! From changed rows to the documents that they touch.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use millstream_core::{Result, SourceError};
use millstream_model::{ChangedRow, IndexName, Operation, RowKey, Sight, Text};
use millstream_postgres::sqlx::{self, AssertSqlSafe};
use millstream_postgres::{Lease, Snapshot, classify, quote};

use super::PostgresDocuments;
use super::plan::{IndexPlan, Queries};
use super::sight::unsteady;
use super::walk::{PAGE, Route, WalkQuery};
use crate::ResolvedPage;
use crate::seeds::{Seed, SeedRows, seeds};

/// The pages of touches. The first has those that need no query.
pub(super) fn pages<'a>(
    documents: &'a PostgresDocuments,
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
    documents: &'a PostgresDocuments,
    index: &'a IndexName,
    rows: &'a [&'a ChangedRow],
    plan: Arc<IndexPlan>,
    lease: Option<Lease>,
    work: VecDeque<Work>,
    ready: VecDeque<ResolvedPage>,
    /// Rows that a page has already named as not yet visible.
    late: BTreeSet<usize>,
}

enum Work {
    /// One query for all seeds; a fan-out that is wide goes on with a cursor.
    Ask { query: WalkQuery, seeds: Seeds },
    /// The next page of a cursor that is open, or a new one.
    Cursor { query: WalkQuery, seeds: Seeds, open: bool },
    /// The next page of all root keys, after one.
    Everything { rows: Vec<usize>, after: Option<Vec<String>> },
}

impl<'a> Resolving<'a> {
    fn new(
        documents: &'a PostgresDocuments,
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
        let ready = cut(touches, Vec::new());
        Ok(Self { documents, index, rows, plan, lease: None, work, ready, late: BTreeSet::new() })
    }

    async fn next(mut self) -> Result<Option<(ResolvedPage, Self)>> {
        loop {
            if let Some(page) = self.ready.pop_front() {
                return Ok(Some((page, self)));
            }
            let Some(work) = self.work.pop_front() else {
                if let Some(lease) = self.lease {
                    lease.keep();
                }
                return Ok(None);
            };
            if let Err(error) = self.run(work).await {
                self.documents.shared.plans.forget_on(self.index, &error);
                return Err(error.context(format!("index {}", self.index)));
            }
        }
    }

    async fn run(&mut self, work: Work) -> Result<()> {
        match work {
            Work::Ask { query, seeds } => self.ask(query, seeds).await,
            Work::Cursor { query, seeds, open } => self.fetch(query, seeds, open).await,
            Work::Everything { rows, after } => self.everything(rows, after).await,
        }
    }

    async fn ask(&mut self, query: WalkQuery, seeds: Seeds) -> Result<()> {
        let (found, snapshot) = self.read(&query.narrow, Parameters::Columns(&columns(&seeds))).await?;
        let not_yet = self.not_yet(seeds.iter().flat_map(|(_, rows)| rows), &snapshot);
        if found.len() <= PAGE {
            let touches = self.expand(found, &seeds)?;
            self.ready.extend(cut(touches, not_yet));
            return Ok(());
        }
        // The cursor's read is later than this one, so it covers what this one did; the rest is asked again anyway.
        let late = &self.late;
        let seen = seeds.iter().map(|(values, rows)| {
            let rows: Vec<usize> = rows.iter().filter(|row| !late.contains(row)).copied().collect();
            (values.clone(), rows)
        });
        let seeds: Seeds = seen.filter(|(_, rows)| !rows.is_empty()).collect();
        self.ready.extend(cut(Vec::new(), not_yet));
        if !seeds.is_empty() {
            self.work.push_front(Work::Cursor { query, seeds, open: false });
        }
        Ok(())
    }

    /// One page of a cursor that outlives its transaction: the server keeps the rows in a file of its own, neither we nor an old
    /// snapshot hold them.
    async fn fetch(&mut self, query: WalkQuery, seeds: Seeds, open: bool) -> Result<()> {
        let lease = self.lease().await?;
        if !open {
            let declare = format!("declare {CURSOR} no scroll cursor with hold for {}", query.wide);
            execute(lease, with_literals(declare, &columns(&seeds))).await?;
        }
        let found: Vec<Found> = sqlx::query_as(AssertSqlSafe(format!("fetch {PAGE} from {CURSOR}")))
            .fetch_all(&mut **lease)
            .await
            .map_err(|error| classify(DOING, error))?;
        if found.len() < PAGE {
            execute(lease, format!("close {CURSOR}")).await?;
        } else {
            self.work.push_front(Work::Cursor { query, seeds: seeds.clone(), open: true });
        }
        let touches = self.expand(found, &seeds)?;
        self.ready.extend(cut(touches, Vec::new()));
        Ok(())
    }

    async fn everything(&mut self, mut rows: Vec<usize>, after: Option<Vec<String>>) -> Result<()> {
        let plan = self.plan.clone();
        let roots = &plan.queries()?.walks.roots;
        let (found, snapshot) = match &after {
            None => self.read(&roots.first, Parameters::Key(&[])).await?,
            Some(key) => self.read(&roots.next, Parameters::Key(key)).await?,
        };
        let not_yet = self.not_yet(&rows, &snapshot);
        let last = found.last().map(|(_, key)| key.clone()).filter(|_| found.len() == PAGE);
        let mut touches = Vec::new();
        for (_, texts) in found {
            let key = self.key(texts)?;
            touches.extend(rows.iter().map(|row| (*row, key.clone())));
        }
        self.ready.extend(cut(touches, not_yet));
        // What a page could not see is asked again from the first page on.
        rows.retain(|row| !self.late.contains(row));
        if last.is_some() && !rows.is_empty() {
            self.work.push_front(Work::Everything { rows, after: last });
        }
        Ok(())
    }

    async fn lease(&mut self) -> Result<&mut Lease> {
        if self.lease.is_none() {
            self.lease = Some(self.documents.lease().await?);
        }
        Ok(self.lease.as_mut().expect("taken just now"))
    }

    /// Runs a query once it is known what it can see.
    async fn read(&mut self, sql: &Arc<str>, parameters: Parameters<'_>) -> Result<(Vec<Found>, Snapshot)> {
        let node = &self.documents.shared.node;
        let lease = self.lease().await?;
        // Once more when the server turns out to be a standby.
        for _ in 0..2 {
            let replayed = node.before(lease).await?;
            let query = sqlx::query_as(AssertSqlSafe(sql.clone()));
            let query = match parameters {
                Parameters::Columns(columns) => columns.iter().fold(query, |query, column| query.bind(column)),
                Parameters::Key(texts) => texts.iter().fold(query, |query, text| query.bind(text)),
            };
            let found = query.fetch_all(&mut **lease).await.map_err(|error| classify(DOING, error))?;
            let (found, sight) = apart(found)?;
            if let Some(snapshot) = node.sight(replayed, &sight)? {
                return Ok((found, snapshot));
            }
        }
        Err(unsteady())
    }

    /// Those of these rows that the read could not see and that no page has named so far.
    fn not_yet<'r>(&mut self, rows: impl IntoIterator<Item = &'r usize>, snapshot: &Snapshot) -> Vec<usize> {
        let all = self.rows;
        let unseen = rows.into_iter().filter(|row| !snapshot.covers(&all[**row].fence));
        unseen.filter(|row| self.late.insert(**row)).copied().collect()
    }

    /// Each found key for every row that has the seed.
    fn expand(&self, found: Vec<Found>, seeds: &[(Vec<Text>, Vec<usize>)]) -> Result<Vec<(usize, RowKey)>> {
        let mut touches = BTreeSet::new();
        let mut expanded = Vec::with_capacity(found.len());
        for (number, texts) in found {
            let place = usize::try_from(number - 1).ok().filter(|at| *at < seeds.len());
            let place =
                place.ok_or_else(|| SourceError::decode(format!("the resolve query numbered a seed {number}")))?;
            if touches.insert((place, texts.clone())) {
                let key = self.key(texts)?;
                expanded.extend(seeds[place].1.iter().map(|row| (*row, key.clone())));
            }
        }
        Ok(expanded)
    }

    fn key(&self, texts: Vec<String>) -> Result<RowKey> {
        let columns = &self.plan.queries()?.key.columns;
        if texts.len() != columns.len() {
            return Err(SourceError::decode("the resolve query gave a key of another length"));
        }
        Ok(RowKey::new(columns.clone(), texts.into_iter().map(Text::from)))
    }
}

const DOING: &str = "the resolve query failed";
const CURSOR: &str = "millstream_fan_out";

/// Seeds, and the numbers of the rows that have each.
type Seeds = Arc<[(Vec<Text>, Vec<usize>)]>;

/// What a query is asked with.
#[derive(Clone, Copy)]
enum Parameters<'a> {
    /// Of each seed column all values.
    Columns(&'a [Vec<&'a str>]),
    /// The texts of one key.
    Key(&'a [String]),
}

/// Seed number and key texts.
type Found = (i64, Vec<String>);

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

/// Seeds by column.
fn columns(seeds: &[(Vec<Text>, Vec<usize>)]) -> Vec<Vec<&str>> {
    let width = seeds.first().map_or(0, |(values, _)| values.len());
    (0..width).map(|at| seeds.iter().map(|(values, _)| values[at].as_str()).collect()).collect()
}

/// The row numbered 0 is what the statement could see.
fn apart(mut found: Vec<Found>) -> Result<(Vec<Found>, String)> {
    let place = found.iter().position(|(number, _)| *number == 0);
    let sight = place.and_then(|place| found.remove(place).1.pop());
    let sight = sight.ok_or_else(|| SourceError::decode("the resolve query answered without its snapshot"))?;
    Ok((found, sight))
}

/// A cursor's declaration takes no parameters: the texts stand in it as literals.
fn with_literals(mut sql: String, columns: &[Vec<&str>]) -> String {
    for (at, column) in columns.iter().enumerate().rev() {
        let texts = column.iter().map(|text| quote::literal(text)).collect::<Vec<_>>().join(",");
        sql = sql.replacen(&format!("${}::text[]", at + 1), &format!("array[{texts}]::text[]"), 1);
    }
    sql
}

async fn execute(lease: &mut Lease, sql: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut **lease).await.map_err(|error| classify(DOING, error))?;
    Ok(())
}

/// Touches in pages; the first says which rows were not yet visible.
fn cut(touches: Vec<(usize, RowKey)>, not_yet: Vec<usize>) -> VecDeque<ResolvedPage> {
    let mut pages = VecDeque::new();
    let mut touches = touches.into_iter();
    let mut not_yet = Some(not_yet);
    loop {
        let page: Vec<_> = touches.by_ref().take(PAGE).collect();
        let late = not_yet.take().unwrap_or_default();
        if page.is_empty() && late.is_empty() {
            return pages;
        }
        pages.push_back(ResolvedPage { touches: page, not_yet: late });
    }
}
