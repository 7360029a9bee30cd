//! From a source's JSON to the values of a table's columns: each in one spelling, so that equal contents have equal digests.

use serde_json::Value as Json;
use sha2::{Digest, Sha256};

use super::dialect::Dialect;
use super::shape::{DIGEST, Row, Same};
use super::sql::Value;
use crate::model::{ColumnType, Record, RecordKey, RecordShape, Timestamp, parse_date};

/// Why a record can't be stored: the column, and what is wrong with its value.
pub(crate) type RowError = String;

/// A record as a row of its stream's table. Fields that are no columns are an error: the driver adds their columns before.
pub(crate) fn record_row(dialect: Dialect, shape: &RecordShape, record: &Record) -> Result<Row, RowError> {
    let (key, key_values) = key_of(dialect, shape, &record.key)?;
    let others = shape.columns.iter().filter(|column| !shape.key.contains(&column.name));
    let mut values = Vec::with_capacity(shape.columns.len() + 1);
    // Sorted by name: the order in which a source or a configuration lists columns is no content.
    let mut contents: Vec<(&str, Option<String>)> = Vec::with_capacity(shape.columns.len());
    for column in others {
        let field = record.fields.get(&column.name).unwrap_or(&Json::Null);
        let (value, text) = value_of(column.kind, field).map_err(|why| format!("column {}: {why}", column.name))?;
        values.push(value);
        if text.is_some() {
            contents.push((&column.name, text));
        }
    }
    contents.sort_unstable();
    let digest = digest_of(contents.iter().flat_map(|(name, text)| [Some(*name), text.as_deref()]));
    values.push(Value::from(digest.clone()));
    Ok(Row { key, key_values, values, same: Same::Text(digest) })
}

/// The texts of a record's key as they are once stored.
pub(crate) fn key_of(
    dialect: Dialect,
    shape: &RecordShape,
    key: &RecordKey,
) -> Result<(Vec<String>, Vec<Value>), RowError> {
    if key.len() != shape.key.len() {
        return Err(format!("the key has {} values, not {}", key.len(), shape.key.len()));
    }
    let mut texts = Vec::with_capacity(key.len());
    let mut values = Vec::with_capacity(key.len());
    for (name, given) in shape.key.iter().zip(key) {
        let kind = shape.kind(name);
        let (value, text) =
            value_of(kind, &Json::String(given.clone())).map_err(|why| format!("key column {name}: {why}"))?;
        let text = text.ok_or_else(|| format!("key column {name}: it is NULL"))?;
        texts.push(match (kind, &value) {
            (ColumnType::Boolean, Value::Boolean(Some(value))) => dialect.boolean(*value).to_owned(),
            (ColumnType::Timestamp, _) => {
                let at = Timestamp::parse(&text).ok_or_else(|| format!("key column {name}: it is no moment"))?;
                dialect.instant(at)
            }
            _ => text,
        });
        values.push(value);
    }
    Ok((texts, values))
}

/// A digest of texts in order; NULL and the empty text differ, and so do neighbours that share a border.
pub(crate) fn digest_of<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        match text {
            None => hash.update([0]),
            Some(text) => {
                hash.update([1]);
                hash.update((text.len() as u64).to_be_bytes());
                hash.update(text.as_bytes());
            }
        }
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The parameter for a field, and its one spelling; `None`: NULL.
fn value_of(kind: ColumnType, field: &Json) -> Result<(Value, Option<String>), RowError> {
    if kind == ColumnType::Json {
        return json(field);
    }
    let Some(text) = scalar(field) else {
        let null = match kind {
            ColumnType::Integer => Value::Integer(None),
            ColumnType::Double => Value::Real(None),
            ColumnType::Boolean => Value::Boolean(None),
            _ => Value::Text(None),
        };
        return Ok((null, None));
    };
    // No database of the two takes it everywhere.
    if text.contains('\0') {
        return Err("it holds a zero byte".to_owned());
    }
    let trimmed = text.trim();
    let shown = || trimmed.chars().take(60).collect::<String>();
    match kind {
        ColumnType::Integer => {
            let value: i64 = trimmed.parse().map_err(|_| format!("{:?} is no whole number", shown()))?;
            Ok((Value::Integer(Some(value)), Some(value.to_string())))
        }
        ColumnType::Double => {
            let value = trimmed.parse::<f64>().ok().filter(|value| value.is_finite());
            let value = value.ok_or_else(|| format!("{:?} is no number", shown()))?;
            Ok((Value::Real(Some(value)), Some(value.to_string())))
        }
        ColumnType::Boolean => {
            let value = match trimmed.to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "1" => true,
                "false" | "f" | "no" | "n" | "0" => false,
                _ => return Err(format!("{:?} is no truth value", shown())),
            };
            Ok((Value::Boolean(Some(value)), Some(value.to_string())))
        }
        ColumnType::Decimal => {
            let digits = decimal(trimmed).ok_or_else(|| format!("{:?} is no decimal number", shown()))?;
            Ok((Value::from(digits.clone()), Some(digits)))
        }
        ColumnType::Timestamp => {
            let at = Timestamp::parse(trimmed).ok_or_else(|| format!("{:?} is no moment with a zone", shown()))?;
            Ok((Value::from(at.to_string()), Some(at.to_string())))
        }
        ColumnType::Date => {
            let (year, month, day) = parse_date(trimmed).ok_or_else(|| format!("{:?} is no day", shown()))?;
            let text = format!("{year:04}-{month:02}-{day:02}");
            Ok((Value::from(text.clone()), Some(text)))
        }
        _ => Ok((Value::from(text.clone()), Some(text))),
    }
}

fn json(field: &Json) -> Result<(Value, Option<String>), RowError> {
    if field.is_null() {
        return Ok((Value::Text(None), None));
    }
    // Postgres's jsonb has no zero byte either.
    let text = canonical(field).to_string();
    if text.contains("\\u0000") {
        Err("it holds a zero byte".to_owned())
    } else {
        Ok((Value::from(text.clone()), Some(text)))
    }
}

/// The same with every object's names sorted: their order is no content.
pub(crate) fn canonical(json: &Json) -> Json {
    match json {
        Json::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            Json::Object(names.into_iter().map(|name| (name.clone(), canonical(&fields[name]))).collect())
        }
        Json::Array(items) => Json::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}

/// A field as text: numbers and truths in JSON's spelling, arrays and objects as JSON.
fn scalar(field: &Json) -> Option<String> {
    match field {
        Json::Null => None,
        Json::String(text) => Some(text.clone()),
        other => Some(canonical(other).to_string()),
    }
}

/// A decimal number as Postgres's `numeric` writes it: no plus, no zeros in front, no exponent; all digits stay.
fn decimal(text: &str) -> Option<String> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok().filter(|e| e.abs() <= 1000)?),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !all_digits || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let mut digits = format!("{whole}{fraction}");
    let mut scale = i64::try_from(fraction.len()).ok()? - i64::from(exponent);
    while scale < 0 {
        digits.push('0');
        scale += 1;
    }
    let scale = usize::try_from(scale).ok()?;
    while digits.len() <= scale {
        digits.insert(0, '0');
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    let sign = if negative && !is_zero { "-" } else { "" };
    Some(if fraction.is_empty() { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") })
}

/// True for the driver's own column.
pub(crate) fn is_own_column(name: &str) -> bool {
    name.eq_ignore_ascii_case(DIGEST)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::Column;

    fn shape() -> RecordShape {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        RecordShape {
            key: vec!["id".to_owned()],
            columns: vec![
                column("id", ColumnType::Integer),
                column("price", ColumnType::Decimal),
                column("name", ColumnType::Text),
                column("at", ColumnType::Timestamp),
            ],
        }
    }

    fn row(fields: Json) -> Row {
        let Json::Object(fields) = fields else { panic!("an object") };
        record_row(Dialect::Sqlite, &shape(), &Record::new("007", fields)).unwrap()
    }

    #[test]
    fn p12_decimals_keep_their_digits_in_one_spelling() {
        for (text, spelled) in [
            ("1.50", "1.50"),
            ("007.5", "7.5"),
            ("+.5", "0.5"),
            ("-0.00", "0.00"),
            ("1e3", "1000"),
            ("1.25e-3", "0.00125"),
            ("12345678901234567890123456789.123456789", "12345678901234567890123456789.123456789"),
        ] {
            assert_eq!(decimal(text).as_deref(), Some(spelled), "{text}");
        }
        for text in ["", ".", "-", "1,5", "NaN", "0x1", "1e", "--1", "1e99999"] {
            assert_eq!(decimal(text), None, "{text}");
        }
    }

    #[test]
    fn the_order_of_fields_and_the_spelling_of_values_are_no_content() {
        let one = row(json!({"price": "1.5", "name": "a", "at": "2026-01-31T12:00:00+01:00"}));
        let other = row(json!({"at": "2026-01-31T11:00:00Z", "name": "a", "price": 1.5}));
        assert_eq!(one, other);
        assert_eq!(one.key, ["7"]);
    }

    #[test]
    fn null_and_the_empty_text_differ() {
        assert_ne!(row(json!({"name": ""})).same, row(json!({"name": null})).same);
        assert_eq!(row(json!({})).same, row(json!({"name": null})).same);
    }

    #[test]
    fn what_does_not_fit_a_column_names_it() {
        let Json::Object(fields) = json!({"price": "dear"}) else { panic!("an object") };
        let why = record_row(Dialect::Sqlite, &shape(), &Record::new("1", fields)).unwrap_err();
        assert_eq!(why, "column price: \"dear\" is no decimal number");
        let why = record_row(Dialect::Sqlite, &shape(), &Record::new("x", serde_json::Map::new())).unwrap_err();
        assert_eq!(why, "key column id: \"x\" is no whole number");
    }
}
