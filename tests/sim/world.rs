//! A small multi-version store. Transactions are streamed when they commit and become visible later, as Postgres's do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use millstream_model::{Fence, Position, Sight};
use tokio::sync::Notify;

pub type Key = u64;

/// A row of either table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    User { name: u64 },
    Order { user: Option<Key>, total: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    Users,
    Orders,
}

#[derive(Clone, Debug)]
pub enum Write {
    /// Row by row: what was there before, under which key, and what is there after.
    Row {
        table: Table,
        old: Option<(Key, Row)>,
        new: Option<(Key, Row)>,
    },
    Truncate(Table),
}

#[derive(Clone, Debug)]
pub struct Transaction {
    pub id: u64,
    pub position: u64,
    pub writes: Vec<Write>,
}

pub type Tables = BTreeMap<(Table, Key), Row>;

#[derive(Default)]
pub struct State {
    pub log: Vec<Transaction>,
    pub visible: BTreeSet<u64>,
    pub confirmed: u64,
    pub head: u64,
    pub slot: bool,
}

/// The store and the log, shared by writers, capture and document builder. Outlives crashes of the engine.
pub struct World {
    pub state: Mutex<State>,
    pub rng: Mutex<Rng>,
    pub committed: Notify,
}

#[derive(Debug)]
pub struct Seen(pub BTreeSet<u64>);

impl Sight for Seen {
    fn covers(&self, fence: &Fence) -> bool {
        fence.is_none() || self.0.contains(&fence.transaction())
    }
}

impl World {
    pub fn new(seed: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), rng: Mutex::new(Rng::with_seed(seed)), committed: Notify::new() })
    }

    pub fn chance(&self, percent: u32) -> bool {
        self.rng.lock().unwrap().u32(0..100) < percent
    }

    pub fn below(&self, bound: u64) -> u64 {
        self.rng.lock().unwrap().u64(0..bound)
    }

    /// A random pause of up to so many milliseconds; often none.
    pub async fn dawdle(&self, most: u64) {
        let pause = if self.chance(40) { 0 } else { self.below(most + 1) };
        if pause > 0 {
            tokio::time::sleep(Duration::from_millis(pause)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }

    /// Every row as a reader sees it who sees just these transactions.
    pub fn tables(&self, seen: &BTreeSet<u64>) -> Tables {
        let state = self.state.lock().unwrap();
        fold(state.log.iter().filter(|transaction| seen.contains(&transaction.id)))
    }

    pub fn visible(&self) -> BTreeSet<u64> {
        self.state.lock().unwrap().visible.clone()
    }

    /// Every row, once all is visible.
    pub fn final_tables(&self) -> Tables {
        fold(self.state.lock().unwrap().log.iter())
    }

    /// Rows that a transaction which is not visible yet has written: locked, as far as other writers can tell.
    pub fn locked(&self) -> (BTreeSet<(Table, Key)>, bool) {
        let state = self.state.lock().unwrap();
        let open = state.log.iter().filter(|transaction| !state.visible.contains(&transaction.id));
        let (mut rows, mut any) = (BTreeSet::new(), false);
        for write in open.flat_map(|transaction| &transaction.writes) {
            any = true;
            if let Write::Row { table, old, new } = write {
                rows.extend(old.iter().chain(new).map(|(key, _)| (*table, *key)));
            }
        }
        (rows, any)
    }

    /// Commits: streamed now, visible after a while.
    pub fn commit(self: &Arc<Self>, writes: Vec<Write>) {
        let slow = self.chance(15);
        let delay = if slow { self.below(400) } else { self.below(12) };
        let id = {
            let mut state = self.state.lock().unwrap();
            let id = state.log.len() as u64 + 1;
            state.head += 10;
            let position = state.head;
            state.log.push(Transaction { id, position, writes });
            id
        };
        self.committed.notify_waiters();
        let world = self.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            world.state.lock().unwrap().visible.insert(id);
        });
    }

    pub fn is_caught_up(&self) -> bool {
        let state = self.state.lock().unwrap();
        state.confirmed >= state.head
    }

    pub fn position(&self) -> Position {
        Position(self.state.lock().unwrap().head)
    }
}

fn fold<'a>(log: impl Iterator<Item = &'a Transaction>) -> Tables {
    let mut tables = Tables::new();
    for write in log.flat_map(|transaction| &transaction.writes) {
        match write {
            Write::Row { table, old, new } => {
                if let Some((key, _)) = old {
                    tables.remove(&(*table, *key));
                }
                if let Some((key, row)) = new {
                    tables.insert((*table, *key), row.clone());
                }
            }
            Write::Truncate(table) => tables.retain(|(other, _), _| other != table),
        }
    }
    tables
}

/// The document of a user: its name and its orders, by key.
pub fn user_document(tables: &Tables, id: Key) -> Option<String> {
    let Some(Row::User { name }) = tables.get(&(Table::Users, id)) else { return None };
    let orders = tables.iter().filter_map(|((_, key), row)| match row {
        Row::Order { user: Some(user), total } if *user == id => Some(format!("{{\"id\":{key},\"total\":{total}}}")),
        _ => None,
    });
    Some(format!("{{\"id\":{id},\"name\":{name},\"orders\":[{}]}}", orders.collect::<Vec<_>>().join(",")))
}

/// The document of an order: its total and its user's name.
pub fn order_document(tables: &Tables, id: Key) -> Option<String> {
    let Some(Row::Order { user, total }) = tables.get(&(Table::Orders, id)) else { return None };
    let name = user.and_then(|user| match tables.get(&(Table::Users, user)) {
        Some(Row::User { name }) => Some(name.to_string()),
        _ => None,
    });
    Some(format!("{{\"id\":{id},\"total\":{total},\"user\":{}}}", name.unwrap_or("null".to_owned())))
}
