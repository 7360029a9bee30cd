use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use millstream_model::Secret;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{PollingSection, Span, name};

/// Where the rows are.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum SourceSection {
    /// Postgres, by logical replication.
    Postgres(Box<PostgresSection>),
    /// A system without a log, asked at intervals.
    Polling(Box<PollingSection>),
}

impl SourceSection {
    /// The word by which the file names the kind of source.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Postgres(_) => "postgres",
            Self::Polling(_) => "polling",
        }
    }
}

/// A Postgres database. Either `url` or `host`, `port`, `user` and `database` say where it is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PostgresSection {
    /// `postgres://user:password@host:port/database?sslmode=…`
    #[schemars(with = "Option<String>")]
    pub url: Option<Secret>,
    /// Host name, address, or the folder of a Unix socket.
    pub host: Option<String>,
    /// Port. Default: 5432.
    pub port: Option<u16>,
    /// Role.
    pub user: Option<String>,
    /// Database. Default: the user's name.
    pub database: Option<String>,
    /// The role's password.
    #[schemars(with = "Option<String>")]
    pub password: Option<Secret>,
    /// A file that holds the password, read at each connection. A closing line break is not part of it.
    pub password_file: Option<PathBuf>,
    /// How much TLS. Default: what the URL says, else `prefer`.
    pub tls: Option<TlsSection>,
    /// Certificates of the authorities to trust, in PEM. Default: the web's usual ones.
    pub tls_root: Option<PathBuf>,
    /// Where the engine's SQL finds functions, operators and types. Default: `public`.
    pub search_path: Option<String>,
    /// The replication slot.
    #[serde(default = "millstream", deserialize_with = "name::slot")]
    #[schemars(regex(pattern = "^[a-z0-9_]{1,63}$"))]
    pub slot: String,
    /// The publication.
    #[serde(default = "millstream", deserialize_with = "name::identifier")]
    #[schemars(length(min = 1, max = 63))]
    pub publication: String,
    /// What the engine may change in the database. Default: `[publication, slot]`.
    #[serde(default)]
    pub manage: Manage,
    /// A standby to read documents from.
    #[schemars(with = "Option<String>")]
    pub read_url: Option<Secret>,
    /// How long to wait while another process holds the slot. Default: `60s`.
    #[serde(default)]
    pub slot_wait: SlotWait,
    /// What to do when changes were lost: the slot is gone or behind, or the database is another one.
    #[serde(default)]
    pub on_gap: Gap,
    /// How long an index that can't be built just now keeps its changes before it is filled again. Default: `15m`.
    #[serde(default = "hold")]
    #[schemars(default = "hold_text")]
    pub hold: Span,
    /// How long a refused password is tried again after an earlier success. Default: `10m`.
    #[serde(default = "auth_grace")]
    #[schemars(default = "auth_grace_text")]
    pub auth_grace: Span,
    /// Publish of the tables that the engine adds only keys, links and identities: less log is sent. Postgres 15 and later. Should
    /// somebody later set another replica identity, the server refuses the application's updates and deletes.
    #[serde(default)]
    pub column_lists: bool,
    /// What to do about tables whose row-level security is in force for us.
    #[serde(default)]
    pub row_level_security: RowLevelSecurity,
    /// How often a message of our own is sent through the log, to tell the lag. Default: `10s`.
    #[serde(default)]
    pub heartbeat: Heartbeat,
}

/// How much TLS is asked for. The words are libpq's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TlsSection {
    /// Never.
    Disable,
    /// If the server offers it; the server is not authenticated.
    Prefer,
    /// Always; the server is not authenticated.
    Require,
    /// Always, with a certificate that an authority signed.
    VerifyCa,
    /// Always, with a certificate for the host that was asked for.
    VerifyFull,
}

/// What the engine may change in the database: `all`, `none`, or a list of `publication`, `slot`, `identity`, `indexes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Manage {
    /// Make the publication and add tables to it.
    pub publication: bool,
    /// Make the slot.
    pub slot: bool,
    /// Change tables' replica identities.
    pub identity: bool,
    /// Make indexes.
    pub indexes: bool,
}

/// How long to wait while another process holds the slot: a length of time, or `forever`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SlotWait {
    /// So long.
    For(Duration),
    /// Until it is free: a standby.
    Forever,
}

/// What to do when changes were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Gap {
    /// Stop, and say so.
    #[default]
    Stop,
    /// Fill every index again.
    Backfill,
}

/// What to do about tables whose row-level security is in force for us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RowLevelSecurity {
    /// Refuse the index: its documents would silently lack rows.
    #[default]
    Refuse,
    /// Build documents of the rows that the role sees.
    Accept,
}

/// How often a message of our own is sent through the log: a length of time, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat(pub Option<Duration>);

impl Manage {
    /// Nothing.
    pub const NONE: Self = Self { publication: false, slot: false, identity: false, indexes: false };
    /// All of it.
    pub const ALL: Self = Self { publication: true, slot: true, identity: true, indexes: true };
}

impl Default for Manage {
    fn default() -> Self {
        Self { publication: true, slot: true, ..Self::NONE }
    }
}

impl Default for SlotWait {
    fn default() -> Self {
        Self::For(Duration::from_secs(60))
    }
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self(Some(Duration::from_secs(10)))
    }
}

impl<'de> Deserialize<'de> for Manage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ManageVisitor)
    }
}

struct ManageVisitor;

/// One thing that may be changed: an enum so that a slip is told by the nearest word.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Managed {
    Publication,
    Slot,
    Identity,
    Indexes,
}

impl<'de> Visitor<'de> for ManageVisitor {
    type Value = Manage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`all`, `none`, or a list of `publication`, `slot`, `identity`, `indexes`")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Manage, E> {
        match text {
            "all" => Ok(Manage::ALL),
            "none" => Ok(Manage::NONE),
            other => Err(E::custom(format!(
                "`{other}` is not known here; write `all`, `none`, or a list of `publication`, `slot`, `identity`, `indexes`"
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Manage, A::Error> {
        let mut manage = Manage::NONE;
        while let Some(item) = items.next_element()? {
            match item {
                Managed::Publication => manage.publication = true,
                Managed::Slot => manage.slot = true,
                Managed::Identity => manage.identity = true,
                Managed::Indexes => manage.indexes = true,
            }
        }
        Ok(manage)
    }
}

impl<'de> Deserialize<'de> for SlotWait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        span_or("forever", &String::deserialize(deserializer)?)
            .map(|span| span.map_or(Self::Forever, Self::For))
            .map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Heartbeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = span_or("off", &String::deserialize(deserializer)?).map_err(de::Error::custom)?;
        match span {
            Some(Duration::ZERO) => Err(de::Error::custom("`0s` would never end; write `off`, or a longer time")),
            span => Ok(Self(span)),
        }
    }
}

/// A length of time; `None` for the one word that may stand in its place.
pub(super) fn span_or(word: &str, text: &str) -> Result<Option<Duration>, String> {
    if text == word {
        return Ok(None);
    }
    Span::parse(text).map(|span| Some(span.0)).map_err(|message| format!("{message}; or write `{word}`"))
}

impl JsonSchema for Manage {
    fn schema_name() -> Cow<'static, str> {
        "Manage".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "enum": ["all", "none"] },
            { "type": "array", "items": { "enum": ["publication", "slot", "identity", "indexes"] } },
        ] })
    }
}

impl JsonSchema for SlotWait {
    fn schema_name() -> Cow<'static, str> {
        "SlotWait".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "forever" }, generator.subschema_for::<Span>()] })
    }
}

impl JsonSchema for Heartbeat {
    fn schema_name() -> Cow<'static, str> {
        "Heartbeat".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "off" }, generator.subschema_for::<Span>()] })
    }
}

fn millstream() -> String {
    "millstream".to_owned()
}

pub(super) fn hold() -> Span {
    Span(Duration::from_secs(15 * 60))
}

pub(super) fn hold_text() -> &'static str {
    "15m"
}

fn auth_grace() -> Span {
    Span(Duration::from_secs(10 * 60))
}

fn auth_grace_text() -> &'static str {
    "10m"
}
