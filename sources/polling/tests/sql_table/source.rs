//! A database of a test's own, and a backend that reads it.

use millstream_model::Secret;
use millstream_polling::backends::{SqlTable, SqlTableSettings, TableSettings};
use millstream_polling::model::{
    Checkpoint, DataStream, FetchReason, Mode, Page, Payload, Record, RecordChange, StreamDescriptor,
    StreamFetchRequest,
};
use millstream_polling::{BackendError, SourceBackend};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Executor};
use tempfile::TempDir;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Sqlite,
    Postgres,
    MySql,
}

/// A schema in a database.
pub struct Source {
    pub kind: Kind,
    url: String,
    schema: Option<String>,
    _folder: Option<TempDir>,
}

impl Source {
    /// A file.
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("source.db");
        std::fs::File::create(&path).unwrap();
        let url = format!("sqlite:{}", path.display());
        Self { kind: Kind::Sqlite, url, schema: None, _folder: Some(folder) }
    }

    /// A schema in a server.
    pub async fn server(url: &str, promise: &str) -> Self {
        let kind = if url.starts_with("postgres") { Kind::Postgres } else { Kind::MySql };
        // MySQL's names have 64 letters at most.
        let schema: String = promise.chars().take(60).collect();
        let source = Self { kind, url: url.to_owned(), schema: Some(schema.clone()), _folder: None };
        match kind {
            Kind::MySql => {
                source
                    .run(&format!("drop database if exists `{schema}`; create database `{schema}` charset utf8mb4"))
                    .await;
            }
            _ => source.run(&format!("create schema \"{schema}\"")).await,
        }
        source
    }

    /// Runs statements.
    pub async fn run(&self, sql: &str) {
        let sql = AssertSqlSafe(sql.to_owned());
        match self.kind {
            Kind::Sqlite => {
                let options: sqlx::sqlite::SqliteConnectOptions = self.url.parse().unwrap();
                let mut connection = options.connect().await.unwrap();
                connection.execute(sqlx::raw_sql(sql)).await.unwrap();
                connection.close().await.unwrap();
            }
            Kind::Postgres => {
                let options: sqlx::postgres::PgConnectOptions = self.url.parse().unwrap();
                let mut connection = options.connect().await.unwrap();
                connection.execute(sqlx::raw_sql(sql)).await.unwrap();
                connection.close().await.unwrap();
            }
            #[cfg(feature = "mysql")]
            Kind::MySql => {
                let options: sqlx::mysql::MySqlConnectOptions = self.url.parse().unwrap();
                let mut connection = options.connect().await.unwrap();
                connection.execute(sqlx::raw_sql(sql)).await.unwrap();
                connection.close().await.unwrap();
            }
            #[cfg(not(feature = "mysql"))]
            Kind::MySql => unreachable!("only with the feature"),
        }
    }

    /// A name in the database's quotes.
    pub fn ident(&self, name: &str) -> String {
        match self.kind {
            Kind::MySql => format!("`{}`", name.replace('`', "``")),
            _ => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// A table in this schema, quoted.
    pub fn table(&self, name: &str) -> String {
        let schema = self.schema.as_ref().map(|schema| format!("{}.", self.ident(schema)));
        format!("{}{}", schema.unwrap_or_default(), self.ident(name))
    }

    /// Makes a table of `id`, a moment `at`, and a text `name`.
    pub async fn make(&self, name: &str) {
        let table = self.table(name);
        let moment = self.moment();
        self.run(&format!("create table {table} (id bigint primary key, at {moment}, name varchar(40))")).await;
    }

    /// Puts a row into such a table; `at` is an SQL expression.
    pub async fn put(&self, name: &str, id: i64, at: &str, text: &str) {
        let table = self.table(name);
        self.run(&format!("delete from {table} where id = {id}; insert into {table} values ({id}, {at}, '{text}')"))
            .await;
    }

    /// The type of moments.
    pub fn moment(&self) -> &'static str {
        match self.kind {
            Kind::Sqlite => "text",
            Kind::Postgres => "timestamptz",
            Kind::MySql => "datetime(6)",
        }
    }

    /// A moment so many seconds ago, as an SQL expression.
    pub fn ago(&self, seconds: i64) -> String {
        match self.kind {
            Kind::Sqlite => format!("strftime('%Y-%m-%d %H:%M:%f', 'now', '{} seconds')", -seconds),
            Kind::Postgres => format!("clock_timestamp() - interval '{seconds} seconds'"),
            Kind::MySql => format!("utc_timestamp(6) - interval {seconds} second"),
        }
    }

    /// A backend over some tables.
    pub fn open(&self, tables: impl IntoIterator<Item = TableSettings>) -> Reader {
        self.open_with(tables, |settings| settings)
    }

    /// The same with other settings.
    pub fn open_with(
        &self,
        tables: impl IntoIterator<Item = TableSettings>,
        change: impl FnOnce(SqlTableSettings) -> SqlTableSettings,
    ) -> Reader {
        let mut settings = SqlTableSettings::new(Secret::new(self.url.clone()));
        for table in tables {
            let schema = self.schema.clone();
            settings = settings.with_table(table.with(|table| table.schema = schema));
        }
        Reader { backend: SqlTable::new(change(settings)).unwrap() }
    }

    /// The schema's name.
    pub fn schema(&self) -> Option<String> {
        self.schema.clone()
    }
}

/// A backend, asked as the driver asks.
pub struct Reader {
    pub backend: SqlTable,
}

/// What a pass came to.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// Keys of rows that are there, in order.
    pub present: Vec<String>,
    /// Keys of rows that are gone.
    pub removed: Vec<String>,
    /// All keys, if they were told.
    pub keys: Option<Vec<String>>,
    pub refused: Vec<String>,
    /// Rows of each page that had any.
    pub pages: Vec<usize>,
}

impl Reader {
    pub async fn streams(&self) -> Vec<StreamDescriptor> {
        self.backend.discover_streams().await.unwrap()
    }

    pub async fn page(
        &self,
        key: &str,
        checkpoint: Option<&Checkpoint>,
        reason: FetchReason,
    ) -> Option<Result<Page, BackendError>> {
        let descriptor = StreamDescriptor::records(key, ["id"]);
        let request = StreamFetchRequest {
            stream: DataStream { id: key.to_owned(), descriptor },
            mode: Mode::Append,
            since: None,
            checkpoint: checkpoint.cloned(),
            reason,
        };
        let mut fetches = match self.backend.fetch_readings(&[request]).await {
            Ok(fetches) => fetches,
            Err(error) => return Some(Err(error)),
        };
        assert!(fetches.len() <= 1);
        fetches.pop().map(|fetch| fetch.outcome)
    }

    /// A whole pass from a mark on, which it moves.
    pub async fn pass(&self, key: &str, mark: &mut Option<Checkpoint>) -> Told {
        self.pass_for(key, mark, FetchReason::Cycle).await
    }

    pub async fn pass_for(&self, key: &str, mark: &mut Option<Checkpoint>, reason: FetchReason) -> Told {
        let mut told = Told::default();
        while let Some(page) = self.page(key, mark.as_ref(), reason).await {
            let page = page.unwrap();
            if !page.payload.is_empty() {
                told.pages.push(page.payload.len());
            }
            match page.payload {
                Payload::Records(changes) => changes.into_iter().for_each(|change| match change {
                    RecordChange::Present(record) => told.present.push(record.key.join(":")),
                    RecordChange::Removed(key) => told.removed.push(key.join(":")),
                }),
                Payload::KeySet(set) => {
                    let mut keys: Vec<String> = set.keys.iter().map(|key| key.join(":")).collect();
                    keys.sort();
                    told.keys = Some(keys);
                }
                other => panic!("{other:?}"),
            }
            told.refused.extend(page.refused.into_iter().map(|refusal| refusal.reason));
            if page.more {
                assert!(page.checkpoint.is_some() && page.checkpoint != *mark, "more leads on");
            }
            *mark = page.checkpoint;
            if !page.more {
                break;
            }
        }
        told
    }

    /// All records of a table that is read whole.
    pub async fn whole(&self, key: &str) -> Vec<Record> {
        let page = self.page(key, None, FetchReason::Cycle).await.unwrap().unwrap();
        let Payload::RecordSet(set) = page.payload else { panic!("a set") };
        let mut records = set.records;
        records.sort_by(|one, other| one.key.cmp(&other.key));
        records
    }
}
