use pgwire_replication::{ReplicationClient, ReplicationConfig, ReplicationEvent};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection as _};

use crate::Result;
use crate::clock::now_ns;
use crate::server::address;

/// Commit, walsender, one query that reads back, and nothing between.
pub struct BareLoop {
    stream: ReplicationClient,
    reader: PgConnection,
    query: String,
}

impl BareLoop {
    /// Opens the stream of a slot and the connection that reads back; `query` takes one `text[]` of keys.
    ///
    /// # Errors
    /// When the server refuses either.
    pub async fn open(url: &str, slot: &str, publication: &str, query: String) -> Result<Self> {
        let options: PgConnectOptions = url.parse().map_err(|error| format!("this is no URL of a server: {error}"))?;
        let reader = options.connect().await.map_err(|error| format!("the bare loop can't connect: {error}"))?;
        let (host, port) = address(url)?;
        let database = options.get_database().unwrap_or("postgres");
        let password = std::env::var("PGPASSWORD").unwrap_or_default();
        let config = ReplicationConfig::new(host, options.get_username(), password, database, slot, publication);
        let stream = ReplicationClient::connect(config.with_port(port)).await;
        let stream = stream.map_err(|error| format!("the bare loop can't stream: {error}"))?;
        Ok(Self { stream, reader, query })
    }

    /// Waits for the next commit that holds a row, then reads the document of this key back; when that was there.
    ///
    /// # Errors
    /// When the stream or the query fails.
    pub async fn next(&mut self, key: &str) -> Result<u64> {
        let mut has_row = false;
        loop {
            let event = self.stream.recv().await.map_err(|error| format!("the bare loop's stream failed: {error}"))?;
            match event {
                None => return Err("the bare loop's stream ended".to_owned()),
                Some(ReplicationEvent::XLogData { data, .. }) => {
                    has_row |= matches!(data.first(), Some(b'I' | b'U' | b'D'))
                }
                Some(ReplicationEvent::Commit { .. }) if has_row => break,
                Some(_) => {}
            }
        }
        let rows =
            sqlx::query(sqlx::AssertSqlSafe(self.query.as_str())).bind(vec![key]).fetch_all(&mut self.reader).await;
        let rows = rows.map_err(|error| format!("the bare loop's query failed: {error}"))?;
        let at = now_ns();
        if rows.is_empty() { Err("the bare loop read nothing back".to_owned()) } else { Ok(at) }
    }

    /// Ends both.
    ///
    /// # Errors
    /// When the stream does not end.
    pub async fn close(mut self) -> Result {
        let _ = self.reader.close().await;
        self.stream.shutdown().await.map_err(|error| format!("the bare loop's stream did not end: {error}"))
    }
}
