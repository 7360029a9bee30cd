//! JSON as it is written: numbers keep every digit, a repeated name is an error.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A JSON value. Two are equal when they say the same, digit for digit, in whatever order of names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)] // The names are JSON's own.
pub enum Json {
    Null,
    Boolean(bool),
    /// The digits as they stand there.
    Number(String),
    Text(String),
    Array(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

impl Json {
    /// Reads JSON text.
    ///
    /// # Errors
    /// When it is malformed or an object says a name twice.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        Self::of(serde_json::from_str::<&RawValue>(text)?)
    }

    fn of(raw: &RawValue) -> Result<Self, serde_json::Error> {
        let text = raw.get();
        Ok(match text.as_bytes().first() {
            Some(b'{') => Self::Object(serde_json::from_str::<Members>(text)?.0),
            Some(b'[') => {
                let items: Vec<&RawValue> = serde_json::from_str(text)?;
                Self::Array(items.into_iter().map(Self::of).collect::<Result<_, _>>()?)
            }
            Some(b'"') => Self::Text(serde_json::from_str(text)?),
            Some(b'n') => Self::Null,
            Some(b't') => Self::Boolean(true),
            Some(b'f') => Self::Boolean(false),
            _ => Self::Number(text.to_owned()),
        })
    }

    /// A member of an object.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            _ => None,
        }
    }

    /// The text of a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Paths at which two values differ, each with both sides, at most `most`.
    pub fn differences(&self, other: &Self, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        compare("", self, other, most, &mut found);
        found
    }
}

fn compare(path: &str, expected: &Json, found: &Json, most: usize, into: &mut Vec<String>) {
    if into.len() >= most || expected == found {
        return;
    }
    match (expected, found) {
        (Json::Object(left), Json::Object(right)) => {
            for name in left.keys().chain(right.keys().filter(|name| !left.contains_key(*name))) {
                let path = format!("{path}.{name}");
                match (left.get(name), right.get(name)) {
                    (Some(left), Some(right)) => compare(&path, left, right, most, into),
                    (Some(left), None) => into.push(format!("{path}: expected {left}, found no such field")),
                    (None, Some(right)) => into.push(format!("{path}: expected no such field, found {right}")),
                    (None, None) => {}
                }
            }
        }
        (Json::Array(left), Json::Array(right)) if left.len() == right.len() => {
            for (at, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{path}[{at}]"), left, right, most, into);
            }
        }
        _ => into.push(format!("{path}: expected {expected}, found {found}")),
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Number(digits) => f.write_str(digits),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Array(items) => f.debug_list().entries(items.iter().map(|item| format!("{item}"))).finish(),
            Self::Object(members) => {
                f.debug_map().entries(members.iter().map(|(name, value)| (name, format!("{value}")))).finish()
            }
        }
    }
}

/// An object's members; saying one twice is an error.
struct Members(BTreeMap<String, Json>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
                    let value = Json::of(value).map_err(A::Error::custom)?;
                    if members.insert(name.clone(), value).is_some() {
                        return Err(A::Error::custom(format!("a name is there twice (name={name})")));
                    }
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Json {
        Json::parse(text).unwrap()
    }

    #[test]
    fn numbers_keep_every_digit() {
        assert_ne!(json("9007199254740993"), json("9007199254740992"));
        assert_ne!(json("1.0"), json("1.00"));
        assert_eq!(json(r#"{"a":1,"b":[2,null]}"#), json(r#"{ "b" : [2, null], "a" : 1 }"#));
    }

    #[test]
    fn a_name_said_twice_is_refused() {
        assert!(Json::parse(r#"{"a":1,"a":1}"#).is_err());
    }

    #[test]
    fn differences_name_the_path() {
        let expected = json(r#"{"a":{"b":[1,2]},"c":null}"#);
        let found = json(r#"{"a":{"b":[1,3]},"d":true}"#);
        let said = expected.differences(&found, 10);
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(said[0], ".a.b[1]: expected 2, found 3");
    }
}
