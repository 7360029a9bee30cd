//! One value as JSON text, on one line. Never NULL: of NULL it is `null`, or the field's default.

use millstream_core::schema::{FieldType, GeoSource, Literal, Transform, ValueType};
use millstream_core::{ColumnInfo, Result};

use super::concat::one_line;
use super::quote;
use super::scope::Column;
use super::types::UNDECLARED;

/// An expression to show: what the schema and the catalog say of it.
pub(super) struct Shown<'a> {
    sql: String,
    look: Look,
    transforms: &'a [Transform],
}

/// How a value looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// A text or a whole number: as it is.
    Plain,
    /// Whatever it turns out to be.
    Any,
    /// `true` or `false` for 1 or 0.
    Truth,
    /// A number with all its digits, be it kept as a text.
    Number,
    /// A moment, as Postgres writes it.
    Moment,
    /// JSON that is kept as a text.
    Json,
    /// A blob as `\x00ff`.
    Hex,
    /// A blob in base64.
    Base64,
}

impl Look {
    /// By a column's declared type.
    pub fn of_column(column: &ColumnInfo) -> Self {
        match column.base_type.as_str() {
            "bool" => Self::Truth,
            "float8" | "numeric" => Self::Number,
            "timestamptz" => Self::Moment,
            "jsonb" => Self::Json,
            "bytea" => Self::Hex,
            UNDECLARED => Self::Any,
            _ => Self::Plain,
        }
    }

    /// By what the schema says of an expression: SQLite itself knows neither truths nor JSON.
    pub fn of_type(value: &ValueType) -> Self {
        match value.field_type {
            _ if value.array => Self::Json,
            FieldType::Boolean => Self::Truth,
            FieldType::Json => Self::Json,
            FieldType::Timestamp => Self::Moment,
            FieldType::Binary => Self::Base64,
            FieldType::Short
            | FieldType::Integer
            | FieldType::Long
            | FieldType::Float
            | FieldType::Double
            | FieldType::Decimal => Self::Number,
            _ => Self::Any,
        }
    }
}

impl<'a> Shown<'a> {
    pub fn column(column: Column<'a>, field_type: &FieldType, transforms: &'a [Transform]) -> Self {
        let look = match Look::of_column(column.info) {
            Look::Hex if *field_type == FieldType::Binary => Look::Base64,
            look => look,
        };
        Self { sql: column.sql, look, transforms }
    }

    pub fn sql(sql: String, value: &ValueType, transforms: &'a [Transform]) -> Self {
        Self { sql, look: Look::of_type(value), transforms }
    }

    /// JSON text: the default in place of NULL.
    pub fn or(&self, default: Option<&Literal>) -> String {
        let json = match self.transforms {
            [] => json(&self.sql, self.look),
            transforms => format!("json_quote({})", transformed(&self.sql, transforms)),
        };
        match default {
            None => json,
            Some(default) => {
                let default = quote::literal(&one_line(&default.0));
                format!("case when {} is null then {default} else {json} end", self.sql)
            }
        }
    }
}

fn transformed(sql: &str, transforms: &[Transform]) -> String {
    transforms.iter().fold(format!("cast({sql} as text)"), |text, transform| match transform {
        Transform::Lowercase => format!("lower({text})"),
        Transform::Uppercase => format!("upper({text})"),
        _ => format!("trim({text})"),
    })
}

/// The JSON text of an expression, which may be written several times.
pub(super) fn json(sql: &str, look: Look) -> String {
    match look {
        Look::Plain => format!("json_quote({sql})"),
        Look::Any => format!(
            "case typeof({sql}) when 'real' then {} when 'blob' then {} else json_quote({sql}) end",
            real(sql),
            hex(sql)
        ),
        Look::Truth => format!("case {sql} when 1 then 'true' when 0 then 'false' else json_quote({sql}) end"),
        // A text that is no number, such as NaN, is shown as a text.
        Look::Number => format!(
            "case typeof({sql}) when 'real' then {} when 'text' then \
             case when {sql} not glob '*[^-+.0-9eE]*' and json_valid({sql}) then {sql} else json_quote({sql}) end \
             else json_quote({sql}) end",
            real(sql)
        ),
        Look::Moment => format!(
            "json_quote(case when {sql} glob '*.??????Z' \
             then rtrim(rtrim(substr({sql}, 1, length({sql}) - 1), '0'), '.') || '+00:00' else {sql} end)"
        ),
        // A line break in JSON text can only stand between tokens, where a space means the same.
        Look::Json => format!(
            "case when json_valid({sql}) then replace(replace({sql}, char(10), ' '), char(13), ' ') \
             else json_quote({sql}) end"
        ),
        Look::Hex => format!("case typeof({sql}) when 'blob' then {} else json_quote({sql}) end", hex(sql)),
        Look::Base64 => format!("case typeof({sql}) when 'blob' then {} else json_quote({sql}) end", base64(sql)),
    }
}

/// The fewest digits that are read back as the same number: what SQLite itself shows stops at 15.
fn real(sql: &str) -> String {
    format!(
        "case when {sql} = 9e999 then '\"Infinity\"' when {sql} = -9e999 then '\"-Infinity\"' \
         when cast(printf('%.15g', {sql}) as real) = {sql} then printf('%.15g', {sql}) \
         when cast(printf('%.16g', {sql}) as real) = {sql} then printf('%.16g', {sql}) \
         else printf('%!.17g', {sql}) end"
    )
}

fn hex(sql: &str) -> String {
    format!("json_quote('\\x' || lower(hex({sql})))")
}

/// Three bytes are six digits of hex, and each three of these two letters.
fn base64(sql: &str) -> String {
    const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |at: u8| format!("(instr('0123456789ABCDEF', substr(h, {at}, 1)) - 1)");
    let twelve_bits = |at: u8| format!("{} * 256 + {} * 16 + {}", digit(at), digit(at + 1), digit(at + 2));
    let letters =
        |bits: &str| format!("substr('{LETTERS}', {bits} / 64 + 1, 1) || substr('{LETTERS}', {bits} % 64 + 1, 1)");
    format!(
        "'\"' || substr(coalesce((with recursive g(i) as (\
         select 1 where length({sql}) > 0 union all select i + 3 from g where i + 3 <= length({sql})) \
         select group_concat({} || {}, '' order by i) from (select i, {} as a, {} as b from (\
         select i, substr(hex(substr({sql}, i, 3)) || '0000', 1, 6) as h from g))), ''), 1, (length({sql}) * 4 + 2) / 3) \
         || substr('==', 1, (3 - length({sql}) % 3) % 3) || '\"'",
        letters("a"),
        letters("b"),
        twelve_bits(1),
        twelve_bits(4)
    )
}

/// A point on earth; null when a coordinate is NULL. Of a point's column there is none: validation refuses it.
pub(super) fn geo_point<'a>(source: &GeoSource, mut column: impl FnMut(&str) -> Result<Column<'a>>) -> Result<String> {
    let (lat, lon) = match source {
        GeoSource::LatLon { lat, lon } => (column(lat)?, column(lon)?),
        GeoSource::Point(name) => (column(name)?, column(name)?),
    };
    let shown = |column: &Column<'_>| json(&column.sql, Look::of_column(column.info));
    Ok(format!(
        "case when {} is null or {} is null then 'null' else '{{\"lat\":' || {} || ',\"lon\":' || {} || '}}' end",
        lat.sql,
        lon.sql,
        shown(&lat),
        shown(&lon)
    ))
}
