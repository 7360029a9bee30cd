use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_core::{Result, SourceError};
use millstream_model::Secret;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// Gives the password at each connection: for credentials that change while the engine runs.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// The password to use now.
    ///
    /// # Errors
    /// When it can't be had just now.
    async fn password(&self) -> Result<Secret>;
}

/// Where the password comes from.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Password {
    /// There is none (trust, peer, or a certificate).
    #[default]
    None,
    /// This one.
    Fixed(Secret),
    /// Read from a file at each connection; a closing line break is not part of it.
    File(PathBuf),
    /// Asked for at each connection.
    Provider(Arc<dyn Credentials>),
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Fixed(_) => "Fixed(***)",
            Self::File(_) => "File",
            Self::Provider(_) => "Provider",
        })
    }
}

impl Password {
    /// The password to use now.
    ///
    /// # Errors
    /// When its file can't be read or its provider has none.
    pub async fn get(&self) -> Result<Option<Secret>> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(secret) => Ok(Some(secret.clone())),
            Self::File(path) => match tokio::fs::read_to_string(path).await {
                Ok(text) => Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n'])))),
                Err(error) => {
                    Err(SourceError::setup(format!("can't read the password file (path={})", path.display()))
                        .with_cause(error))
                }
            },
            Self::Provider(provider) => provider.password().await.map(Some),
        }
    }
}

/// How much TLS is asked for. The words are libpq's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TlsMode {
    /// Never.
    Disable,
    /// If the server offers it; the server is not authenticated.
    #[default]
    Prefer,
    /// Always; the server is not authenticated.
    Require,
    /// Always, with a certificate that an authority signed.
    VerifyCa,
    /// Always, with a certificate for the host that was asked for.
    VerifyFull,
}

/// Where a Postgres is, and as whom to talk to it.
///
/// Read from a URL by `parse`, then refined field by field. `Debug` shows no secret.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresSettings {
    /// Host name, address, or the folder of a Unix socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Role.
    pub user: String,
    /// Database.
    pub database: String,
    /// Its password.
    pub password: Password,
    /// How much TLS.
    pub tls: TlsMode,
    /// Certificates of the authorities to trust, in PEM; without it the web's usual ones.
    pub tls_root: Option<PathBuf>,
    /// The name that the server shows for our connections.
    pub application_name: String,
    /// Searched for functions, operators and types that a schema's SQL names without a schema.
    pub search_path: String,
}

impl FromStr for PostgresSettings {
    type Err = SourceError;

    /// Reads `postgres://user:password@host:port/database?sslmode=…`. No error shows the URL.
    fn from_str(url: &str) -> Result<Self> {
        let wrong = |why: &str| {
            SourceError::setup(format!("the database URL can't be used: {why}"))
                .with_remedy("write postgres://USER:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded")
        };
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(wrong("it does not begin with postgres://"));
        }
        // The driver's own error may quote the URL, so it is not kept as a cause.
        let options = PgConnectOptions::from_str(url).map_err(|_| wrong("it is malformed"))?;
        let password = url_password(url).map_or(Password::None, |password| Password::Fixed(Secret::new(password)));
        let host = match options.get_socket() {
            Some(folder) => folder.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let user = options.get_username().to_owned();
        Ok(Self {
            host,
            port: options.get_port(),
            database: options.get_database().unwrap_or(&user).to_owned(),
            user,
            password,
            tls: match options.get_ssl_mode() {
                PgSslMode::Disable => TlsMode::Disable,
                PgSslMode::Allow | PgSslMode::Prefer => TlsMode::Prefer,
                PgSslMode::Require => TlsMode::Require,
                PgSslMode::VerifyCa => TlsMode::VerifyCa,
                PgSslMode::VerifyFull => TlsMode::VerifyFull,
            },
            tls_root: None,
            application_name: options.get_application_name().unwrap_or("millstream").to_owned(),
            search_path: "public".to_owned(),
        })
    }
}

/// The password inside a URL, percent-decoded.
fn url_password(url: &str) -> Option<String> {
    let after_scheme = url.split_once("://")?.1;
    let authority = after_scheme.split(['/', '?']).next()?;
    let (_, password) = authority.rsplit_once('@')?.0.split_once(':')?;
    let mut bytes = Vec::with_capacity(password.len());
    let mut rest = password.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%')
            .then(|| tail.get(..2).and_then(|two| std::str::from_utf8(two).ok()))
            .flatten()
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        match escaped {
            Some(byte) => (bytes.push(byte), rest = &tail[2..]),
            None => (bytes.push(*first), rest = tail),
        };
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_and_its_password_is_hidden() {
        let settings: PostgresSettings = "postgres://al:p%40ss%2Fw@db:6543/shop?sslmode=require".parse().unwrap();
        assert_eq!((settings.host.as_str(), settings.port, settings.database.as_str()), ("db", 6543, "shop"));
        assert_eq!(settings.tls, TlsMode::Require);
        let Password::Fixed(secret) = &settings.password else { panic!("expected a password") };
        assert_eq!(secret.expose(), "p@ss/w");
        assert!(!format!("{settings:?}").contains("ss/w"));
    }

    #[test]
    fn p19_a_malformed_url_is_not_shown() {
        let error = "postgres://al:hunter2@db:port/x".parse::<PostgresSettings>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
