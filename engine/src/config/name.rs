use std::borrow::Borrow;
use std::fmt;
use std::net::SocketAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

/// The name of an engine, a sink or an index: up to 100 letters, digits, `-`, `_` and `.`, the first a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct Name(#[schemars(regex(pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"))] String);

impl Name {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let begins = name.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        if begins && name.len() <= 100 && name.chars().all(fits) {
            return Ok(Self(name));
        }
        Err(de::Error::custom(format!(
            "`{name}` can't be a name: up to 100 letters (a to z), digits, `-`, `_` and `.` are allowed, the first a \
             letter or digit"
        )))
    }
}

/// A replication slot's name, as Postgres takes it.
pub(super) fn slot<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if (1..=63).contains(&name.len()) && name.chars().all(fits) {
        return Ok(name);
    }
    Err(de::Error::custom(format!(
        "`{name}` can't be a slot: up to 63 small letters (a to z), digits and `_` are allowed"
    )))
}

/// Any identifier of Postgres.
pub(super) fn identifier<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if (1..=63).contains(&name.len()) && !name.contains('\0') {
        return Ok(name);
    }
    Err(de::Error::custom(format!("`{name}` can't be a name in Postgres: it takes 1 to 63 bytes")))
}

/// Address and port.
pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(deserializer)?;
    let wrong = |_| {
        de::Error::custom(format!(
            "`{text}` is no address with a port; write one such as `127.0.0.1:9464` or `[::1]:9464`"
        ))
    };
    text.parse().map_err(wrong)
}
