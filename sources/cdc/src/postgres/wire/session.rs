use bytes::{Buf, Bytes};
use md5::{Digest, Md5};
use millstream_core::{Result, SourceError, SourceErrorKind};
use millstream_postgres::{PostgresSettings, kind_of_sqlstate, quote, startup_options};
use pgwire_replication::PgWireError;
use pgwire_replication::auth::ScramClient;
use pgwire_replication::protocol::framing::{
    MessageReader, write_password_message, write_query, write_startup_message,
};
use pgwire_replication::protocol::messages::auth;
use pgwire_replication::protocol::{BackendMessage, ErrorFields, parse_auth_request};
use tokio::io::BufReader;

use super::Socket;

const PROTOCOL: i32 = 196_608;
/// One read from the socket at most.
const READ_BYTES: usize = 128 * 1024;

/// A session that speaks the replication protocol and waits for commands.
pub(crate) struct Session {
    pub(super) socket: BufReader<Socket>,
    pub(super) reader: MessageReader,
    /// The process that the server says serves us.
    pub(crate) process: Option<i32>,
}

/// One row of a simple query: each value's text, `None` for NULL.
pub(crate) type Row = Vec<Option<Bytes>>;

impl Session {
    /// Connects and proves who we are, every setting pinned that could change a value's text.
    ///
    /// # Errors
    /// `Connection` when the server can't be reached or is stopping; `Setup` when it refuses us.
    pub(crate) async fn connect(settings: &PostgresSettings) -> Result<Self> {
        let socket = BufReader::with_capacity(READ_BYTES, Socket::connect(settings).await?);
        let mut session = Self { socket, reader: MessageReader::new(), process: None };
        let options = startup_options(settings);
        let parameters = [
            ("user", settings.user.as_str()),
            ("database", settings.database.as_str()),
            ("replication", "database"),
            ("client_encoding", "UTF8"),
            ("application_name", settings.application_name.as_str()),
            ("DateStyle", "ISO, MDY"),
            ("TimeZone", "UTC"),
            ("extra_float_digits", "1"),
            ("options", options.as_str()),
        ];
        write_startup_message(&mut session.socket, PROTOCOL, &parameters).await.map_err(wire_error)?;
        session.authenticate(settings).await.map_err(|error| {
            let (user, host, port) = (&settings.user, &settings.host, settings.port);
            let may_not = error.kind() == SourceErrorKind::Setup && error.to_string().contains("sqlstate=42501");
            let error = match may_not {
                true => error.with_remedy(format!("ALTER ROLE {} REPLICATION;", quote::ident(user))),
                false => error,
            };
            error.context(format!("can't open a replication session (host={host}, port={port}, user={user})"))
        })?;
        Ok(session)
    }

    async fn authenticate(&mut self, settings: &PostgresSettings) -> Result<()> {
        let password = settings.password.get().await?;
        let password = password.as_ref().map_or("", |secret| secret.expose());
        loop {
            let message = self.read().await?;
            match message.tag {
                b'R' => self.answer(&message.payload, &settings.user, password).await?,
                b'K' if message.payload.len() >= 4 => self.process = Some((&message.payload[..4]).get_i32()),
                b'Z' => return Ok(()),
                _ => {}
            }
        }
    }

    async fn answer(&mut self, payload: &[u8], user: &str, password: &str) -> Result<()> {
        let (code, rest) = parse_auth_request(payload).map_err(wire_error)?;
        match code {
            auth::OK => Ok(()),
            auth::CLEARTEXT_PASSWORD => self.send_password(password).await,
            auth::MD5_PASSWORD => {
                let inner = hex(&Md5::digest(format!("{password}{user}")));
                let outer = hex(&Md5::digest([inner.as_bytes(), rest].concat()));
                self.send_password(&format!("md5{outer}")).await
            }
            auth::SASL => self.scram(user, password).await,
            other => {
                Err(SourceError::setup(format!("the server asks for a way to log in that is not known (code={other})"))
                    .with_remedy("use scram-sha-256, md5, trust or a certificate in pg_hba.conf"))
            }
        }
    }

    async fn send_password(&mut self, password: &str) -> Result<()> {
        let bytes = [password.as_bytes(), &[0]].concat();
        write_password_message(&mut self.socket, &bytes).await.map_err(wire_error)
    }

    async fn scram(&mut self, user: &str, password: &str) -> Result<()> {
        let scram = ScramClient::new(user);
        let first = scram.client_first.as_bytes();
        let length = i32::try_from(first.len()).expect("a nonce and a name are short");
        let initial = [b"SCRAM-SHA-256\0".as_slice(), &length.to_be_bytes(), first].concat();
        write_password_message(&mut self.socket, &initial).await.map_err(wire_error)?;
        let server_first = self.auth_data(auth::SASL_CONTINUE).await?;
        let (last, message, salted) = scram.client_final(password, &server_first).map_err(wire_error)?;
        write_password_message(&mut self.socket, last.as_bytes()).await.map_err(wire_error)?;
        let server_last = self.auth_data(auth::SASL_FINAL).await?;
        ScramClient::verify_server_final(&server_last, &salted, &message).map_err(wire_error)
    }

    async fn auth_data(&mut self, expected: i32) -> Result<String> {
        loop {
            let message = self.read().await?;
            if message.tag != b'R' {
                continue;
            }
            let (code, data) = parse_auth_request(&message.payload).map_err(wire_error)?;
            if code != expected {
                return Err(SourceError::decode(format!("the server left the log-in's order (code={code})")));
            }
            return Ok(String::from_utf8_lossy(data).into_owned());
        }
    }

    /// The next message; the server's errors become ours.
    async fn read(&mut self) -> Result<BackendMessage> {
        let message = self.reader.read(&mut self.socket).await.map_err(wire_error)?;
        if message.tag == b'E' { Err(server_error(&message.payload)) } else { Ok(message) }
    }

    /// Runs a command or query and returns its rows. After a server's error the session goes on.
    ///
    /// # Errors
    /// The server's own, by SQLSTATE.
    pub(crate) async fn query(&mut self, sql: &str) -> Result<Vec<Row>> {
        write_query(&mut self.socket, sql).await.map_err(wire_error)?;
        let (mut rows, mut failed) = (Vec::new(), None);
        loop {
            let message = self.reader.read(&mut self.socket).await.map_err(wire_error)?;
            match message.tag {
                b'D' => rows.push(row(&message.payload)?),
                b'E' => failed = Some(server_error(&message.payload)),
                b'Z' => return failed.map_or(Ok(rows), Err),
                _ => {}
            }
        }
    }

    /// Asks for the log; returns once the server agreed.
    pub(super) async fn start(&mut self, command: &str) -> Result<()> {
        write_query(&mut self.socket, command).await.map_err(wire_error)?;
        while self.read().await?.tag != b'W' {}
        Ok(())
    }
}

fn row(payload: &Bytes) -> Result<Row> {
    let malformed = || SourceError::decode("the server sent a malformed row");
    let mut rest = payload.clone();
    if rest.len() < 2 {
        return Err(malformed());
    }
    let columns = rest.get_u16();
    let mut row = Vec::with_capacity(usize::from(columns));
    for _ in 0..columns {
        if rest.len() < 4 {
            return Err(malformed());
        }
        row.push(match usize::try_from(rest.get_i32()) {
            Err(_) => None,
            Ok(length) if length <= rest.len() => Some(rest.split_to(length)),
            Ok(_) => return Err(malformed()),
        });
    }
    Ok(row)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The server's error as ours. Its detail is left out: it may quote rows.
pub(crate) fn server_error(payload: &[u8]) -> SourceError {
    let fields = ErrorFields::parse(payload);
    let code = fields.code.unwrap_or_default();
    let message = fields.message.unwrap_or_else(|| "the server gave no reason".to_owned());
    if message.contains("unsupported startup parameter") {
        return SourceError::setup(format!("a connection pooler such as pgbouncer is in between: {message}"))
            .with_remedy("give the address of Postgres itself");
    }
    SourceError::new(kind_of_sqlstate(&code), format!("{message} (sqlstate={code})"))
}

/// The protocol library's error as ours.
pub(crate) fn wire_error(error: PgWireError) -> SourceError {
    let message = error.to_string();
    match &error {
        PgWireError::Io(_) => SourceError::connection(format!("the connection to Postgres broke: {message}")),
        PgWireError::Auth(_) => SourceError::setup(format!("logging in failed: {message}")),
        _ => SourceError::decode(message),
    }
    .with_cause(error)
}
