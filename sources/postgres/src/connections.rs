use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_core::{Result, SourceError, SourceErrorKind};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Row};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::{PostgresSettings, TlsMode, classify};

/// Settings that could change a value's text, a query's result or its end, pinned on every connection (P12).
///
/// `DateStyle`, `TimeZone`, `extra_float_digits` and the encoding are pinned as parameters of their own beside these.
pub const PINNED: [(&str, &str); 14] = [
    ("IntervalStyle", "iso_8601"),
    ("bytea_output", "hex"),
    ("xmlbinary", "base64"),
    ("lc_monetary", "C"),
    ("row_security", "off"),
    ("jit", "off"),
    ("DateStyle", "ISO"),
    ("standard_conforming_strings", "on"),
    ("quote_all_identifiers", "off"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_in_transaction_session_timeout", "0"),
    ("default_transaction_isolation", "read committed"),
    ("default_transaction_read_only", "off"),
];

/// What follows the first word of each connection: settings of newer majors that would end it, and a look at whether the pinned
/// ones arrived.
const GREETING: &str = "select current_setting('IntervalStyle') || ',' || current_setting('bytea_output'), \
     (select count(set_config(name, '0', false)) from pg_settings \
      where name in ('idle_session_timeout', 'transaction_timeout'))";

/// The `options` that pin the settings of a session: `-c name=value`, blanks and backslashes escaped as the server reads them.
pub fn startup_options(settings: &PostgresSettings) -> String {
    let mut options = String::new();
    for (name, value) in PINNED.into_iter().chain([("search_path", settings.search_path.as_str())]) {
        options.push_str(if options.is_empty() { "-c " } else { " -c " });
        for letter in name.chars().chain(['=']).chain(value.chars()) {
            if letter == '\\' || letter.is_ascii_whitespace() {
                options.push('\\');
            }
            options.push(letter);
        }
    }
    options
}

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
    auth_grace: Duration,
    places: Arc<Semaphore>,
    // Both are held for a push or a pop only, never across an await.
    idle: Mutex<Vec<PgConnection>>,
    log_in: Mutex<LogIn>,
}

/// How logging in went so far.
#[derive(Debug, Default)]
struct LogIn {
    worked: bool,
    refused_since: Option<Instant>,
}

impl Connections {
    /// A stash of at most `limit` connections; none is opened yet.
    pub fn new(settings: PostgresSettings, limit: usize) -> Self {
        let shared = Shared {
            settings,
            auth_grace: Duration::ZERO,
            places: Arc::new(Semaphore::new(limit.max(1))),
            idle: Mutex::new(Vec::new()),
            log_in: Mutex::new(LogIn::default()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// A log-in that is refused although one worked before counts as a lost connection for so long: credentials may be on
    /// their way. Default: not at all. Begins a stash of its own.
    #[must_use]
    pub fn with_auth_grace(self, grace: Duration) -> Self {
        let shared = Shared {
            settings: self.shared.settings.clone(),
            auth_grace: grace,
            places: self.shared.places.clone(),
            idle: Mutex::new(Vec::new()),
            log_in: Mutex::new(LogIn::default()),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Closes those that are idle: a new run begins with fresh ones rather than with what a server's restart left behind.
    pub fn forget_idle(&self) {
        self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Notes how a log-in ended, and makes an error of one that is refused for the moment a transient one.
    ///
    /// For those who open sessions of their own beside these connections.
    pub fn judge(&self, error: SourceError) -> SourceError {
        let refused = error.kind() == SourceErrorKind::Setup && error.to_string().contains("sqlstate=28");
        if !refused {
            return error;
        }
        let mut log_in = self.shared.log_in.lock().unwrap_or_else(PoisonError::into_inner);
        if !log_in.worked {
            return error;
        }
        let since = *log_in.refused_since.get_or_insert_with(Instant::now);
        let grace = self.shared.auth_grace;
        if since.elapsed() >= grace {
            return error;
        }
        SourceError::connection(format!("{error}; it worked before, so it is tried again for {} s", grace.as_secs()))
    }

    fn logged_in(&self) {
        *self.shared.log_in.lock().unwrap_or_else(PoisonError::into_inner) =
            LogIn { worked: true, refused_since: None };
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
            None => {
                let connection = connect(&self.shared.settings).await.map_err(|error| self.judge(error))?;
                self.logged_in();
                connection
            }
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

impl Drop for Lease {
    /// One that is not kept has most likely lost its server, and those that are idle with it: each would fail its next caller.
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
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
    let mut connection = options.connect().await.map_err(|error| {
        let error = classify(&doing, error);
        if error.to_string().contains("unsupported startup parameter") { pooler(&error) } else { error }
    })?;
    // Without a prepared statement: behind a pooler others' may be in the way.
    let row = sqlx::raw_sql(GREETING).fetch_one(&mut connection).await.map_err(|error| classify(&doing, error))?;
    let pinned: String = row.try_get(0).map_err(|error| classify(&doing, error))?;
    if pinned != "iso_8601,hex" {
        return Err(pooler(&format!("the session's settings did not arrive (found={pinned})")));
    }
    Ok(connection)
}

/// The error that names a pooler in between: with transaction pooling, sessions, settings and replication don't hold.
fn pooler(why: &dyn std::fmt::Display) -> SourceError {
    SourceError::setup(format!("a connection pooler such as pgbouncer is in between: {why}"))
        .with_remedy("give the address of Postgres itself")
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
