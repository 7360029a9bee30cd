use std::collections::BTreeMap;

use millstream_model::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::{ColumnTypeSection, Span};

/// Tables of a database, each a stream of its name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqlTableSection {
    /// `postgres://…`, `mysql://…` (MariaDB too), or `sqlite:PATH`.
    #[schemars(with = "String")]
    pub url: Secret,
    /// The tables, by the names that they have in the store.
    pub tables: BTreeMap<String, TableSection>,
    /// Rows of one page. Default: 1000.
    #[serde(default = "page_rows")]
    #[schemars(range(min = 1))]
    pub page_rows: usize,
    /// Rows, or keys, that may be read in one piece. Default: 1000000.
    #[serde(default = "rows_max")]
    #[schemars(range(min = 1))]
    pub rows_max: usize,
}

/// One table and how its changes are found: by `cursor`, or whole with `reconciled: true`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TableSection {
    /// The table or view, as `table` or `schema.table`. Default: the stream's name.
    pub table: Option<String>,
    /// The schema (MySQL: the database); then a dot in `table` is part of the name.
    pub schema: Option<String>,
    /// The columns by which a row is found. Default: the primary key.
    #[serde(default)]
    pub key: Vec<String>,
    /// The only columns to read beside the key. Default: all.
    pub only: Option<Vec<String>>,
    /// Types of columns, by name. Default: as the database says; of SQLite, where it does.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnTypeSection>,
    /// The column that grows with every change.
    pub cursor: Option<String>,
    /// What the cursor's whole numbers count, if they are moments.
    pub unit: Option<UnitSection>,
    /// How far the source's clock must be past a moment. Default: `5s`.
    pub settle: Option<Span>,
    /// How much before the last row is read again each time: a length of time, or a number of a cursor of numbers.
    pub look_back: Option<LookBackSection>,
    /// Rows without a cursor. Default: `read`, each time.
    #[serde(default)]
    pub null_cursors: StraySection,
    /// Rows ahead of the source's clock. Default: `read`, each time.
    #[serde(default)]
    pub future_cursors: StraySection,
    /// SQL over the table's own columns: rows for which it is not true are gone.
    pub r#where: Option<String>,
    /// A column that says whether a row is gone.
    pub soft_delete: Option<String>,
    /// A table in which every removal leaves a row.
    pub delete_log: Option<DeleteLogSection>,
    /// How often all keys are compared. Default: whenever everything is asked for.
    pub reconcile_keys: Option<Span>,
    /// True: the table is read whole each time, and what is gone from it is withdrawn.
    #[serde(default)]
    pub reconciled: bool,
    /// The zone of moments without one: `+02:00`. Default: UTC.
    #[serde(default)]
    pub zone: Zone,
}

/// A table in which every removal leaves a row.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct DeleteLogSection {
    /// The table, as `table` or `schema.table`.
    pub table: String,
    /// The schema; then a dot in `table` is part of the name.
    pub schema: Option<String>,
    /// Its columns that hold the key of the row that is gone. Default: named as the table's.
    #[serde(default)]
    pub key: Vec<String>,
    /// Its column that grows with every row.
    pub cursor: String,
    /// As the table's.
    pub unit: Option<UnitSection>,
    /// As the table's.
    pub settle: Option<Span>,
    /// As the table's.
    pub look_back: Option<LookBackSection>,
}

/// What whole numbers count since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum UnitSection {
    /// Seconds.
    Seconds,
    /// Thousandths of a second.
    Millis,
    /// Millionths of a second.
    Micros,
}

/// What becomes of rows that have no place in the cursor's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StraySection {
    /// They are read whole in each pass.
    #[default]
    Read,
    /// They are left alone until they have one.
    Skip,
}

/// A length of time, or a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LookBackSection {
    /// Of a cursor of moments.
    Time(Span),
    /// Of a cursor of whole numbers.
    Numbers(u64),
}

/// A zone: minutes east of UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zone(pub i32);

impl<'de> Deserialize<'de> for LookBackSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Ok(number) = text.parse() {
            return Ok(Self::Numbers(number));
        }
        Span::parse(&text).map(Self::Time).map_err(|message| {
            serde::de::Error::custom(format!("{message}; or a bare number, for a cursor of whole numbers"))
        })
    }
}

impl JsonSchema for LookBackSection {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LookBack".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A length of time with its unit, or a number for a cursor of whole numbers",
            "type": ["string", "integer"],
            "pattern": "^[0-9]+ *(ms|s|m|h|d)?$"
        })
    }
}

impl<'de> Deserialize<'de> for Zone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || {
            serde::de::Error::custom(format!(
                "`{text}` is no zone: write `UTC`, or hours and minutes east of it such as `\"+02:00\"`"
            ))
        };
        if text == "UTC" || text == "Z" {
            return Ok(Self(0));
        }
        let (sign, rest) = match text.split_at_checked(1) {
            Some(("+", rest)) => (1, rest),
            Some(("-", rest)) => (-1, rest),
            _ => return Err(wrong()),
        };
        let (hours, minutes) = rest.split_once(':').ok_or_else(wrong)?;
        let number = |text: &str, most: i32| {
            let is_short = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse::<i32>().ok().filter(|number| is_short && *number <= most).ok_or_else(wrong)
        };
        Ok(Self(sign * (number(hours, 14)? * 60 + number(minutes, 59)?)))
    }
}

impl JsonSchema for Zone {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Zone".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "`UTC`, or hours and minutes east of it",
            "type": "string",
            "pattern": "^(UTC|Z|[+-][0-9]{2}:[0-9]{2})$"
        })
    }
}

fn page_rows() -> usize {
    1000
}

fn rows_max() -> usize {
    1_000_000
}
