//! Puts rows where they belong, with their changes and marks, in one transaction: all of a landing or nothing of it.

use std::collections::{BTreeMap, HashMap, HashSet};

use millstream_cdc::Line;
use millstream_core::Result;
use millstream_model::{Operation, Position, Text};
use serde_json::Map;

use super::changes::{self, Pending, links_of, number};
use super::compare::{self, Brake, Counts, Diff, Gone, Stored};
use super::shape::{Row, TableShape};
use super::sql::{SqlRow, Tx, Value, values};
use super::streams::Registered;
use super::{Dialect, Store};
use crate::model::{Checkpoint, StreamKey, Timestamp};

/// What becomes true of a stream once its landing is acked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Mark {
    /// The newest instant of those landed: only ever moves on.
    pub since: Option<Timestamp>,
    /// What the backend said of where to go on, if it said so.
    pub checkpoint: Option<Option<Checkpoint>>,
    /// Of a clean pass over a complete payload.
    pub digest: Option<String>,
}

impl Mark {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is true once a later one is, too.
    pub(super) fn then(&mut self, later: Self) {
        self.since = self.since.max(later.since);
        self.checkpoint = later.checkpoint.or(self.checkpoint.take());
        self.digest = later.digest.or(self.digest.take());
    }

    pub(super) fn read(row: &SqlRow) -> Result<Self> {
        let says = row.integer(1)? != 0;
        let checkpoint = row.text_or_null(2)?.map(Checkpoint);
        let since = row.integer_or_null(0)?.map(Timestamp::from_micros);
        Ok(Self { since, checkpoint: says.then_some(checkpoint), digest: row.text_or_null(3)? })
    }
}

/// What a complete payload speaks of: what is stored there and not in it is gone.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Complete {
    /// Readings from a moment to before another.
    Window { from: Timestamp, to: Timestamp },
    /// The whole table.
    Everything,
    /// The whole table, by its keys alone: these are there.
    Keys(HashSet<Vec<String>>),
}

/// Stored rows that must be left alone, since their counterparts at the source could not be made sense of.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Protected {
    /// Texts of keys.
    pub keys: HashSet<Vec<String>>,
    /// Texts of instants: all replicates.
    pub instants: HashSet<String>,
    /// A row that nobody can name: nothing is withdrawn.
    pub unknown: bool,
}

impl Protected {
    fn holds(&self, key: &[String]) -> bool {
        self.unknown || self.keys.contains(key) || key.get(1).is_some_and(|instant| self.instants.contains(instant))
    }
}

/// Rows of one stream to land together.
#[derive(Debug)]
pub(crate) struct Landing<'a> {
    pub stream: &'a StreamKey,
    pub line: Line,
    pub shape: &'a TableShape,
    pub rows: &'a [Row],
    /// Keys of rows that the source says are gone.
    pub removed: &'a [Vec<String>],
    pub complete: Option<&'a Complete>,
    pub protected: &'a Protected,
    /// It says all there is of a reconciled stream: its checkpoint counts with its digest only.
    pub is_truth: bool,
    pub mark: Mark,
}

/// What a landing did.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Landed {
    pub counts: Counts,
    /// Why only new rows were landed, if that is so.
    pub brake: Option<String>,
    /// The last change's position; `None`: nothing changed.
    pub last: Option<Position>,
}

impl Store {
    /// Lands rows: all or none.
    ///
    /// # Errors
    /// When the store refuses; nothing was landed.
    pub(crate) async fn land(&self, landing: Landing<'_>) -> Result<Landed> {
        let dialect = self.dialect();
        let mut links = self.links(&landing.shape.table);
        links.retain(|link| landing.shape.has(link));
        let mut tx = self.sql().begin().await?;
        let stored = read_stored(&mut tx, dialect, &landing, &links).await?;
        let mut diff = differ(&stored, &landing);
        let mut mark = landing.mark.clone();
        let brake = match landing.complete {
            None => None,
            Some(_) => judge(&mut tx, &landing, &stored, &diff).await?,
        };
        if brake.is_some() {
            let held = diff.changed.len() + diff.withdrawn.len();
            diff = Diff { new: diff.new, unchanged: diff.unchanged + held, ..Diff::default() };
            mark.digest = None;
            if landing.is_truth {
                mark.checkpoint = Some(None);
            }
        }
        let kept = landing.rows;
        write_rows(&mut tx, dialect, landing.shape, diff.new.iter().chain(&diff.changed).map(|at| &kept[*at])).await?;
        delete_rows(&mut tx, dialect, landing.shape, &diff.withdrawn).await?;
        let pending = pending(&mut tx, dialect, landing.shape, kept, &stored, &diff, &links).await?;
        changes::write(&mut tx, landing.line, &pending).await?;
        let counts = diff.counts();
        if !pending.is_empty() {
            // What is stored is no longer what an earlier pass left, acked or not: only this one's digest may come to count.
            const FORGET: &str = "update millstream_streams set digest = null where line = $1 and digest is not null";
            tx.execute(FORGET, &values![number(landing.line)]).await?;
            tx.execute("update millstream_marks set digest = null where line = $1", &values![number(landing.line)])
                .await?;
        }
        changes::mark(&mut tx, landing.line, &mark).await?;
        let last = last_of(&mut tx, landing.line, pending.is_empty()).await?;
        tx.commit().await?;
        Ok(Landed { counts, brake, last })
    }

    /// What landing would do; changes nothing.
    pub(crate) async fn compare(&self, landing: &Landing<'_>) -> Result<(Counts, Option<String>)> {
        let mut tx = self.sql().begin().await?;
        let stored = read_stored(&mut tx, self.dialect(), landing, &[]).await?;
        let diff = differ(&stored, landing);
        let column = landing.shape.replicate;
        let brake = landing.complete.and_then(|_| compare::brake(&stored, landing.rows, &diff, column));
        Ok((diff.counts(), brake.as_ref().map(Brake::to_string)))
    }

    /// How many rows are stored where a complete payload speaks.
    pub(crate) async fn stored_in(&self, shape: &TableShape, complete: &Complete) -> Result<u64> {
        let dialect = self.dialect();
        let (condition, values) = condition_of(dialect, shape, complete);
        let sql = format!("select count(*) from {}{condition}", shape.name());
        let rows = self.sql().fetch(sql, &values).await?;
        let count = rows.first().map(|row| row.integer(0)).transpose()?.unwrap_or(0);
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

fn differ(stored: &Stored, landing: &Landing<'_>) -> Diff {
    let is_kept = |key: &[String]| match landing.complete {
        Some(Complete::Keys(keys)) => keys.contains(key) || landing.protected.holds(key),
        _ => landing.protected.holds(key),
    };
    let gone = match landing.complete {
        Some(_) => Gone::Absent(&is_kept),
        None if landing.removed.is_empty() => Gone::Nothing,
        None => Gone::Named(landing.removed),
    };
    compare::compare(stored, landing.rows, &gone)
}

/// Whether the pass is held back; raises the brake, and takes back a release that was used.
async fn judge(tx: &mut Tx, landing: &Landing<'_>, stored: &Stored, diff: &Diff) -> Result<Option<String>> {
    let found = Registered::brake_in(tx, landing.stream).await?;
    if found.released {
        const USED: &str = "update millstream_streams set brake = null, released = 0 where key = $1";
        tx.execute(USED, &values![landing.stream.as_str()]).await?;
        return Ok(None);
    }
    if found.brake.is_some() {
        return Ok(found.brake);
    }
    let why = compare::brake(stored, landing.rows, diff, landing.shape.replicate);
    if let Some(why) = &why {
        const RAISE: &str = "update millstream_streams set brake = $2 where key = $1";
        tx.execute(RAISE, &values![landing.stream.as_str(), why.to_string()]).await?;
    }
    Ok(why.as_ref().map(Brake::to_string))
}

async fn last_of(tx: &mut Tx, line: Line, nothing_new: bool) -> Result<Option<Position>> {
    if nothing_new {
        return Ok(None);
    }
    let rows = tx.fetch("select max(seq) from millstream_changes where line = $1", &values![number(line)]).await?;
    let last = rows.first().map(|row| row.integer_or_null(0)).transpose()?.flatten();
    Ok(last.map(|last| Position(u64::try_from(last).unwrap_or(0))))
}

/// Where a complete payload speaks, as SQL.
fn condition_of(dialect: Dialect, shape: &TableShape, complete: &Complete) -> (String, Vec<Value>) {
    match (complete, &shape.owner) {
        (Complete::Window { from, to }, Some(owner)) => {
            let instant = shape.key[1].1;
            let (low, high) = (dialect.cast(2, instant), dialect.cast(3, instant));
            let condition = format!(" where \"stream\" = $1 and \"instant\" >= {low} and \"instant\" < {high}");
            (condition, values![owner.as_str(), from.to_string(), to.to_string()].into())
        }
        (_, Some(owner)) => (" where \"stream\" = $1".to_owned(), values![owner.as_str()].into()),
        (_, None) => (String::new(), Vec::new()),
    }
}

async fn read_stored(tx: &mut Tx, dialect: Dialect, landing: &Landing<'_>, links: &[Text]) -> Result<Stored> {
    let names: Vec<String> = links.iter().map(ToString::to_string).collect();
    let shape = landing.shape;
    let select = shape.select(dialect, &names);
    let mut stored = Stored::new();
    if let Some(complete) = landing.complete {
        let (condition, values) = condition_of(dialect, shape, complete);
        for row in tx.fetch(format!("{select}{condition}"), &values).await? {
            let (key, row) = shape.read(&row, names.len())?;
            stored.insert(key, row);
        }
        return Ok(stored);
    }
    let removed = landing.removed.iter().map(|key| key_values(dialect, shape, key));
    let keys: Vec<Vec<Value>> = landing.rows.iter().map(|row| row.key_values.clone()).chain(removed).collect();
    for row in fetch_keys(tx, dialect, shape, &select, &keys).await? {
        let (key, row) = shape.read(&row, names.len())?;
        stored.insert(key, row);
    }
    Ok(stored)
}

/// The rows under these keys.
async fn fetch_keys(
    tx: &mut Tx,
    dialect: Dialect,
    shape: &TableShape,
    select: &str,
    keys: &[Vec<Value>],
) -> Result<Vec<SqlRow>> {
    let width = shape.key.len();
    let mut found = Vec::new();
    for chunk in keys.chunks(TableShape::rows_at_once(width)) {
        let tuples: Vec<String> =
            (0..chunk.len()).map(|at| TableShape::tuple(dialect, &shape.key, at * width + 1)).collect();
        let sql = format!("{select} where ({}) in (values {})", shape.key_list(), tuples.join(", "));
        found.extend(tx.fetch(sql, &chunk.concat()).await?);
    }
    Ok(found)
}

/// Parameters for a key that is known by its texts.
fn key_values(dialect: Dialect, shape: &TableShape, key: &[String]) -> Vec<Value> {
    use crate::model::ColumnType;
    let of = |((_, kind), text): (&(String, ColumnType), &String)| match kind {
        ColumnType::Integer => Value::Integer(text.parse().ok()),
        ColumnType::Boolean => Value::Boolean(Some(text == dialect.boolean(true))),
        _ => Value::from(text.clone()),
    };
    shape.key.iter().zip(key).map(of).collect()
}

async fn write_rows(tx: &mut Tx, dialect: Dialect, shape: &TableShape, rows: impl Iterator<Item = &Row>) -> Result<()> {
    let kinds: Vec<_> = shape.key.iter().chain(&shape.columns).cloned().collect();
    let names = super::dialect::idents(kinds.iter().map(|(name, _)| name.as_str()));
    let set = |(name, _): &(String, _)| {
        let name = super::dialect::ident(name);
        format!("{name} = excluded.{name}")
    };
    let sets = shape.columns.iter().map(set).collect::<Vec<_>>().join(", ");
    let rows: Vec<&Row> = rows.collect();
    for chunk in rows.chunks(TableShape::rows_at_once(kinds.len())) {
        let tuples: Vec<String> =
            (0..chunk.len()).map(|at| TableShape::tuple(dialect, &kinds, at * kinds.len() + 1)).collect();
        let sql = format!(
            "insert into {} ({names}) values {} on conflict ({}) do update set {sets}",
            shape.name(),
            tuples.join(", "),
            shape.key_list()
        );
        let values: Vec<Value> =
            chunk.iter().flat_map(|row| row.key_values.iter().chain(&row.values)).cloned().collect();
        tx.execute(sql, &values).await?;
    }
    Ok(())
}

async fn delete_rows(tx: &mut Tx, dialect: Dialect, shape: &TableShape, keys: &[Vec<String>]) -> Result<()> {
    let width = shape.key.len();
    for chunk in keys.chunks(TableShape::rows_at_once(width)) {
        let tuples: Vec<String> =
            (0..chunk.len()).map(|at| TableShape::tuple(dialect, &shape.key, at * width + 1)).collect();
        let sql =
            format!("delete from {} where ({}) in (values {})", shape.name(), shape.key_list(), tuples.join(", "));
        let values: Vec<Value> = chunk.iter().flat_map(|key| key_values(dialect, shape, key)).collect();
        tx.execute(sql, &values).await?;
    }
    Ok(())
}

/// The changes of a landing, with link values before and after.
async fn pending(
    tx: &mut Tx,
    dialect: Dialect,
    shape: &TableShape,
    rows: &[Row],
    stored: &Stored,
    diff: &Diff,
    links: &[Text],
) -> Result<Vec<Pending>> {
    let written: Vec<&Row> = diff.new.iter().chain(&diff.changed).map(|at| &rows[*at]).collect();
    let mut after: HashMap<Vec<String>, Vec<Option<String>>> = HashMap::new();
    if !links.is_empty() && !written.is_empty() {
        let names: Vec<String> = links.iter().map(ToString::to_string).collect();
        let keys: Vec<Vec<Value>> = written.iter().map(|row| row.key_values.clone()).collect();
        let select = shape.select(dialect, &names);
        for row in fetch_keys(tx, dialect, shape, &select, &keys).await? {
            let (key, row) = shape.read(&row, names.len())?;
            after.insert(key, row.links);
        }
    }
    let name = shape.table.table();
    let named = |key: &[String]| shape.key.iter().map(|(name, _)| name.clone()).zip(key.iter().cloned()).collect();
    let mut pending = BTreeMap::new();
    for (order, row) in written.into_iter().enumerate() {
        let before = stored.get(&row.key).map(|row| &row.links);
        let after = after.get(&row.key);
        let differs = before.is_some() && before != after;
        pending.insert(
            order,
            Pending {
                table: name.to_owned(),
                key: named(&row.key),
                operation: Operation::Upsert,
                before: before.filter(|_| differs).map(|texts| links_of(links, texts)),
                after: Some(after.map_or_else(Map::new, |texts| links_of(links, texts))),
            },
        );
    }
    let mut pending: Vec<Pending> = pending.into_values().collect();
    for key in &diff.withdrawn {
        pending.push(Pending {
            table: name.to_owned(),
            key: named(key),
            operation: Operation::Delete,
            before: stored.get(key).map(|row| links_of(links, &row.links)),
            after: None,
        });
    }
    Ok(pending)
}
