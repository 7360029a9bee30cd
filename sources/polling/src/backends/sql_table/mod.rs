//! Tables of a database that keeps no log for us: Postgres, MySQL, MariaDB, SQLite.
//!
//! # How changes are found
//!
//! Each table is a stream of records. A table is read whole each time ([`TableChanges::Reconciled`]), or in order of a *cursor*: a
//! column that grows with every change, a moment or a number. A pass takes what stands behind the last row of the pass before, in
//! order of cursor and key, page by page; a page's place is its last row's cursor and key as the database writes them, so no digit
//! is rounded and no row is skipped where many share a cursor.
//!
//! # What a pass leaves for the next
//!
//! A row is written before it is committed, so a row may come to light behind one that was read. Two settings answer that:
//! - [`settle`](CursorSettings::settle): moments count once the *source's own* clock is so far past them. It should be longer than
//!   who writes takes to commit, and than a tick of the column.
//! - [`look_back`](CursorSettings::look_back): so much before the last row is read again each time; rows that are stored as they
//!   are make no change. Numbers have no clock: there it is the only answer.
//!
//! # What has no place in that order
//!
//! Rows without a cursor ([`nulls`](CursorSettings::nulls)) and rows ahead of the source's clock
//! ([`future`](CursorSettings::future)) are read whole in each pass, and never move the mark; or they are left alone until that
//! changes. Rows without a key are no records.
//!
//! # How removals are found
//!
//! A soft-delete column, a filter that no longer holds, a delete log, and a comparison of all keys at intervals, under the driver's
//! brake. Whenever everything is asked for, keys are compared as well. A row of the delete log whose key is there again is passed over.

mod catalog;
mod cell;
mod database;
mod dialect;
mod mark;
mod pass;
mod query;
mod scale;
mod settings;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use self::database::Database;
use self::pass::Pass;
use self::table::Table;
pub use settings::{CursorSettings, CursorUnit, DeleteLog, LookBack, SqlTableSettings, TableChanges, TableSettings};

use crate::model::{StreamDescriptor, StreamFetch, StreamFetchRequest, StreamKey};
use crate::{BackendError, SourceBackend};

/// Tables of a database as a source: see this module's page.
pub struct SqlTable {
    settings: SqlTableSettings,
    database: Database,
    // What the tables look like, since they were discovered. Held for a look or a change only, never across an await.
    tables: Mutex<HashMap<StreamKey, Arc<Table>>>,
}

impl SqlTable {
    /// A backend over these tables. Connects to nobody yet.
    ///
    /// # Errors
    /// `Configuration` when the address can't be used, or two streams have one name.
    pub fn new(settings: SqlTableSettings) -> Result<Self, BackendError> {
        let database = Database::new(&settings.url)?;
        let mut names: Vec<&String> = settings.tables.iter().map(|table| &table.stream).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(BackendError::configuration(format!("two streams have one name (stream={})", twice[0])));
        }
        Ok(Self { settings, database, tables: Mutex::default() })
    }

    /// A table as it was when it was looked at last.
    async fn table(&self, key: &StreamKey) -> Result<Arc<Table>, BackendError> {
        if let Some(table) = self.known().get(key) {
            return Ok(table.clone());
        }
        let settings = self.settings.tables.iter().find(|table| table.stream == key.as_str());
        let settings = settings.ok_or_else(|| BackendError::stream_gone("the settings name no such stream"))?;
        let table = Table::find(&self.database, settings).await?;
        let missing = || BackendError::stream_gone(format!("there is no such table (table={})", settings.table));
        let table = Arc::new(table.ok_or_else(missing)?);
        self.known().insert(key.clone(), table.clone());
        Ok(table)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<StreamKey, Arc<Table>>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl SourceBackend for SqlTable {
    fn source_system(&self) -> &str {
        "sql_table"
    }

    /// Tables get columns, and are made anew.
    fn rediscover_every_cycle(&self) -> bool {
        true
    }

    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
        let mut streams = Vec::with_capacity(self.settings.tables.len());
        let mut failed = Vec::new();
        for settings in &self.settings.tables {
            let key = StreamKey::new(&settings.stream);
            self.known().remove(&key);
            match self.table(&key).await {
                Ok(table) => streams.push(table.descriptor()),
                // The others would fail as well.
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => failed.push(error),
            }
        }
        match failed.into_iter().reduce(|first, _| first) {
            Some(error) if streams.is_empty() => Err(error),
            Some(error) => {
                tracing::warn!(%error, "a table can't be read");
                Ok(streams)
            }
            None => Ok(streams),
        }
    }

    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
        let mut fetches = Vec::with_capacity(requests.len());
        for request in requests {
            let key = request.key().clone();
            let outcome = match self.table(&key).await {
                Ok(table) => {
                    Pass { database: &self.database, settings: &self.settings, table: &table }.page(request).await
                }
                Err(error) => Err(error),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(page)) => fetches.push(StreamFetch { stream: key, outcome: Ok(page) }),
                // Whoever can't reach the database for one table can't for the next.
                Err(error) if error.is_retryable() => return Err(error),
                Err(error) => {
                    // It may look otherwise by now.
                    self.known().remove(&key);
                    fetches.push(StreamFetch::failed(key, error));
                }
            }
        }
        Ok(fetches)
    }
}
