use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};

/// A text that must never be shown: a password, a token, a URL that may hold one.
///
/// `Debug` and `Display` print `***`; it does not serialize; its memory is wiped when it is dropped.
#[derive(Clone)]
pub struct Secret(SecretString);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(SecretString::from(text.into()))
    }

    /// The text itself. Only for handing it to the peer that it is meant for.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    /// `message` with every occurrence of the secret replaced by `***`: for errors that others' code wrote.
    pub fn redact(&self, message: &str) -> String {
        let secret = self.expose();
        if secret.is_empty() { message.to_owned() } else { message.replace(secret, "***") }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}
