//! A database of a test's own, and connections to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection as _, Executor as _, Row as _};

use crate::cluster::Cluster;
use crate::wait::until;

/// What every connection of a test is pinned to, so that an oracle's text does not hang on the server's settings.
const PINNED: [(&str, &str); 5] = [
    ("IntervalStyle", "iso_8601"),
    ("DateStyle", "ISO"),
    ("bytea_output", "hex"),
    ("xmlbinary", "base64"),
    ("lc_monetary", "C"),
];

/// Opens a connection.
///
/// # Errors
/// When the server refuses it.
pub async fn connect(url: &str) -> Result<Connection, sqlx::Error> {
    let options: PgConnectOptions = url.parse()?;
    let inner = options.application_name("test").options(PINNED).extra_float_digits(1).connect().await?;
    Ok(Connection { inner })
}

/// One session.
#[derive(Debug)]
pub struct Connection {
    inner: PgConnection,
}

impl Connection {
    /// Runs statements, separated by semicolons, in one implicit transaction.
    ///
    /// # Panics
    /// When one fails.
    pub async fn run(&mut self, sql: &str) {
        if let Err(error) = self.try_run(sql).await {
            panic!("a statement of the test failed: {error}\n{sql}");
        }
    }

    /// The same for statements that may fail.
    ///
    /// # Errors
    /// The server's.
    pub async fn try_run(&mut self, sql: &str) -> Result<(), sqlx::Error> {
        self.inner.execute(AssertSqlSafe(sql.to_owned())).await.map(|_| ())
    }

    /// The rows of a query, every value as its text; NULL is `None`.
    ///
    /// # Panics
    /// When it fails or a column is not of type text.
    pub async fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        let rows = self.try_rows(sql).await;
        rows.unwrap_or_else(|error| panic!("a query of the test failed: {error}\n{sql}"))
    }

    /// The same for a query that may fail.
    ///
    /// # Errors
    /// The server's.
    pub async fn try_rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>, sqlx::Error> {
        let rows = self.inner.fetch_all(AssertSqlSafe(sql.to_owned())).await?;
        rows.iter().map(|row| (0..row.len()).map(|at| row.try_get(at)).collect()).collect()
    }

    /// The single text that a query gives.
    ///
    /// # Panics
    /// When it fails, gives no row or NULL.
    pub async fn text(&mut self, expression: &str) -> String {
        let rows = self.rows(&format!("select ({expression})::text")).await;
        rows[0][0].clone().unwrap_or_else(|| panic!("this is NULL: {expression}"))
    }

    /// The number that an expression gives.
    ///
    /// # Panics
    /// When it is none.
    pub async fn number(&mut self, expression: &str) -> i64 {
        let text = self.text(expression).await;
        text.parse().unwrap_or_else(|_| panic!("this is no whole number: {expression} = {text}"))
    }

    /// Whether a condition holds; NULL does not.
    ///
    /// # Panics
    /// When it can't be asked.
    pub async fn flag(&mut self, condition: &str) -> bool {
        self.text(&format!("coalesce(({condition}), false)")).await == "true"
    }

    /// Says good-bye to the server.
    pub async fn close(self) {
        // The server may be gone already.
        let _ = self.inner.close().await;
    }
}

/// A database of a test's own.
#[derive(Clone, Debug)]
pub struct Database {
    cluster: Arc<Cluster>,
    name: String,
}

impl Database {
    pub(crate) async fn create(cluster: Arc<Cluster>, name: &str) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        // A name serves as the slot's as well: lower case, at most 63 bytes.
        let short: String =
            name.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(50).collect();
        let name = format!("{}_{number}", short.to_lowercase());
        let mut connection = cluster.connect("postgres").await;
        connection.run(&format!("create database {name}")).await;
        connection.close().await;
        Self { cluster, name }
    }

    /// Its name, which is also that of the test's slot and publication.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its server.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Its URL for the superuser.
    pub fn url(&self) -> String {
        self.cluster.url("postgres", &self.name)
    }

    /// Its URL for another role.
    pub fn url_as(&self, user: &str) -> String {
        self.cluster.url(user, &self.name)
    }

    /// A session of the superuser.
    pub async fn connect(&self) -> Connection {
        self.cluster.connect(&self.name).await
    }

    /// A session of another role.
    pub async fn connect_as(&self, user: &str) -> Connection {
        connect(&self.url_as(user)).await.expect("the role may connect")
    }

    /// Drops its slots (they must be idle within a minute) and the database itself.
    pub async fn remove(self) {
        let mut connection = self.cluster.connect("postgres").await;
        let slots = format!("from pg_replication_slots where database = '{}'", self.name);
        let shared = tokio::sync::Mutex::new(&mut connection);
        until("the slots of the test to be dropped", || async {
            let drop = format!("select pg_drop_replication_slot(slot_name)::text {slots} and not active");
            let mut connection = shared.lock().await;
            // Somebody may have taken or dropped one meanwhile: look again.
            let _ = connection.try_rows(&drop).await;
            connection.flag(&format!("not exists (select {slots})")).await.then_some(())
        })
        .await;
        connection.run(&format!("drop database {} with (force)", self.name)).await;
    }
}
