use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_core::Result;
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{PostgresSettings, TlsMode, classify};

/// Settings that could change a value's text or a query's result, pinned on every connection (P12).
///
/// `extra_float_digits`, `DateStyle`, `TimeZone` and the encoding are set by the driver's own options beside these.
pub const PINNED: [(&str, &str); 8] = [
    ("IntervalStyle", "iso_8601"),
    ("bytea_output", "hex"),
    ("xmlbinary", "base64"),
    ("lc_monetary", "C"),
    ("row_security", "off"),
    ("jit", "off"),
    ("DateStyle", "ISO"),
    ("standard_conforming_strings", "on"),
];

/// Opens connections with every setting pinned, and keeps a few open ones.
///
/// At most `limit` are out at once; a further [`get`](Self::get) waits. Nothing is sent on the way out or back in: a
/// connection that broke is found out by its next query, which the caller tries again anyway.
#[derive(Clone)]
pub struct Connections {
    shared: Arc<Shared>,
}

struct Shared {
    settings: PostgresSettings,
    places: Arc<Semaphore>,
    // Held for a push or a pop only, never across an await.
    idle: Mutex<Vec<PgConnection>>,
}

impl Connections {
    /// A stash of at most `limit` connections; none is opened yet.
    pub fn new(settings: PostgresSettings, limit: usize) -> Self {
        let places = Arc::new(Semaphore::new(limit.max(1)));
        Self { shared: Arc::new(Shared { settings, places, idle: Mutex::new(Vec::new()) }) }
    }

    /// Where they lead.
    pub fn settings(&self) -> &PostgresSettings {
        &self.shared.settings
    }

    /// An idle connection or a new one. Give it back with [`Lease::keep`] after a success; dropped otherwise, it is closed.
    ///
    /// # Errors
    /// When the server can't be reached or refuses us.
    pub async fn get(&self) -> Result<Lease> {
        let place = self.shared.places.clone().acquire_owned().await.expect("the semaphore is never closed");
        let idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => connect(&self.shared.settings).await?,
        };
        Ok(Lease { connection: Some(connection), shared: self.shared.clone(), _place: place })
    }
}

/// A connection that is out of its stash.
pub struct Lease {
    connection: Option<PgConnection>,
    shared: Arc<Shared>,
    _place: OwnedSemaphorePermit,
}

impl Lease {
    /// Puts the connection back for the next caller: only when its last query ended well or failed cleanly.
    pub fn keep(mut self) {
        if let Some(connection) = self.connection.take() {
            self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }
}

impl Deref for Lease {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.connection.as_ref().expect("taken only by keep")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.connection.as_mut().expect("taken only by keep")
    }
}

/// Opens one connection with every setting pinned.
async fn connect(settings: &PostgresSettings) -> Result<PgConnection> {
    let options = options(settings).await?;
    let doing = format!(
        "can't connect to Postgres (host={}, port={}, user={}, database={})",
        settings.host, settings.port, settings.user, settings.database
    );
    options.connect().await.map_err(|error| classify(&doing, error))
}

async fn options(settings: &PostgresSettings) -> Result<PgConnectOptions> {
    let mut options = PgConnectOptions::new_without_pgpass()
        .port(settings.port)
        .username(&settings.user)
        .database(&settings.database)
        .application_name(&settings.application_name)
        .extra_float_digits(1)
        .statement_cache_capacity(200)
        .ssl_mode(match settings.tls {
            TlsMode::Disable => PgSslMode::Disable,
            TlsMode::Prefer => PgSslMode::Prefer,
            TlsMode::Require => PgSslMode::Require,
            TlsMode::VerifyCa => PgSslMode::VerifyCa,
            TlsMode::VerifyFull => PgSslMode::VerifyFull,
        })
        .options(PINNED)
        .options([("search_path", settings.search_path.as_str())])
        .disable_statement_logging();
    options =
        if settings.host.starts_with('/') { options.socket(&settings.host) } else { options.host(&settings.host) };
    if let Some(root) = &settings.tls_root {
        options = options.ssl_root_cert(root);
    }
    if let Some(password) = settings.password.get().await? {
        options = options.password(password.expose());
    }
    Ok(options)
}
