//! How far a list was read: what travels as its checkpoint.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::circle::Circle;
use crate::model::{Checkpoint, Timestamp};

/// How far a list was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Mark {
    /// Of which list.
    pub of: String,
    /// The greatest value of the member that grows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// What the server calls the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
    /// Within a look: the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<PageMark>,
}

/// A page that is to be asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PageMark {
    /// The process that was told of it: a token is no promise for ever.
    pub run: String,
    /// Counts looks that began anew since the server no longer knew a page: each is another.
    pub look: u32,
    /// Its address, token or number.
    pub page: String,
    /// The greatest value so far.
    pub newest: Option<String>,
    pub circle: Circle,
}

impl Mark {
    /// What a checkpoint says, if it is one of this list's; else nothing was read yet.
    pub(super) fn read(checkpoint: Option<&Checkpoint>, of: &str, run: &str) -> Self {
        let mark = checkpoint.and_then(|checkpoint| serde_json::from_str::<Self>(&checkpoint.0).ok());
        let mut mark =
            mark.filter(|mark| mark.of == of).unwrap_or_else(|| Self { of: of.to_owned(), ..Self::default() });
        mark.page = mark.page.filter(|page| page.run == run);
        mark
    }

    pub(super) fn checkpoint(&self) -> Checkpoint {
        Checkpoint(serde_json::to_string(self).expect("a mark is plain data"))
    }
}

/// The later of two values as an API writes them: moments by time, whole numbers by size, all else as texts.
pub(super) fn later(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(if order(&one, &other) == Ordering::Less { other } else { one }),
        (one, other) => one.or(other),
    }
}

fn order(one: &str, other: &str) -> Ordering {
    if let (Some(one), Some(other)) = (Timestamp::parse(one), Timestamp::parse(other)) {
        return one.cmp(&other);
    }
    if let (Ok(one), Ok(other)) = (one.parse::<i128>(), other.parse::<i128>()) {
        return one.cmp(&other);
    }
    match (one.parse::<f64>(), other.parse::<f64>()) {
        (Ok(one), Ok(other)) => one.total_cmp(&other),
        _ => one.cmp(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_values_is_found_by_what_they_are() {
        for (one, other) in [
            ("2026-01-31T12:00:00+02:00", "2026-01-31T11:00:00Z"),
            ("9", "10"),
            ("12345678901234567890", "12345678901234567891"),
            ("1.5", "10.25"),
            ("2026-01-31", "2026-02-01"),
        ] {
            let later = |one: &str, other: &str| later(Some(one.to_owned()), Some(other.to_owned())).unwrap();
            assert_eq!((later(one, other).as_str(), later(other, one).as_str()), (other, other));
        }
        assert_eq!(later(None, Some("x".to_owned())), Some("x".to_owned()));
    }
}
