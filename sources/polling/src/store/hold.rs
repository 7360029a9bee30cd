//! One driver at a time: two would both move the cursors.

use std::fs::{File, OpenOptions, TryLockError};

use millstream_core::{Result, SourceError};
use sqlx::postgres::PgConnection;
use sqlx::{ConnectOptions, Connection, Row};

use super::sql::classify;
use super::{Store, StoreSettings, options_of};

/// The right to write a store. The operating system or the server takes it back when the process dies.
pub(crate) enum Hold {
    File(File),
    Session(PgConnection),
}

impl Hold {
    /// Gives it back, and waits until it is free for others.
    pub(crate) async fn release(self) {
        match self {
            Self::File(file) => {
                let _ = file.unlock();
            }
            Self::Session(connection) => {
                let _ = connection.close().await;
            }
        }
    }
}

impl Store {
    /// Takes the right to write.
    ///
    /// # Errors
    /// `Held` when another driver has it.
    pub(crate) async fn hold(&self) -> Result<Hold> {
        match &self.shared.settings {
            StoreSettings::Sqlite { path } => {
                let mut beside = path.clone().into_os_string();
                beside.push(".lock");
                let unusable = |error: std::io::Error| {
                    SourceError::setup(format!("the store's lock can't be made (path={})", path.display()))
                        .with_cause(error)
                };
                let file =
                    OpenOptions::new().create(true).truncate(false).write(true).open(&beside).map_err(unusable)?;
                match file.try_lock() {
                    Ok(()) => Ok(Hold::File(file)),
                    Err(TryLockError::WouldBlock) => Err(held()),
                    Err(TryLockError::Error(error)) => Err(unusable(error)),
                }
            }
            StoreSettings::Postgres { url, schema } => {
                let doing = "the store can't be held";
                let mut connection =
                    options_of(url, schema)?.connect().await.map_err(|error| classify(doing, error))?;
                let taken = sqlx::query("select pg_try_advisory_lock(hashtext('millstream'), hashtext($1))")
                    .bind(schema)
                    .fetch_one(&mut connection)
                    .await
                    .and_then(|row| row.try_get::<bool, _>(0))
                    .map_err(|error| classify(doing, error))?;
                if taken { Ok(Hold::Session(connection)) } else { Err(held()) }
            }
        }
    }
}

fn held() -> SourceError {
    SourceError::held("another driver has the store").with_remedy("stop it, or give each its own store")
}
