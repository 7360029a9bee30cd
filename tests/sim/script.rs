//! One simulated life: writers, crashes, and the comparison at the end.

use std::hash::Hasher;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream::{Engine, Faults, Settings};

use crate::sink::{Disk, SimSink};
use crate::source::{SimCapture, SimDocuments, spec};
use crate::world::{Key, Row, Table, World, Write, order_document, user_document};

/// What a seed did.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    pub trace: u64,
    pub writes: u64,
    pub transactions: usize,
}

/// Runs one seed to its end.
///
/// # Errors
/// A sentence for each way in which the end is wrong.
pub fn run(seed: u64, faults: Faults) -> Result<Report, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(life(seed, faults))
}

async fn life(seed: u64, faults: Faults) -> Result<Report, String> {
    let world = World::new(seed);
    let disk = Arc::new(Mutex::new(Disk::default()));
    // Rows that were there before the engine, some of whose transactions are still open when it starts.
    (0..5).for_each(|_| write(&world));
    let writers = tokio::spawn(writer(world.clone()));
    let lives = 1 + world.below(4);
    for _ in 1..lives {
        let handle = start(&world, &disk, faults, seed).await?;
        tokio::time::sleep(Duration::from_millis(20 + world.below(700))).await;
        // As a kill would: what is under way is lost.
        handle.shutdown(Duration::ZERO).await;
    }
    let handle = start(&world, &disk, faults, seed).await?;
    writers.await.map_err(|error| error.to_string())?;
    let caught_up = async {
        while !(world.is_caught_up() && is_live(&handle)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(300), caught_up).await.is_ok();
    let status = handle.status();
    let drained = handle.shutdown(Duration::from_secs(60)).await;
    if !in_time {
        return Err(format!("the resume point did not catch up: {status:#?}"));
    }
    if status.last_error.as_ref().is_some_and(|error| error.contains("bug")) {
        return Err(format!("{:?}", status.last_error));
    }
    compare(&world, &disk)?;
    let disk = disk.lock().unwrap();
    if let Some(wrong) = &disk.went_back {
        return Err(wrong.clone());
    }
    let transactions = world.state.lock().unwrap().log.len();
    match &*drained {
        millstream::EndReason::Shutdown(millstream::Drained::Clean) => {}
        other => return Err(format!("it did not drain: {other:?}")),
    }
    Ok(Report { trace: disk.trace.finish(), writes: disk.writes, transactions })
}

fn is_live(handle: &millstream::Handle) -> bool {
    let status = handle.status();
    status.indexes.len() == 2 && status.indexes.values().all(|index| index.state == "live")
}

async fn start(
    world: &Arc<World>,
    disk: &Arc<Mutex<Disk>>,
    faults: Faults,
    seed: u64,
) -> Result<millstream::Handle, String> {
    let settings = Settings::default()
        .with_builders(3)
        .with_tickets(8)
        .with_change_batches(2)
        .with_lane_batches(1)
        .with_lane_touches(8)
        .with_build_batch(4)
        .with_sink_batches(2)
        .with_backfill_page(3)
        .with_backfill_pages(2)
        .with_confirm_every(Duration::from_millis(10))
        .with_retry_first(Duration::from_millis(2));
    let engine = Engine::builder("sim")
        .indexes(spec())
        .capture(SimCapture(world.clone()))
        .documents(SimDocuments(world.clone()))
        .sink("disk", SimSink { world: world.clone(), disk: disk.clone() })
        .settings(settings)
        .faults(faults)
        .seed(seed)
        .build()
        .map_err(|error| error.to_string())?;
    engine.start().await.map_err(|error| error.to_string())
}

async fn writer(world: Arc<World>) {
    let transactions = 20 + world.below(60);
    for _ in 0..transactions {
        let pause = if world.chance(40) { 2 } else { 40 };
        tokio::time::sleep(Duration::from_millis(world.below(pause))).await;
        write(&world);
    }
}

/// One transaction of a few random writes over rows that no open transaction has locked.
fn write(world: &Arc<World>) {
    let (mut locked, any_open) = world.locked();
    let mut tables = world.final_tables();
    let mut writes = Vec::new();
    for _ in 0..1 + world.below(6) {
        if world.chance(2) && !any_open {
            let table = if world.chance(50) { Table::Users } else { Table::Orders };
            tables.retain(|(other, _), _| *other != table);
            writes.push(Write::Truncate(table));
            continue;
        }
        let Some((table, old, new)) = random_write(world, &tables) else { continue };
        let keys: Vec<(Table, Key)> = old.iter().chain(&new).map(|(key, _)| (table, *key)).collect();
        if keys.iter().any(|key| locked.contains(key) && !own(&writes, key)) {
            continue;
        }
        locked.extend(&keys);
        if let Some((key, _)) = &old {
            tables.remove(&(table, *key));
        }
        if let Some((key, row)) = &new {
            tables.insert((table, *key), row.clone());
        }
        writes.push(Write::Row { table, old, new });
    }
    if !writes.is_empty() {
        world.commit(writes);
    }
}

fn own(writes: &[Write], key: &(Table, Key)) -> bool {
    writes.iter().any(|write| match write {
        Write::Row { table, old, new } => old.iter().chain(new).any(|(other, _)| (*table, *other) == *key),
        Write::Truncate(_) => false,
    })
}

type RandomWrite = (Table, Option<(Key, Row)>, Option<(Key, Row)>);

fn random_write(world: &World, tables: &crate::world::Tables) -> Option<RandomWrite> {
    let table = if world.chance(35) { Table::Users } else { Table::Orders };
    let key = world.below(12);
    let old = tables.get(&(table, key)).cloned().map(|row| (key, row));
    let fresh = || match table {
        Table::Users => Row::User { name: world.below(1000) },
        Table::Orders => Row::Order { user: world.chance(85).then(|| world.below(12)), total: world.below(1000) },
    };
    let new = match (&old, world.below(10)) {
        (None, _) => Some((key, fresh())),
        (Some(_), 0..=2) => None,
        // Another key: only one that is free.
        (Some((_, row)), 3) => {
            let other = world.below(12);
            if other != key && tables.contains_key(&(table, other)) {
                return None;
            }
            Some((other, row.clone()))
        }
        (Some(_), _) => Some((key, fresh())),
    };
    Some((table, old, new))
}

/// The oracle: every document as the final rows give it, and nothing else.
fn compare(world: &World, disk: &Mutex<Disk>) -> Result<(), String> {
    let tables = world.final_tables();
    let mut expected = std::collections::BTreeMap::new();
    for (table, id) in tables.keys() {
        let (index, document) = match table {
            Table::Users => ("users", user_document(&tables, *id)),
            Table::Orders => ("orders", order_document(&tables, *id)),
        };
        expected.insert((index.to_owned(), id.to_string()), document.unwrap());
    }
    let found = &disk.lock().unwrap().documents;
    let keys: std::collections::BTreeSet<_> = expected.keys().chain(found.keys()).collect();
    let wrong: Vec<String> = keys
        .into_iter()
        .filter(|key| expected.get(*key) != found.get(*key))
        .map(|key| format!("{key:?}: expected {:?}, found {:?}", expected.get(key), found.get(key)))
        .collect();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}
