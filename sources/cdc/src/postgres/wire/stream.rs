use std::future::Future;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use millstream_core::{Result, SourceError};
use millstream_model::Position;
use millstream_postgres::quote;
use pgwire_replication::Lsn;
use pgwire_replication::protocol::framing::{write_copy_data, write_copy_done};
use pgwire_replication::protocol::replication::{
    PG_EPOCH_MICROS, ReplicationCopyData, encode_standby_status_update, parse_copy_data,
};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::Session;
use super::session::{server_error, wire_error};

/// What comes out of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A message of the decoder's.
    Message {
        /// Where in the log it came from.
        position: Position,
        /// The message.
        payload: Bytes,
    },
    /// The server has told all up to here.
    KeepAlive {
        /// Its position.
        position: Position,
        /// True when it wants to hear from us at once.
        reply: bool,
    },
}

/// The stream of the server's log: what the capture's pump reads, and all it says in return.
pub(crate) trait LogStream: Send {
    /// The next thing. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Incoming>> + Send;

    /// True when more has arrived already.
    fn is_ready(&self) -> bool;

    /// Tells the server the durable point.
    fn report(&mut self, durable: Position) -> impl Future<Output = Result<()>> + Send;

    /// Ends it, so that the slot is free at once.
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// The stream over the replication protocol.
pub(crate) struct ReplicationStream {
    session: Session,
}

/// The first major whose decoder tells logical messages.
const MESSAGES_SINCE: u32 = 140_000;

/// How long a stream that ends waits for the server to let go of the slot.
const FAREWELL: Duration = Duration::from_secs(5);

impl ReplicationStream {
    /// Goes on from the slot's durable point.
    ///
    /// # Errors
    /// `Held` when another process has the slot.
    pub(crate) async fn start(mut session: Session, slot: &str, publication: &str, version: u32) -> Result<Self> {
        let messages = if version >= MESSAGES_SINCE { ", messages 'true'" } else { "" };
        let names = quote::ident(publication).replace('\'', "''");
        let command = format!(
            "START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version '1', publication_names '{names}'{messages})",
            quote::ident(slot)
        );
        session.start(&command).await?;
        Ok(Self { session })
    }
}

impl LogStream for ReplicationStream {
    async fn next(&mut self) -> Result<Incoming> {
        loop {
            let message = self.session.reader.read(&mut self.session.socket).await.map_err(wire_error)?;
            match message.tag {
                b'd' => return incoming(message.payload),
                b'E' => return Err(server_error(&message.payload)),
                b'c' | b'C' | b'Z' => return Err(SourceError::connection("the server ended the stream of its log")),
                _ => {}
            }
        }
    }

    fn is_ready(&self) -> bool {
        // A message's tag and length: what follows is on its way.
        self.session.socket.buffer().len() >= 5
    }

    async fn report(&mut self, durable: Position) -> Result<()> {
        let status = encode_standby_status_update(Lsn::from_u64(durable.0), server_clock(), false);
        write_copy_data(&mut self.session.socket, &status).await.map_err(wire_error)
    }

    async fn close(mut self) {
        // The server may be gone already: then there is nothing to end. It may also be deep in a long transaction, which it
        // does not leave before its next write: it notices the closed socket then.
        let _ = timeout(FAREWELL, self.end_copy()).await;
        let _ = self.session.socket.write_all(&[b'X', 0, 0, 0, 4]).await;
        let _ = self.session.socket.shutdown().await;
    }
}

impl ReplicationStream {
    /// Waits for the server's word that the command is over, which comes once it has let go of the slot; then lets go of the turn.
    async fn end_copy(&mut self) -> Result<()> {
        write_copy_done(&mut self.session.socket).await.map_err(wire_error)?;
        loop {
            let message = self.session.reader.read(&mut self.session.socket).await.map_err(wire_error)?;
            if message.tag == b'Z' {
                break;
            }
        }
        self.session.query("select pg_advisory_unlock_all()").await.map(|_| ())
    }
}

fn incoming(payload: Bytes) -> Result<Incoming> {
    Ok(match parse_copy_data(payload).map_err(wire_error)? {
        ReplicationCopyData::XLogData { wal_start, data, .. } => {
            Incoming::Message { position: Position(wal_start.as_u64()), payload: data }
        }
        ReplicationCopyData::KeepAlive { wal_end, reply_requested, .. } => {
            Incoming::KeepAlive { position: Position(wal_end.as_u64()), reply: reply_requested }
        }
    })
}

/// Microseconds since 2000, as the protocol wants them: for the server's own statistics only.
fn server_clock() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX).saturating_sub(PG_EPOCH_MICROS)
}
