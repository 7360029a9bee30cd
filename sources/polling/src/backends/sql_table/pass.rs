//! One page of one table: which part of a pass is due, what it reads, and where the next goes on.

use std::time::Duration;

use super::SqlTableSettings;
use super::catalog::SourceColumn;
use super::cell::Cell;
use super::database::Database;
use super::mark::{Mark, Phase, Place};
use super::scale::Scale;
use super::settings::{CursorSettings, TableChanges};
use super::table::{Log, Table, cursor_of};
use crate::BackendError;
use crate::model::{
    FetchReason, KeySet, Page, Payload, Record, RecordChange, RecordKey, RecordSet, Refusal, RefusedRow,
    StreamFetchRequest, Timestamp,
};

/// Reads pages of a table.
pub(super) struct Pass<'a> {
    pub database: &'a Database,
    pub settings: &'a SqlTableSettings,
    pub table: &'a Table,
}

impl Pass<'_> {
    /// The next page; `None`: nothing new.
    pub(super) async fn page(&self, request: &StreamFetchRequest) -> Result<Option<Page>, BackendError> {
        let (Some(cursor), Some(column)) = (cursor_of(&self.table.settings), &self.table.cursor) else {
            return self.everything().await.map(Some);
        };
        let asked = request.checkpoint.clone();
        let mut mark = Mark::read(asked.as_ref(), &self.table.fingerprint);
        let mut place = match mark.at.take() {
            Some(place) => place,
            None => self.rows_place(cursor, column, &mark).await?,
        };
        loop {
            let (payload, refused, is_end) = self.read(&mut place, column, &mut mark).await?;
            let next =
                if is_end { self.after(place, cursor, column, &mut mark, request.reason).await? } else { Some(place) };
            let is_nothing = payload.is_empty() && refused.is_empty() && !payload.is_complete();
            match next {
                Some(next) if is_nothing => place = next,
                next => {
                    let more = next.is_some();
                    mark.at = next;
                    let checkpoint = Some(mark.checkpoint());
                    let is_same = is_nothing && checkpoint == asked;
                    return Ok((!is_same).then_some(Page { payload, refused, checkpoint, more }));
                }
            }
        }
    }

    /// Reads on; true: the phase is at its end.
    async fn read(
        &self,
        place: &mut Place,
        cursor: &SourceColumn,
        mark: &mut Mark,
    ) -> Result<(Payload, Vec<Refusal>, bool), BackendError> {
        let table = self.table;
        let size = self.settings.page_rows.max(1);
        let query = match (place.phase, &table.log) {
            (Phase::Keys, _) => {
                mark.keys_at = Some(Timestamp::now());
                return Ok((self.keys().await?, Vec::new(), true));
            }
            (Phase::Log, Some(log)) => table.log_page(log, place, size),
            (Phase::Log, None) => return Ok((Payload::Records(Vec::new()), Vec::new(), true)),
            _ => table.page(cursor, place, size),
        };
        let rows = self.database.rows(query.sql, &query.values).await?;
        let is_end = rows.len() < size;
        let width = table.key.len();
        let (mut changes, mut refused) = (Vec::with_capacity(rows.len()), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            let is_log = place.phase == Phase::Log;
            // A row of the log has no flag, and nothing behind its key.
            let from = usize::from(!is_log);
            if at + 1 == rows.len() {
                let skipped = usize::from(place.phase == Phase::Nulls);
                place.last = row[from + skipped..=from + width].to_vec();
            }
            let key = match self.key(&row[from + 1..=from + width]) {
                Ok(key) => key,
                Err(refusal) => {
                    refused.push(refusal);
                    continue;
                }
            };
            if is_log || !row[0].is_set() {
                changes.push(RecordChange::Removed(key));
                continue;
            }
            match self.record(key, &row[from + 1 + width..]) {
                Ok(record) => changes.push(RecordChange::Present(record)),
                Err(refusal) => refused.push(refusal),
            }
        }
        Ok((Payload::Records(changes), refused, is_end))
    }

    /// Where the phase behind one begins; `None`: the pass is over.
    async fn after(
        &self,
        place: Place,
        cursor: &CursorSettings,
        column: &SourceColumn,
        mark: &mut Mark,
        reason: FetchReason,
    ) -> Result<Option<Place>, BackendError> {
        let mut phase = place.phase;
        match phase {
            Phase::Rows if !place.last.is_empty() => mark.rows = place.last,
            Phase::Log if !place.last.is_empty() => mark.log = place.last,
            _ => {}
        }
        while let Some(next) = phase.next() {
            phase = next;
            let found = match phase {
                Phase::Future if cursor.future => self.future_place(cursor, column).await?,
                Phase::Nulls if cursor.nulls && column.nullable => Some(Place::at_the_beginning(phase)),
                Phase::Log => match &self.table.log {
                    Some(log) => Some(self.log_place(log, mark).await?),
                    None => None,
                },
                Phase::Keys if self.keys_are_due(mark, reason) => Some(Place::at_the_beginning(phase)),
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn keys_are_due(&self, mark: &Mark, reason: FetchReason) -> bool {
        let every = match &self.table.settings.changes {
            TableChanges::Cursor { reconcile_keys, .. } => *reconcile_keys,
            TableChanges::Reconciled => None,
        };
        let is_old = |every: Duration| mark.keys_at.is_none_or(|at| Timestamp::now().since(at) >= every);
        reason != FetchReason::Cycle || every.is_some_and(is_old)
    }

    async fn rows_place(
        &self,
        cursor: &CursorSettings,
        column: &SourceColumn,
        mark: &Mark,
    ) -> Result<Place, BackendError> {
        let scale = self.scale(&self.table.name, column, cursor).await?;
        self.place(Phase::Rows, &scale, cursor, &mark.rows).await
    }

    async fn log_place(&self, log: &Log, mark: &Mark) -> Result<Place, BackendError> {
        let cursor = &log.settings.cursor;
        let scale = self.scale(&log.name, &log.cursor, cursor).await?;
        self.place(Phase::Log, &scale, cursor, &mark.log).await
    }

    /// Where what has to settle no more begins and ends.
    async fn place(
        &self,
        phase: Phase,
        scale: &Scale,
        cursor: &CursorSettings,
        last: &[Cell],
    ) -> Result<Place, BackendError> {
        let until = match scale {
            Scale::Numbers | Scale::Plain => None,
            _ => scale.value(self.now().await?.minus(cursor.settle)),
        };
        let place = Place { until, ..Place::at_the_beginning(phase) };
        Ok(match (last.first(), cursor.look_back) {
            (None, _) => place,
            (Some(_), super::LookBack::Nothing) => Place { last: last.to_vec(), ..place },
            (Some(high), look_back) => Place { from: scale.before(high, look_back), ..place },
        })
    }

    /// Where rows begin that are ahead of the source's clock; `None`: the cursor knows no clock.
    async fn future_place(
        &self,
        cursor: &CursorSettings,
        column: &SourceColumn,
    ) -> Result<Option<Place>, BackendError> {
        let scale = self.scale(&self.table.name, column, cursor).await?;
        if matches!(scale, Scale::Numbers | Scale::Plain) {
            return Ok(None);
        }
        let from = scale.value(self.now().await?);
        Ok(Some(Place { from, ..Place::at_the_beginning(Phase::Future) }))
    }

    async fn scale(&self, table: &str, column: &SourceColumn, cursor: &CursorSettings) -> Result<Scale, BackendError> {
        let newest = if column.order == super::catalog::Order::Unknown {
            let rows = self.database.rows(self.table.newest(table, column), &[]).await?;
            rows.into_iter().flatten().next().unwrap_or(Cell::Null)
        } else {
            Cell::Null
        };
        Scale::of(self.table.dialect, column, cursor, self.table.settings.zone_minutes, &newest)
    }

    /// The source's own clock.
    async fn now(&self) -> Result<Timestamp, BackendError> {
        let rows = self.database.rows(self.table.dialect.now().to_owned(), &[]).await?;
        let text = rows.first().and_then(|row| row.first()).and_then(Cell::text).unwrap_or_default();
        Timestamp::parse(&text)
            .ok_or_else(|| BackendError::undecodable(format!("the database's clock can't be read (said={text:?})")))
    }

    /// Every key.
    async fn keys(&self) -> Result<Payload, BackendError> {
        let rows = self.all(self.table.keys()).await?;
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            let key = self.key(&row).map_err(|refusal| BackendError::undecodable(refusal.reason))?;
            keys.push(key);
        }
        Ok(Payload::KeySet(KeySet { keys }))
    }

    /// The whole table.
    async fn everything(&self) -> Result<Page, BackendError> {
        let rows = self.all(self.table.everything()).await?;
        let rows_read = rows.len() as u64;
        let (mut records, mut refused) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            let (key, columns) = row.split_at(self.table.key.len());
            match self.key(key).and_then(|key| self.record(key, columns)) {
                Ok(record) => records.push(record),
                Err(refusal) => refused.push(refusal),
            }
        }
        let payload = Payload::RecordSet(RecordSet { records, rows_read });
        Ok(Page { payload, refused, checkpoint: None, more: false })
    }

    async fn all(&self, sql: String) -> Result<Vec<Vec<Cell>>, BackendError> {
        let most = self.settings.rows_max;
        let rows = self.database.rows_up_to(sql, &[], most).await?;
        if rows.len() > most {
            return Err(BackendError::configuration(format!(
                "the table has more rows than may be read in one piece (rows_max={most}): raise it, or find changes by a \
                 cursor and removals by a delete log"
            )));
        }
        Ok(rows)
    }

    fn key(&self, cells: &[Cell]) -> Result<RecordKey, Refusal> {
        let columns = self.table.key.iter().zip(cells);
        let text = |(column, cell): (&SourceColumn, &Cell)| cell.key_text(column.kind, &self.table.zone);
        columns
            .map(text)
            .collect::<Option<RecordKey>>()
            .ok_or_else(|| Refusal { row: RefusedRow::Unknown, reason: "a row without a key".to_owned() })
    }

    fn record(&self, key: RecordKey, cells: &[Cell]) -> Result<Record, Refusal> {
        let mut fields = serde_json::Map::with_capacity(cells.len());
        for (column, cell) in self.table.columns.iter().zip(cells) {
            match cell.json(column.kind, &self.table.zone) {
                Ok(value) => drop(fields.insert(column.name.clone(), value)),
                Err(why) => {
                    let reason = format!("record {key:?}: column {}: {why}", column.name);
                    return Err(Refusal { row: RefusedRow::Under(key), reason });
                }
            }
        }
        Ok(Record { key, fields })
    }
}

impl Place {
    fn at_the_beginning(phase: Phase) -> Self {
        Self { phase, from: None, until: None, last: Vec::new() }
    }
}
