//! What was landed and has yet to be acked: written with the rows, in one transaction, and removed by the ack.
//!
//! So whatever dies between a landing and its ack, the change is told again. Each stream has a line of its own: acks of one
//! line come in order, and say nothing of another's.

use std::collections::{BTreeMap, HashMap};

use millstream_cdc::Line;
use millstream_core::{Result, SourceError};
use millstream_model::{ChangedRow, Fence, KeyColumns, LinkValue, LinkValues, Operation, Position, RowKey, Text};
use serde_json::{Map, Value as Json};

use super::keep::keep_acked;
use super::land::Mark;
use super::sql::{SqlRow, Tx, Value, values};
use super::{Store, TableShape};

/// A change to write.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub table: String,
    /// Column and text, in the key's order.
    pub key: Vec<(String, String)>,
    pub operation: Operation,
    /// Link columns and their texts where there was a row; `None` also when they are as before.
    pub before: Option<Map<String, Json>>,
    pub after: Option<Map<String, Json>>,
}

/// Changes of one line, in order, and the position of the last.
#[derive(Debug)]
pub(crate) struct Emitted {
    pub rows: Vec<ChangedRow>,
    pub last: Position,
}

/// Link columns and their texts.
pub(crate) fn links_of(columns: &[Text], texts: &[Option<String>]) -> Map<String, Json> {
    let of =
        |(column, text): (&Text, &Option<String>)| (column.to_string(), text.clone().map_or(Json::Null, Json::String));
    columns.iter().zip(texts).map(of).collect()
}

/// Writes changes of one line in order.
pub(super) async fn write(tx: &mut Tx, line: Line, pending: &[Pending]) -> Result<()> {
    const WIDTH: usize = 6;
    for chunk in pending.chunks(TableShape::rows_at_once(WIDTH)) {
        let mut values: Vec<Value> = Vec::with_capacity(chunk.len() * WIDTH);
        for change in chunk {
            let key = Json::Array(change.key.iter().map(|(column, text)| serde_json::json!([column, text])).collect());
            let links = |links: &Option<Map<String, Json>>| links.clone().map(|links| Json::Object(links).to_string());
            values.push(number(line).into());
            values.push(change.table.as_str().into());
            values.push(key.to_string().into());
            values.push(if change.operation == Operation::Delete { "d" } else { "u" }.into());
            values.push(links(&change.before).into());
            values.push(links(&change.after).into());
        }
        let tuples: Vec<String> = (0..chunk.len()).map(|at| numbered(at * WIDTH + 1, WIDTH)).collect();
        let sql =
            format!("insert into millstream_changes (line, tbl, key, op, before, after) values {}", tuples.join(", "));
        tx.execute(sql, &values).await?;
    }
    Ok(())
}

fn numbered(first: usize, width: usize) -> String {
    let numbers: Vec<String> = (first..first + width).map(|number| format!("${number}")).collect();
    format!("({})", numbers.join(", "))
}

/// Notes what becomes true once all of a line that is landed so far is acked. True at once when nothing is open.
pub(super) async fn mark(tx: &mut Tx, line: Line, mark: &Mark) -> Result<()> {
    if mark.is_empty() {
        return Ok(());
    }
    let open = tx.fetch("select max(seq) from millstream_changes where line = $1", &values![number(line)]).await?;
    match open.first().map(|row| row.integer_or_null(0)).transpose()?.flatten() {
        None => apply(tx, line, mark).await,
        Some(seq) => {
            let checkpoint = mark.checkpoint.clone().flatten().map(|checkpoint| checkpoint.0);
            let says = i64::from(mark.checkpoint.is_some());
            let since = mark.since.map(|since| since.micros());
            let values = values![number(line), seq, since, says, checkpoint, mark.digest.clone()];
            const MARK: &str = "insert into millstream_marks (line, seq, since, says_checkpoint, checkpoint, digest) \
                                values ($1, $2, $3, $4, $5, $6)";
            tx.execute(MARK, &values).await?;
            Ok(())
        }
    }
}

async fn apply(tx: &mut Tx, line: Line, mark: &Mark) -> Result<()> {
    if let Some(since) = mark.since {
        const SINCE: &str =
            "update millstream_streams set since = $2 where line = $1 and (since is null or since < $2)";
        tx.execute(SINCE, &values![number(line), since.micros()]).await?;
    }
    if let Some(checkpoint) = &mark.checkpoint {
        let checkpoint = checkpoint.as_ref().map(|checkpoint| checkpoint.0.clone());
        let values = values![number(line), checkpoint];
        tx.execute("update millstream_streams set checkpoint = $2 where line = $1", &values).await?;
    }
    if let Some(digest) = &mark.digest {
        let values = values![number(line), digest.as_str()];
        tx.execute("update millstream_streams set digest = $2 where line = $1", &values).await?;
    }
    Ok(())
}

impl Store {
    /// Up to where each line is landed and not acked.
    pub(crate) async fn open_lines(&self) -> Result<BTreeMap<Line, Position>> {
        let rows = self.sql().fetch("select line, max(seq) from millstream_changes group by line", &[]).await?;
        rows.iter().map(|row| Ok((Line(position(row.integer(0)?).0), position(row.integer(1)?)))).collect()
    }

    /// The next changes of a line behind a position, at most `limit`. `None`: no more for now.
    pub(crate) async fn changes(&self, line: Line, after: Position, limit: usize) -> Result<Option<Emitted>> {
        const NEXT: &str = "select seq, tbl, key, op, before, after from millstream_changes \
                            where line = $1 and seq > $2 order by seq limit $3";
        let values = values![number(line), after.0 as i64, limit as i64];
        let found = self.sql().fetch(NEXT, &values).await?;
        let Some(last) = found.last() else { return Ok(None) };
        let last = position(last.integer(0)?);
        let mut reader = Reader::default();
        let rows = found.iter().map(|row| reader.read(self, row)).collect::<Result<_>>()?;
        Ok(Some(Emitted { rows, last }))
    }

    /// Everything of these lines up to these positions is durable in every sink: what was marked becomes true.
    pub(crate) async fn ack(&self, lines: &BTreeMap<Line, Position>) -> Result<()> {
        let mut tx = self.sql().begin().await?;
        for (line, upto) in lines {
            let values = values![number(*line), upto.0 as i64];
            tx.execute("delete from millstream_changes where line = $1 and seq <= $2", &values).await?;
            const MARKS: &str = "select since, says_checkpoint, checkpoint, digest from millstream_marks \
                                 where line = $1 and seq <= $2 order by number";
            let mut merged = Mark::default();
            for row in tx.fetch(MARKS, &values).await? {
                merged.then(Mark::read(&row)?);
            }
            apply(&mut tx, *line, &merged).await?;
            tx.execute("delete from millstream_marks where line = $1 and seq <= $2", &values).await?;
        }
        if let Some(highest) = lines.values().max() {
            keep_acked(&mut tx, *highest).await?;
        }
        tx.commit().await
    }

    /// The newest position that is landed, and the highest below which all is acked.
    ///
    /// The second never passes what was confirmed, so that a saved position that is behind it tells of a stranger.
    pub(crate) async fn head_and_durable(&self) -> Result<(Position, Position)> {
        let acked = self.acked().await?;
        let rows = self.sql().fetch("select min(seq), max(seq) from millstream_changes", &[]).await?;
        let (first, last) = match rows.first() {
            Some(row) => (row.integer_or_null(0)?, row.integer_or_null(1)?),
            None => (None, None),
        };
        let head = last.map_or(acked, |last| position(last).max(acked));
        let durable = first.map_or(acked, |first| position(first - 1).min(acked));
        Ok((head, durable))
    }
}

/// A line's number in the store.
pub(super) fn number(line: Line) -> i64 {
    i64::try_from(line.0).unwrap_or(i64::MAX)
}

fn position(seq: i64) -> Position {
    Position(u64::try_from(seq).unwrap_or(0))
}

/// Shares key and link columns between the rows of a read.
#[derive(Default)]
struct Reader {
    keys: HashMap<String, KeyColumns>,
    links: HashMap<String, KeyColumns>,
}

impl Reader {
    fn read(&mut self, store: &Store, row: &SqlRow) -> Result<ChangedRow> {
        let name = row.text(1)?;
        let table = store.table(&name);
        let key: Vec<(String, String)> = serde_json::from_str(&row.text(2)?).map_err(unreadable)?;
        let columns = match self.keys.get(&name) {
            Some(columns) if columns.iter().map(Text::as_str).eq(key.iter().map(|(column, _)| column.as_str())) => {
                columns.clone()
            }
            _ => {
                let columns: KeyColumns = key.iter().map(|(column, _)| Text::from(column)).collect();
                self.keys.insert(name.clone(), columns.clone());
                columns
            }
        };
        let links = self.links.entry(name).or_insert_with(|| store.links(&table).into()).clone();
        let read = |place| -> Result<Option<LinkValues>> {
            let Some(text) = row.text_or_null(place)? else { return Ok(None) };
            let texts: Map<String, Json> = serde_json::from_str(&text).map_err(unreadable)?;
            let values = links.iter().map(|column| match texts.get(column.as_str()) {
                None => LinkValue::Absent,
                Some(Json::String(text)) => LinkValue::Text(Text::from(text)),
                Some(_) => LinkValue::Null,
            });
            Ok(Some(LinkValues::new(links.clone(), values)))
        };
        let operation = if row.text(3)? == "d" { Operation::Delete } else { Operation::Upsert };
        let key = RowKey::new(columns, key.into_iter().map(|(_, text)| Text::from(text)));
        let mut change = ChangedRow::new(table, key, operation, Fence::NONE);
        change.before = read(4)?;
        change.after = read(5)?;
        Ok(change)
    }
}

fn unreadable(error: serde_json::Error) -> SourceError {
    SourceError::decode("a change of the store can't be read").with_cause(error)
}
