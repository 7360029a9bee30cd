//! One value as JSON text: what `to_json` shows, on one line.

use millstream_core::ColumnInfo;
use millstream_core::schema::{FieldType, GeoSource, Literal, Transform, ValueType};

use super::scope::Column;

/// An expression to show: what the schema and the catalog say of it.
pub(super) struct Shown<'a> {
    sql: String,
    /// `None` for the author's SQL: its type is known to the server alone.
    info: Option<&'a ColumnInfo>,
    is_array: bool,
    is_binary: bool,
    transforms: &'a [Transform],
}

impl<'a> Shown<'a> {
    pub fn column(column: Column<'a>, field_type: &FieldType, transforms: &'a [Transform]) -> Self {
        let is_binary = *field_type == FieldType::Binary && column.info.base_type == "bytea";
        let is_array = column.info.is_array;
        Self { sql: column.sql, info: Some(column.info), is_array, is_binary, transforms }
    }

    pub fn sql(sql: String, value: &ValueType, transforms: &'a [Transform]) -> Self {
        let is_binary = value.field_type == FieldType::Binary;
        Self { sql, info: None, is_array: value.array, is_binary, transforms }
    }

    /// JSON text, or NULL for NULL.
    pub fn or_null(&self) -> String {
        if !self.transforms.is_empty() {
            return self.transformed();
        }
        if self.is_binary {
            return if self.is_array {
                base64_array(&self.sql)
            } else {
                format!("to_json({})::text", base64(&self.sql))
            };
        }
        match self.info {
            Some(info) if !info.is_array && INTEGERS.contains(&info.base_type.as_str()) => {
                format!("{}::text", self.sql)
            }
            Some(info) if info.is_enum || ONE_LINE.contains(&info.base_type.as_str()) => {
                format!("to_json({})::text", self.sql)
            }
            _ => on_one_line(&format!("to_json({})::text", self.sql)),
        }
    }

    /// JSON text that is never NULL: `null` or the default in its place.
    pub fn or(&self, default: Option<&Literal>) -> String {
        // Also where the catalog says NOT NULL: it may be out of date, and one NULL would make the whole document NULL.
        let default = default.map_or("null", |literal| literal.0.as_str());
        format!("coalesce({}, {})", self.or_null(), millstream_postgres::quote::literal(&one_line(default)))
    }

    fn transformed(&self) -> String {
        // An array's elements are changed within its text, which keeps its shape: what is between the elements has no
        // letters, and an element with a space at an end is in quotes.
        let cast = if self.is_array { "::text[]::text" } else { "::text" };
        let text = format!("{}{cast}", self.sql);
        let text = self.transforms.iter().fold(text, |text, transform| match transform {
            Transform::Lowercase => format!("lower({text})"),
            Transform::Uppercase => format!("upper({text})"),
            _ if self.is_array => {
                format!(r#"regexp_replace(regexp_replace({text}, '([{{,]") +', '\1', 'g'), ' +"', '"', 'g')"#)
            }
            _ => format!("btrim({text})"),
        });
        let cast = if self.is_array { "::text[]" } else { "" };
        format!("to_json(({text}){cast})::text")
    }
}

/// Types whose own text is a JSON number.
const INTEGERS: [&str; 3] = ["int2", "int4", "int8"];

/// Types of which `to_json` never has a line break: all but `json` itself and what may hold it.
const ONE_LINE: [&str; 25] = [
    "bool",
    "int2",
    "int4",
    "int8",
    "oid",
    "float4",
    "float8",
    "numeric",
    "money",
    "text",
    "varchar",
    "bpchar",
    "name",
    "citext",
    "uuid",
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "bytea",
    "jsonb",
    "inet",
    "cidr",
];

/// A line break in JSON text can only stand between tokens, where a space means the same.
pub(super) fn on_one_line(json: &str) -> String {
    format!("translate({json}, E'\\n\\r', '  ')")
}

/// The same for JSON text that is known here.
pub(super) fn one_line(json: &str) -> String {
    json.replace(['\n', '\r'], " ")
}

fn base64(sql: &str) -> String {
    format!("translate(encode({sql}, 'base64'), E'\\n', '')")
}

/// Whatever its dimensions: every text in the array's JSON is a value in hex, as `"\\x00ff"`.
fn base64_array(sql: &str) -> String {
    let bytes = base64(r"decode(substr(m[1], 5, length(m[1]) - 5), 'hex')");
    format!(
        "(select string_agg(case when m[1] like '\"%' then to_json({bytes})::text else m[1] end, '' order by n) \
         from regexp_matches(to_json({sql})::text, '\"[^\"]*\"|[^\"]+', 'g') with ordinality as u(m, n))"
    )
}

/// A point on earth; null when a coordinate is NULL.
pub(super) fn geo_point<'a>(
    source: &GeoSource,
    mut column: impl FnMut(&str) -> millstream_core::Result<Column<'a>>,
) -> millstream_core::Result<String> {
    let (lat, lon) = match source {
        GeoSource::LatLon { lat, lon } => (column(lat)?.sql, column(lon)?.sql),
        GeoSource::Point(name) => {
            let point = column(name)?;
            match point.info.base_type.as_str() {
                "geometry" | "geography" => {
                    (format!("ST_Y({}::geometry)", point.sql), format!("ST_X({}::geometry)", point.sql))
                }
                _ => (format!("({})[1]", point.sql), format!("({})[0]", point.sql)),
            }
        }
    };
    // A NULL coordinate makes the whole NULL.
    Ok(format!("coalesce('{{\"lat\":' || to_json({lat})::text || ',\"lon\":' || to_json({lon})::text || '}}', 'null')"))
}
