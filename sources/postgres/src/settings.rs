use std::collections::BTreeMap;
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
    ///
    /// Of libpq's parameters it takes `sslmode`, `sslrootcert`, `application_name`, `host`, `port`, `user`, `password` and
    /// `dbname`. The user must be named.
    fn from_str(url: &str) -> Result<Self> {
        let rest = url.strip_prefix("postgres://").or_else(|| url.strip_prefix("postgresql://"));
        let rest = rest.ok_or_else(|| wrong("it does not begin with postgres://"))?;
        let parameters = parameters(url)?;
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        let has_user =
            authority.rsplit_once('@').is_some_and(|(user, _)| !user.split(':').next().unwrap_or("").is_empty());
        if !has_user && !parameters.contains_key("user") {
            return Err(wrong("it names no user"));
        }
        if let Some(port) = authority.rsplit('@').next().and_then(port_of)
            && port.parse::<u16>().is_err()
        {
            return Err(wrong("its port is no number from 0 to 65535"));
        }
        // The driver's own error may quote the URL, so it is not kept as a cause.
        let options = PgConnectOptions::from_str(url).map_err(|_| wrong("it is malformed"))?;
        let password = match parameters.get("password") {
            Some(password) => Some(password.clone()),
            None => url_password(url),
        };
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
            password: password.map_or(Password::None, |password| Password::Fixed(Secret::new(password))),
            tls: match options.get_ssl_mode() {
                PgSslMode::Disable => TlsMode::Disable,
                PgSslMode::Allow | PgSslMode::Prefer => TlsMode::Prefer,
                PgSslMode::Require => TlsMode::Require,
                PgSslMode::VerifyCa => TlsMode::VerifyCa,
                PgSslMode::VerifyFull => TlsMode::VerifyFull,
            },
            tls_root: parameters.get("sslrootcert").map(PathBuf::from),
            application_name: options.get_application_name().unwrap_or("millstream").to_owned(),
            search_path: "public".to_owned(),
        })
    }
}

/// What a URL's parameters may be.
const PARAMETERS: [&str; 8] =
    ["sslmode", "sslrootcert", "application_name", "host", "port", "user", "password", "dbname"];
/// What `sslmode` may be.
const SSL_MODES: [&str; 6] = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];

fn wrong(why: &str) -> SourceError {
    SourceError::setup(format!("the database URL can't be used: {why}"))
        .with_remedy("write postgres://USER:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded")
}

/// The parameters behind the URL's question mark, percent-decoded; each must be known and have a value that can be used.
fn parameters(url: &str) -> Result<BTreeMap<String, String>> {
    let query = url.split_once('?').map_or("", |(_, query)| query.split('#').next().unwrap_or_default());
    let mut found = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decoded(name).unwrap_or_default();
        if !PARAMETERS.contains(&name.as_str()) {
            let known = PARAMETERS.join(", ");
            // A value that lacks its `&` or `?` may stand in a name's place: what looks like none is not shown.
            let is_name = name.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"_-".contains(&letter));
            let shown = if is_name { format!(" `{name}`") } else { String::new() };
            return Err(SourceError::setup(format!("the database URL has an unknown parameter{shown}"))
                .with_remedy(format!("take it away; those that are known are {known}")));
        }
        let unreadable = || SourceError::setup(format!("the database URL's `{name}` is not percent-encoded text"));
        let value = decoded(value).ok_or_else(unreadable)?;
        if name == "sslmode" && !SSL_MODES.contains(&value.to_ascii_lowercase().as_str()) {
            return Err(SourceError::setup("the database URL's `sslmode` is not known")
                .with_remedy(format!("write one of {}", SSL_MODES.join(", "))));
        }
        if name == "port" && value.parse::<u16>().is_err() {
            return Err(SourceError::setup("the database URL's `port` is no number from 0 to 65535"));
        }
        found.insert(name, value);
    }
    Ok(found)
}

/// What stands behind a host's colon.
fn port_of(host: &str) -> Option<&str> {
    let tail = host.rsplit_once(']').map_or(host, |(_, tail)| tail);
    tail.rsplit_once(':').map(|(_, port)| port)
}

/// The password inside a URL, percent-decoded.
fn url_password(url: &str) -> Option<String> {
    let after_scheme = url.split_once("://")?.1;
    let authority = after_scheme.split(['/', '?']).next()?;
    let (_, password) = authority.rsplit_once('@')?.0.split_once(':')?;
    decoded(password)
}

/// Percent-decoded; `None` when that is no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
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
    fn what_is_wrong_with_a_url_is_named_with_what_may_stand_there() {
        let error = |url: &str| url.parse::<PostgresSettings>().unwrap_err().to_string();
        let sslmode = error("postgres://al:hunter2@db/shop?sslmode=requre");
        assert!(sslmode.contains("`sslmode` is not known") && sslmode.contains("verify-full"), "{sslmode}");
        let unknown = error("postgres://al@db/shop?conect_timeout=3");
        assert!(unknown.contains("unknown parameter `conect_timeout`") && unknown.contains("sslrootcert"), "{unknown}");
        for (url, why) in [
            ("postgres://db/shop", "it names no user"),
            ("postgres://:hunter2@db/shop", "it names no user"),
            ("postgres://al@db:port/shop", "its port is no number"),
            ("mysql://al@db/shop", "it does not begin with postgres://"),
            ("postgres://al@db/shop?port=x", "`port` is no number"),
        ] {
            let said = error(url);
            assert!(said.contains(why) && !said.contains("hunter2"), "{said}");
        }
        let hidden = error("postgres://al@db/shop?sslmode=require&hun ter2");
        assert!(hidden.contains("unknown parameter;") && !hidden.contains("ter2"), "{hidden}");
    }

    #[test]
    fn every_parameter_that_is_known_is_taken() {
        let url = "postgres:///shop?host=%2Fvar%2Frun&port=6543&user=al&password=p%40ss&sslmode=verify-ca\
                   &sslrootcert=ca.pem&application_name=mill";
        let settings: PostgresSettings = url.parse().unwrap();
        assert_eq!((settings.host.as_str(), settings.port, settings.user.as_str()), ("/var/run", 6543, "al"));
        assert_eq!((settings.database.as_str(), settings.tls), ("shop", TlsMode::VerifyCa));
        assert_eq!(settings.tls_root.as_deref(), Some(std::path::Path::new("ca.pem")));
        assert_eq!(settings.application_name, "mill");
        let Password::Fixed(secret) = &settings.password else { panic!("expected a password") };
        assert_eq!(secret.expose(), "p@ss");
    }

    #[test]
    fn p19_a_malformed_url_is_not_shown() {
        let error = "postgres://al:hunter2@db:port/x".parse::<PostgresSettings>().unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"));
    }
}
