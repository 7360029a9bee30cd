//! The server under measure: one of our own, or one that was named; and the databases that scenarios get on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_tests::{Cluster, Connection, connect};
use sqlx::postgres::PgConnectOptions;

use crate::Result;
use crate::shop::{self, Sizes};

/// Lines of our own server's configuration: memory enough that what is measured is work, and no process that others wait for.
const CONF: [&str; 6] = [
    "shared_buffers = 1GB",
    "max_wal_size = 16GB",
    "checkpoint_timeout = 1h",
    "autovacuum = off",
    "wal_sender_timeout = 10min",
    "logical_decoding_work_mem = 256MB",
];
/// Settings that a reader of the result should know.
const TOLD: [&str; 6] = ["server_version", "shared_buffers", "fsync", "wal_level", "synchronous_commit", "jit"];
const TEMPLATE: &str = "bench_template";

/// A Postgres server with a filled shop to copy from. Databases that it made are dropped by [`close`](Self::close); a server of
/// our own ends when this is dropped.
pub struct Server {
    cluster: Option<Arc<Cluster>>,
    url: String,
    made: u32,
}

/// A database of one scenario's own.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its name, which is also that of the slot and the publication.
    pub name: String,
    /// Its URL.
    pub url: String,
}

impl Server {
    /// Starts one, or takes the one of `url`, whose role may make databases and replicate.
    ///
    /// # Errors
    /// When it can't be reached.
    pub async fn start(url: Option<&str>) -> Result<Self> {
        let (cluster, url) = match url {
            Some(url) => (None, url.to_owned()),
            None => {
                let builder = CONF.iter().fold(Cluster::builder(), |builder, line| builder.conf(line));
                let cluster = builder.start().await;
                let url = cluster.url("postgres", "postgres");
                (Some(cluster), url)
            }
        };
        let server = Self { cluster, url, made: 0 };
        server.connect().await?.close().await;
        Ok(server)
    }

    /// A session in the database that was named.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn connect(&self) -> Result<Connection> {
        session(&self.url).await
    }

    /// The process that all of the server's are children of; 0 when it is not ours to know.
    pub fn postmaster(&self) -> u32 {
        let pid_file = self.cluster.as_ref().map(|cluster| cluster.data().join("postmaster.pid"));
        let text = pid_file.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
        text.lines().next().and_then(|pid| pid.trim().parse().ok()).unwrap_or(0)
    }

    /// Fills the shop that databases are copied from. Takes a while at scale 1.
    ///
    /// # Errors
    /// When the server refuses a statement.
    pub async fn fill(&self, sizes: &Sizes) -> Result {
        let mut admin = self.connect().await?;
        try_run(&mut admin, &format!("drop database if exists {TEMPLATE}")).await?;
        try_run(&mut admin, &format!("create database {TEMPLATE}")).await?;
        let mut sql = session(&in_database(&self.url, TEMPLATE)?).await?;
        try_run(&mut sql, shop::TABLES).await?;
        try_run(&mut sql, &shop::fill(sizes)).await?;
        try_run(&mut sql, "vacuum (freeze, analyze)").await?;
        try_run(&mut sql, "checkpoint").await?;
        sql.close().await;
        admin.close().await;
        Ok(())
    }

    /// A copy of the filled shop.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn database(&mut self, scenario: &str) -> Result<Database> {
        self.made += 1;
        let name = format!("bench_{}_{}", scenario.replace('-', "_"), self.made);
        let mut admin = self.connect().await?;
        try_run(&mut admin, &format!("drop database if exists {name}")).await?;
        try_run(&mut admin, &format!("create database {name} template {TEMPLATE}")).await?;
        admin.close().await;
        Ok(Database { url: in_database(&self.url, &name)?, name })
    }

    /// Drops a database and its slots.
    ///
    /// # Errors
    /// When a slot is still in use, or the server refuses it.
    pub async fn remove(&self, database: &Database) -> Result {
        let mut admin = self.connect().await?;
        let slots = format!(
            "select pg_drop_replication_slot(slot_name)::text from pg_replication_slots where database = '{}'",
            database.name
        );
        admin.try_rows(&slots).await.map_err(|error| format!("can't drop a slot: {error}"))?;
        try_run(&mut admin, &format!("drop database {} with (force)", database.name)).await?;
        admin.close().await;
        Ok(())
    }

    /// Drops the shop that databases were copied from.
    ///
    /// # Errors
    /// When the server refuses it.
    pub async fn close(self) -> Result {
        let mut admin = self.connect().await?;
        try_run(&mut admin, &format!("drop database if exists {TEMPLATE}")).await
    }

    /// Version and settings, for the result.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn settings(&self) -> Result<BTreeMap<String, String>> {
        let mut admin = self.connect().await?;
        let mut settings = BTreeMap::new();
        for name in TOLD {
            settings.insert(name.to_owned(), admin.text(&format!("current_setting('{name}')")).await);
        }
        Ok(settings)
    }
}

/// A session, pinned as the engine pins its own.
///
/// # Errors
/// When the server refuses it.
pub async fn session(url: &str) -> Result<Connection> {
    let mut connection = connect(url).await.map_err(|error| format!("can't connect to the database: {error}"))?;
    // A query of the limit line uses one core, as the engine's do.
    try_run(&mut connection, "set jit = off; set max_parallel_workers_per_gather = 0").await?;
    Ok(connection)
}

/// Runs statements.
///
/// # Errors
/// The server's, with the statement.
pub async fn try_run(connection: &mut Connection, sql: &str) -> Result {
    connection.try_run(sql).await.map_err(|error| format!("a statement failed: {error}\n{sql}"))
}

/// The same URL for another database.
fn in_database(url: &str, database: &str) -> Result<String> {
    let (rest, options) =
        url.split_once('?').map_or((url, String::new()), |(rest, options)| (rest, format!("?{options}")));
    let after_scheme = rest.find("://").map(|at| at + 3).ok_or("a URL of a server begins with postgres://")?;
    let host_end = rest[after_scheme..].find('/').map_or(rest.len(), |at| at + after_scheme);
    Ok(format!("{}/{database}{options}", &rest[..host_end]))
}

/// The same URL with another host and port.
///
/// # Errors
/// When it is none.
pub fn through(url: &str, port: u16) -> Result<String> {
    let options: PgConnectOptions = url.parse().map_err(|error| format!("this is no URL of a server: {error}"))?;
    let there = format!("{}:{}", options.get_host(), options.get_port());
    if !url.contains(&there) {
        return Err("name the server's port in its URL, to put a delay in front of it".to_owned());
    }
    Ok(url.replacen(&there, &format!("127.0.0.1:{port}"), 1))
}

/// Host and port of a URL.
///
/// # Errors
/// When it is none.
pub fn address(url: &str) -> Result<(String, u16)> {
    let options: PgConnectOptions = url.parse().map_err(|error| format!("this is no URL of a server: {error}"))?;
    Ok((options.get_host().to_owned(), options.get_port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_led_elsewhere() {
        let url = "postgres://me@127.0.0.1:5433/a?sslmode=disable";
        assert_eq!(in_database(url, "b").unwrap(), "postgres://me@127.0.0.1:5433/b?sslmode=disable");
        assert_eq!(in_database("postgres://h", "b").unwrap(), "postgres://h/b");
        assert_eq!(through(url, 7).unwrap(), "postgres://me@127.0.0.1:7/a?sslmode=disable");
    }
}
