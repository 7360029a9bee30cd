//! Values as they come from a database and go back to it, with nothing rounded.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::model::{ColumnType, Timestamp};

/// A value. Servers hand over texts, by their own output functions; SQLite hands over what it has stored.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum Cell {
    #[serde(rename = "null")]
    Null,
    #[serde(rename = "integer")]
    Integer(i64),
    #[serde(rename = "real", with = "bits")]
    Real(f64),
    #[serde(rename = "text")]
    Text(String),
    #[serde(rename = "blob")]
    Blob(Vec<u8>),
}

/// A floating-point number that is kept by its bits: reading back what was written gives the same.
mod bits {
    use serde::{Deserialize, Deserializer, Serializer};

    #[allow(clippy::trivially_copy_pass_by_ref)] // The shape that serde asks for.
    pub(super) fn serialize<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(number.to_bits())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        u64::deserialize(deserializer).map(f64::from_bits)
    }
}

/// Shows its kind only: a value is content of a row.
impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "Null",
            Self::Integer(_) => "Integer",
            Self::Real(_) => "Real",
            Self::Text(_) => "Text",
            Self::Blob(_) => "Blob",
        })
    }
}

impl Cell {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// True for a flag that is up.
    pub(super) fn is_set(&self) -> bool {
        match self {
            Self::Integer(number) => *number != 0,
            Self::Text(text) => text == "1",
            _ => false,
        }
    }

    /// As text; bytes in hexadecimal digits. `None`: NULL.
    pub(super) fn text(&self) -> Option<String> {
        match self {
            Self::Null => None,
            Self::Integer(number) => Some(number.to_string()),
            Self::Real(number) => Some(number.to_string()),
            Self::Text(text) => Some(text.clone()),
            Self::Blob(bytes) => Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }

    /// As a record's key or link has it: moments get their zone.
    pub(super) fn key_text(&self, kind: ColumnType, zone: &str) -> Option<String> {
        self.text().map(|text| if kind == ColumnType::Timestamp { with_zone(text, zone) } else { text })
    }

    /// As a field of a record.
    ///
    /// # Errors
    /// A text that should be JSON and is none.
    pub(super) fn json(&self, kind: ColumnType, zone: &str) -> Result<Json, String> {
        let Some(text) = self.text() else { return Ok(Json::Null) };
        match (kind, self) {
            (ColumnType::Json, Self::Text(text)) => {
                serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
            }
            (ColumnType::Timestamp, _) => Ok(Json::String(with_zone(text, zone))),
            _ => Ok(Json::String(text)),
        }
    }
}

/// A moment that has no zone of its own gets one; what is no moment stays what it is.
fn with_zone(text: String, zone: &str) -> String {
    if Timestamp::parse(&text).is_some() {
        return text;
    }
    let zoned = format!("{text}{zone}");
    if Timestamp::parse(&zoned).is_some() { zoned } else { text }
}

/// Minutes east of UTC as a moment's text ends: `Z`, `+02:00`.
pub(super) fn zone_text(minutes: i32) -> String {
    match minutes {
        0 => "Z".to_owned(),
        _ => {
            let sign = if minutes < 0 { '-' } else { '+' };
            let minutes = minutes.abs();
            format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_kept_comes_back_as_it_was() {
        let cells = [
            Cell::Null,
            Cell::Integer(i64::MAX),
            Cell::Real(0.1 + 0.2),
            Cell::Real(5e-324),
            Cell::Text("2026-01-31 12:00:00.123456789".to_owned()),
            Cell::Blob(vec![0, 255]),
        ];
        for cell in cells {
            let text = serde_json::to_string(&cell).unwrap();
            assert!(serde_json::from_str::<Cell>(&text).unwrap() == cell, "{text}");
            assert!(!format!("{cell:?}").contains("2026"));
        }
    }

    #[test]
    fn a_moment_without_a_zone_gets_the_one_that_was_said() {
        let text = |text: &str| Cell::Text(text.to_owned()).key_text(ColumnType::Timestamp, "+02:00").unwrap();
        assert_eq!(text("2026-01-31 12:00:00.5"), "2026-01-31 12:00:00.5+02:00");
        assert_eq!(text("2026-01-31 12:00:00+00"), "2026-01-31 12:00:00+00");
        assert_eq!(text("infinity"), "infinity");
        assert_eq!((zone_text(-90).as_str(), zone_text(0).as_str()), ("-01:30", "Z"));
    }
}
