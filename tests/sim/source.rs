//! The engine's view of the world: a capture that streams its log, and a builder that reads it.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream::BoxStream;
use millstream::async_trait;
use millstream_cdc::{
    Ack, CaptureEvent, ChangeBatch, ChangeCapture, Confirm, KeyRange, Lag, PrepareMode, Prepared, Readiness,
    SourceIdentity, StartLine,
};
use millstream_core::schema::{
    Cardinality, Field, FieldKind, FieldType, IndexSchema, JoinPair, Path, Relation, ValueType,
};
use millstream_core::{Diagnostic, Result, SnapshotTable, SourceError, SourceSpec};
use millstream_document::{Built, DocumentBuilder, Reading, ResolvedPage};
use millstream_model::{
    ChangedRow, Fence, IndexName, KeyColumns, LinkValue, LinkValues, Operation, Position, QualifiedTable, RowKey, Text,
};

use crate::world::{Key, Row, Seen, Table, Transaction, World, Write, order_document, user_document};

pub fn table(table: Table) -> QualifiedTable {
    QualifiedTable::new("public", if table == Table::Users { "users" } else { "orders" })
}

fn key(id: Key) -> RowKey {
    RowKey::new(KeyColumns::from(vec![Text::from("id")]), [Text::from(id.to_string())])
}

fn id(key: &RowKey) -> Key {
    key.values()[0].parse().unwrap()
}

/// Users with their orders, and orders with their user.
pub fn spec() -> SourceSpec {
    let id_field = || Field {
        name: "id".into(),
        nullable: false,
        mapping: None,
        kind: FieldKind::Column {
            column: "id".into(),
            value: ValueType { field_type: FieldType::Long, array: false },
            transforms: vec![],
            default: None,
        },
    };
    let relation = |name: &str, cardinality, far: Table, left: &str, right: &str| Field {
        name: name.into(),
        nullable: false,
        mapping: None,
        kind: FieldKind::Relation(Relation {
            cardinality,
            path: Path {
                table: table(far),
                join: vec![JoinPair { left: left.into(), right: right.into() }],
                through: vec![],
                to: vec![],
                filter: None,
                distinct: false,
                ignore_moves: false,
            },
            when: None,
            order_by: vec![],
            limit: None,
            key_by: None,
            inline: false,
            fields: vec![id_field()],
        }),
    };
    let schema = |root, field| IndexSchema {
        table: table(root),
        key: None,
        filter: None,
        delete_when: None,
        fields: vec![id_field(), field],
    };
    SourceSpec::new([
        (
            "users".into(),
            schema(Table::Users, relation("orders", Cardinality::HasMany, Table::Orders, "id", "user_id")),
        ),
        (
            "orders".into(),
            schema(Table::Orders, relation("user", Cardinality::BelongsTo, Table::Users, "user_id", "id")),
        ),
    ])
}

pub struct SimCapture(pub Arc<World>);

struct Slot(Arc<World>);

impl Confirm for Slot {
    fn confirm(&self, position: Position) {
        let mut state = self.0.state.lock().unwrap();
        assert!(position.0 >= state.confirmed, "the resume point went back");
        state.confirmed = position.0;
    }
}

fn links(row: &Row) -> Option<LinkValues> {
    let Row::Order { user, .. } = row else { return None };
    let value = user.map_or(LinkValue::Null, |user| LinkValue::Text(user.to_string().into()));
    Some(LinkValues::new(KeyColumns::from(vec![Text::from("user_id")]), [value]))
}

fn changed(transaction: &Transaction, write: &Write) -> ChangedRow {
    let fence = Fence::new(transaction.id, Position(transaction.position));
    match write {
        Write::Truncate(of) => {
            ChangedRow::new(table(*of), RowKey::new(KeyColumns::from(vec![]), []), Operation::Truncate, fence)
        }
        Write::Row { table: of, old, new } => {
            let operation = if new.is_some() { Operation::Upsert } else { Operation::Delete };
            let at = new.as_ref().or(old.as_ref()).unwrap();
            let mut row = ChangedRow::new(table(*of), key(at.0), operation, fence);
            row.old_key = old.as_ref().filter(|old| old.0 != at.0).map(|old| key(old.0));
            row.before = old.as_ref().and_then(|(_, row)| links(row));
            row.after = new.as_ref().and_then(|(_, row)| links(row));
            row
        }
    }
}

#[async_trait]
impl ChangeCapture for SimCapture {
    async fn identity(&self) -> Result<SourceIdentity> {
        let state = self.0.state.lock().unwrap();
        let durable = state.slot.then_some(Position(state.confirmed));
        Ok(SourceIdentity { system: "sim".to_owned(), head: Position(state.head), durable, ..Default::default() })
    }

    async fn prepare(&self, _: &SourceSpec, mode: PrepareMode, _: Option<&str>) -> Result<Prepared> {
        self.0.dawdle(5).await;
        {
            let mut state = self.0.state.lock().unwrap();
            if !state.slot {
                assert_eq!(
                    mode,
                    PrepareMode::Create,
                    "a slot never comes into being silently once an index was filled"
                );
                state.slot = true;
                state.confirmed = state.head;
            }
        }
        Ok(Prepared::at(self.start_line().await?))
    }

    async fn start_line(&self) -> Result<StartLine> {
        let next = self.0.state.lock().unwrap().log.len() as u64 + 1;
        Ok(StartLine(Fence::new(next, self.0.position())))
    }

    async fn ready(&self, line: &StartLine) -> Result<Readiness> {
        let state = self.0.state.lock().unwrap();
        let open = (1..line.0.transaction()).filter(|id| !state.visible.contains(id)).collect::<Vec<_>>();
        Ok(if open.is_empty() { Readiness::Ready } else { Readiness::Waiting(vec![format!("transactions {open:?}")]) })
    }

    async fn live(&self) -> Result<BoxStream<'static, Result<CaptureEvent>>> {
        let world = self.0.clone();
        let from = world.state.lock().unwrap().confirmed;
        let stream = futures::stream::unfold((world, from), |(world, at)| async move {
            let transactions = loop {
                let notified = world.committed.notified();
                let found: Vec<Transaction> = {
                    let state = world.state.lock().unwrap();
                    state.log.iter().filter(|transaction| transaction.position > at).take(3).cloned().collect()
                };
                if !found.is_empty() {
                    break found;
                }
                notified.await;
            };
            if world.chance(1) {
                return Some((vec![Err(SourceError::connection("scripted: the socket was cut"))], (world, at)));
            }
            world.dawdle(3).await;
            let at = transactions.last().map_or(at, |transaction| transaction.position);
            let events = transactions.iter().flat_map(|transaction| batches(&world, transaction)).map(Ok).collect();
            Some((events, (world, at)))
        });
        Ok(stream.flat_map(futures::stream::iter).boxed())
    }

    async fn snapshot(&self, of: &SnapshotTable, range: KeyRange) -> Result<BoxStream<'static, Result<Vec<RowKey>>>> {
        let which = if of.table == table(Table::Users) { Table::Users } else { Table::Orders };
        let after = range.after.as_ref().map(id);
        let world = self.0.clone();
        let stream = futures::stream::unfold((world, after), move |(world, after)| async move {
            world.dawdle(8).await;
            if world.chance(3) {
                return Some((Err(SourceError::connection("scripted: the snapshot's socket was cut")), (world, after)));
            }
            let tables = world.tables(&world.visible());
            let keys = tables.keys().filter(|(table, key)| *table == which && after.is_none_or(|after| *key > after));
            let page: Vec<Key> = keys.map(|(_, key)| *key).take(4).collect();
            let last = *page.last()?;
            Some((Ok(page.into_iter().map(key).collect()), (world, Some(last))))
        });
        Ok(stream.boxed())
    }

    async fn lag(&self) -> Result<Option<Lag>> {
        Ok(None)
    }
}

/// A transaction's batches: cut at random, truncates alone; only the last moves the resume point.
fn batches(world: &Arc<World>, transaction: &Transaction) -> Vec<CaptureEvent> {
    let mut parts: Vec<Vec<ChangedRow>> = vec![Vec::new()];
    for write in &transaction.writes {
        let row = changed(transaction, write);
        let alone = row.operation == Operation::Truncate;
        if alone || world.chance(20) {
            parts.push(Vec::new());
        }
        parts.last_mut().unwrap().push(row);
        if alone {
            parts.push(Vec::new());
        }
    }
    let slot = Arc::new(Slot(world.clone()));
    let count = parts.len();
    let ack = |number| {
        if number + 1 == count {
            Ack::at(Position(transaction.position), slot.clone())
        } else {
            Ack::within(slot.clone())
        }
    };
    let batch = |(number, rows)| CaptureEvent::Changes(ChangeBatch { rows, ack: ack(number) });
    parts.into_iter().enumerate().map(batch).collect()
}

pub struct SimDocuments(pub Arc<World>);

#[async_trait]
impl DocumentBuilder for SimDocuments {
    fn resolve<'a>(&'a self, index: &'a IndexName, rows: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        let world = self.0.clone();
        futures::stream::once(async move {
            world.dawdle(5).await;
            if world.chance(2) {
                return Err(SourceError::connection("scripted: the resolver's socket was cut"));
            }
            let (root, seen) =
                (if index.as_str() == "users" { Table::Users } else { Table::Orders }, Seen(world.visible()));
            let mut page = ResolvedPage::default();
            for (number, row) in rows.iter().enumerate() {
                resolve_row(&world, root, row, number, &seen, &mut page);
            }
            world.dawdle(3).await;
            Ok(page)
        })
        .boxed()
    }

    async fn build_many(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        self.read(index, keys, 20).await
    }

    async fn build_page(&self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        if self.0.chance(3) {
            return Err(SourceError::query("scripted: the page has a row that can't be read"));
        }
        self.read(index, keys, 50).await
    }

    async fn inspect(&self, _: &IndexName) -> Result<Vec<Diagnostic>> {
        Ok(Vec::new())
    }
}

impl SimDocuments {
    /// `slow`: how many reads in a hundred are long on their way.
    async fn read(&self, index: &IndexName, keys: &[RowKey], slow: u32) -> Result<Reading> {
        self.0.dawdle(6).await;
        if self.0.chance(2) {
            return Err(SourceError::connection("scripted: the builder's socket was cut"));
        }
        let seen = self.0.visible();
        let tables = self.0.tables(&seen);
        let build = |key| {
            if index.as_str() == "users" { user_document(&tables, id(key)) } else { order_document(&tables, id(key)) }
        };
        let built = keys.iter().map(|key| build(key).map_or(Built::Absent, Built::Document)).collect();
        let most = if self.0.chance(slow) { 80 } else { 6 };
        self.0.dawdle(most).await;
        Ok(Reading { built, sight: Arc::new(Seen(seen)) })
    }
}

fn resolve_row(world: &World, root: Table, row: &ChangedRow, number: usize, seen: &Seen, page: &mut ResolvedPage) {
    use millstream_model::Sight;
    let of = if row.table == table(Table::Users) { Table::Users } else { Table::Orders };
    let mut touch = |key| page.touches.push((number, key));
    if of == root {
        if row.operation != Operation::Truncate {
            touch(row.key.clone());
            row.old_key.iter().cloned().for_each(touch);
        }
        return;
    }
    let reads_all = row.operation == Operation::Truncate;
    if root == Table::Users && !reads_all {
        // The links came with the change: no query.
        for links in row.before.iter().chain(&row.after) {
            if let LinkValue::Text(user) = links.get("user_id") {
                touch(key(user.parse().unwrap()));
            }
        }
        return;
    }
    let users: Vec<Key> =
        std::iter::once(&row.key).chain(&row.old_key).filter(|key| !key.values().is_empty()).map(id).collect();
    for ((table, id), found) in world.tables(&seen.0) {
        let matches = match &found {
            Row::Order { user: Some(user), .. } => reads_all || users.contains(user),
            _ => reads_all,
        };
        if table == root && matches {
            touch(key(id));
        }
    }
    if !seen.covers(&row.fence) {
        page.not_yet.push(number);
    }
}
