use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, de};

/// A length of time, written with its unit: `250ms`, `30s`, `15m`, `2h`, `1d`. A bare number is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Duration);

/// A number of bytes, written with its unit: `512B`, `64KiB`, `16MiB`, `1GiB`. A bare number is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub usize);

const SPANS: [(&str, u64); 5] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
const SIZES: [(&str, u64); 4] = [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

impl Span {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let expected = "a length of time is a number and its unit (ms, s, m, h, d), such as `30s`";
        measure(text, &SPANS, expected).map(|number| Self(Duration::from_millis(number)))
    }
}

impl Bytes {
    fn parse(text: &str) -> Result<Self, String> {
        let expected = "a size is a number and its unit (B, KiB, MiB, GiB), such as `16MiB`";
        let number = measure(text, &SIZES, expected)?;
        usize::try_from(number).map(Self).map_err(|_| format!("`{text}` is more than this machine can count"))
    }
}

/// A whole number times its unit.
fn measure(text: &str, units: &[(&str, u64)], expected: &str) -> Result<u64, String> {
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let (number, unit) = (number.parse::<u64>(), unit.trim_start());
    if number.is_ok() && unit.is_empty() {
        return Err(format!("`{text}` has no unit: {expected}"));
    }
    let unit = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match (number, unit) {
        (Ok(number), Some(factor)) => {
            number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too much: {expected}"))
        }
        _ => Err(format!("`{text}` is not understood: {expected}")),
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}B", self.0)
    }
}

impl JsonSchema for Span {
    fn schema_name() -> Cow<'static, str> {
        "Span".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a length of time with its unit: 250ms, 30s, 15m, 2h, 1d",
            "pattern": r"^[0-9]+ *(ms|s|m|h|d)$|\$\{",
        })
    }
}

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a size with its unit: 512B, 64KiB, 16MiB, 1GiB",
            "pattern": r"^[0-9]+ *(B|KiB|MiB|GiB)$|\$\{",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_of_time_needs_its_unit() {
        for (text, ms) in
            [("0s", 0), ("250ms", 250), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000), ("1 d", 86_400_000)]
        {
            assert_eq!(Span::parse(text), Ok(Span(Duration::from_millis(ms))), "{text}");
        }
        let expected = "a length of time is a number and its unit (ms, s, m, h, d), such as `30s`";
        assert_eq!(Span::parse("30"), Err(format!("`30` has no unit: {expected}")));
        for text in ["", "s", "30sec", "-1s", "1.5s", "1h30m", "30S"] {
            assert_eq!(Span::parse(text), Err(format!("`{text}` is not understood: {expected}")));
        }
        assert_eq!(Span::parse("99999999999999999d"), Err(format!("`99999999999999999d` is too much: {expected}")));
    }

    #[test]
    fn a_size_needs_its_unit() {
        for (text, bytes) in [("512B", 512), ("64KiB", 65_536), ("16MiB", 16 << 20), ("1GiB", 1 << 30)] {
            assert_eq!(Bytes::parse(text), Ok(Bytes(bytes)), "{text}");
        }
        let expected = "a size is a number and its unit (B, KiB, MiB, GiB), such as `16MiB`";
        assert_eq!(Bytes::parse("4096"), Err(format!("`4096` has no unit: {expected}")));
        for text in ["16MB", "16m", "MiB", "1.5GiB"] {
            assert_eq!(Bytes::parse(text), Err(format!("`{text}` is not understood: {expected}")));
        }
    }
}
