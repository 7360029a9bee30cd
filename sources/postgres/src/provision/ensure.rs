use std::time::Duration;

use millstream_core::{Result, SourceError};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use crate::classify;

/// How often a statement that waits for a lock is tried before we give up.
const ATTEMPTS: u32 = 8;

/// Runs statements one by one.
///
/// Those that take a strong lock wait at most a second for it and are tried again, so that the application's queries never
/// queue up behind ours for long. Concurrent index builds wait as they need to: they block nobody.
pub(super) async fn run(connection: &mut PgConnection, statements: &[&str]) -> Result<()> {
    for statement in statements {
        let patient = statement.contains(" CONCURRENTLY ");
        set_lock_timeout(connection, if patient { "0" } else { "1s" }).await?;
        run_one(connection, statement).await?;
        tracing::info!(statement, "changed the database's set-up");
    }
    set_lock_timeout(connection, "0").await
}

async fn run_one(connection: &mut PgConnection, statement: &str) -> Result<()> {
    for attempt in 1.. {
        let Err(error) = sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut *connection).await else {
            return Ok(());
        };
        let code = error.as_database_error().and_then(|error| error.code()).unwrap_or_default().into_owned();
        match code.as_str() {
            // Someone else did it meanwhile: what matters is found by the inspection that follows.
            "42710" | "42P07" => return Ok(()),
            "55P03" if attempt < ATTEMPTS => tokio::time::sleep(Duration::from_millis(200) * attempt).await,
            "42501" => {
                let why = error.as_database_error().map(|error| error.message().to_owned()).unwrap_or_default();
                let error = SourceError::setup(format!("the role may not run a statement that is needed: {why}"));
                return Err(error.with_remedy(format!("run it as the owner: {statement};")));
            }
            _ => return Err(classify(&format!("a statement of the set-up failed ({statement})"), error)),
        }
    }
    unreachable!("the loop returns")
}

async fn set_lock_timeout(connection: &mut PgConnection, timeout: &str) -> Result<()> {
    sqlx::query("select set_config('lock_timeout', $1, false)")
        .bind(timeout)
        .fetch_one(connection)
        .await
        .map_err(|error| classify("can't set lock_timeout", error))?;
    Ok(())
}
