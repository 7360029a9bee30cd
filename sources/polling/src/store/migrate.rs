//! Brings a store up to date, by sqlx's own migrator under a table name of ours: a host's migrations may live beside it.

use std::borrow::Cow;

use millstream_core::{Result, SourceError};
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::dialect::ident;
use super::sql::{Sql, classify};

const SQLITE: [&str; 1] = [include_str!("../../migrations/1_store.sqlite.sql")];
const POSTGRES: [&str; 1] = [include_str!("../../migrations/1_store.postgres.sql")];

pub(super) async fn migrate(sql: &Sql, schema: &str) -> Result<()> {
    let done = match sql {
        Sql::Sqlite(pool) => migrator(&SQLITE).run(pool).await,
        Sql::Postgres(pool) => {
            let mut migrator = migrator(&POSTGRES);
            if schema != "public" {
                migrator.create_schema(ident(schema));
            }
            migrator.run(pool).await
        }
    };
    done.map_err(|error| match error {
        MigrateError::Execute(error) | MigrateError::ExecuteMigration(error, _) => {
            classify("the store's tables can't be made", error)
        }
        other => SourceError::setup(format!("the store's tables are not those of this version: {other}")),
    })
}

fn migrator(scripts: &[&'static str]) -> Migrator {
    let of = |(number, script): (usize, &&'static str)| {
        let (version, description) = (number as i64 + 1, Cow::Borrowed("store"));
        Migration::new(version, description, MigrationType::Simple, AssertSqlSafe(*script).into_sql_str(), false)
    };
    let mut migrator = Migrator::with_migrations(scripts.iter().enumerate().map(of).collect());
    migrator.dangerous_set_table_name("millstream_migrations");
    migrator
}
