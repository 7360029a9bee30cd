use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_model::Secret;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use super::source::span_or;
use super::{HttpJsonSection, Span, SqlTableSection};

/// A source without a log, asked at intervals for what is new. One of `csv_folder`, `sql_table` and `http_json` says what it is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PollingSection {
    /// Where that what was fetched is kept, and documents are built from.
    pub store: StoreSection,
    /// Time from the end of one look to the next. Default: `30s`, which is also the least unless `floor: off`.
    #[serde(default = "every")]
    #[schemars(default = "every_text")]
    pub every: Span,
    /// The least that `every` may be, or `off`. Default: `30s`.
    #[serde(default)]
    pub floor: Floor,
    /// How long an index that can't be built just now keeps its changes before it is filled again. Default: `15m`.
    #[serde(default = "super::source::hold")]
    #[schemars(default = "super::source::hold_text")]
    pub hold: Span,
    /// A folder of CSV files.
    pub csv_folder: Option<CsvFolderSection>,
    /// Tables of a database.
    pub sql_table: Option<SqlTableSection>,
    /// Lists of an API that answers in JSON.
    pub http_json: Option<HttpJsonSection>,
}

/// Where that what was fetched is kept.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StoreSection {
    /// In one file, without a server.
    Sqlite(SqliteStoreSection),
    /// In a Postgres database.
    Postgres(PostgresStoreSection),
}

/// A store in one file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SqliteStoreSection {
    /// The file; it is made if it is not there. On a local disk.
    pub path: PathBuf,
}

/// A store in a Postgres database.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct PostgresStoreSection {
    /// `postgres://user:password@host:port/database?sslmode=…`
    #[schemars(with = "String")]
    pub url: Secret,
    /// The schema that holds its tables; it is made if it is not there. Default: `public`.
    #[serde(default = "public")]
    pub schema: String,
}

/// The least that an interval may be: a length of time, or `off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor(pub Option<Span>);

/// A folder of CSV files, each a stream of its name.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct CsvFolderSection {
    /// The folder.
    pub path: PathBuf,
    /// Files of records: the columns by which a record is found.
    pub key: Option<Vec<String>>,
    /// Files of readings: the column of moments.
    pub time: Option<String>,
    /// Files of readings: the column of numbers.
    pub value: Option<String>,
    /// Files of readings: the column that tells several numbers of one moment apart.
    pub replicate: Option<String>,
    /// Types of columns, by name; text otherwise.
    #[serde(default)]
    pub columns: BTreeMap<String, ColumnTypeSection>,
    /// True: a file is the whole truth, and what is gone from it is withdrawn. False: lines are added and corrected.
    #[serde(default)]
    pub reconciled: bool,
    /// What stands between fields, one ASCII character. Default: a comma.
    #[serde(default = "comma")]
    pub delimiter: char,
    /// How long a file must have been left alone before it is read. Default: `1s`.
    #[serde(default = "settle")]
    #[schemars(default = "settle_text")]
    pub settle: Span,
}

/// The type of a column of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ColumnTypeSection {
    /// Any text.
    Text,
    /// A whole number of 64 bits.
    Integer,
    /// A number with all its digits.
    Decimal,
    /// A binary floating-point number.
    Double,
    /// True or false.
    Boolean,
    /// A moment with its zone.
    Timestamp,
    /// A day.
    Date,
    /// Any JSON.
    Json,
}

impl PollingSection {
    /// The keys of those that say what is polled.
    pub(super) fn backends(&self) -> Vec<&'static str> {
        let backends = [
            ("csv_folder", self.csv_folder.is_some()),
            ("sql_table", self.sql_table.is_some()),
            ("http_json", self.http_json.is_some()),
        ];
        backends.into_iter().filter(|(_, there)| *there).map(|(key, _)| key).collect()
    }
}

impl Default for Floor {
    fn default() -> Self {
        Self(Some(every()))
    }
}

impl<'de> Deserialize<'de> for Floor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let span = span_or("off", &String::deserialize(deserializer)?).map_err(serde::de::Error::custom)?;
        Ok(Self(span.map(Span)))
    }
}

impl JsonSchema for Floor {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Floor".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A length of time with its unit, or `off`",
            "type": "string",
            "pattern": "^([0-9]+ *(ms|s|m|h|d)|off)$"
        })
    }
}

fn every() -> Span {
    Span(std::time::Duration::from_secs(30))
}

fn every_text() -> &'static str {
    "30s"
}

fn settle() -> Span {
    Span(std::time::Duration::from_secs(1))
}

fn settle_text() -> &'static str {
    "1s"
}

fn public() -> String {
    "public".to_owned()
}

fn comma() -> char {
    ','
}
