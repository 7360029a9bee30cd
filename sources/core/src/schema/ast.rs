use millstream_model::{QualifiedTable, Text};
use serde::Serialize;

use super::JoinPair;

/// What the documents of one index look like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IndexSchema {
    /// The root table: one row, one document.
    pub table: QualifiedTable,
    /// The order of the id's parts: a permutation of the primary key. `None`: the primary key as it is.
    pub key: Option<Vec<Text>>,
    /// Rows outside have no document (`where`).
    pub filter: Option<Sql>,
    /// Rows inside have no document: soft delete (`delete_when`).
    pub delete_when: Option<Sql>,
    /// The document's fields, in the order in which they are shown.
    pub fields: Vec<Field>,
}

/// A piece of SQL over one table's own columns, as the author wrote it. May end in a comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Sql(pub String);

/// One field of a document or of an object in it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Field {
    /// Its name in the document.
    pub name: Text,
    /// True when the author says that it may be null.
    pub nullable: bool,
    /// More properties for the sink's mapping, as written.
    pub mapping: Option<serde_json::Map<String, serde_json::Value>>,
    /// Where its value comes from.
    pub kind: FieldKind,
}

/// Where a field's value comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum FieldKind {
    /// A column of this row.
    Column {
        /// The column.
        column: Text,
        /// What the author says it is.
        value: ValueType,
        /// Applied in order to texts (to each element of an array).
        transforms: Vec<Transform>,
        /// Shown in place of NULL, after the transforms.
        default: Option<Literal>,
    },
    /// An expression over this row.
    Sql {
        /// The expression.
        sql: Sql,
        /// States the mapping; casts nothing.
        value: ValueType,
        /// Applied in order.
        transforms: Vec<Transform>,
        /// Shown in place of NULL, after the transforms.
        default: Option<Literal>,
    },
    /// The same in every document.
    Constant {
        /// The value.
        value: Literal,
        /// Its mapping.
        field_type: FieldType,
    },
    /// Fields of the same row, nested.
    Object(Vec<Field>),
    /// A point on earth: `{"lat": …, "lon": …}`; null when either is NULL.
    GeoPoint(GeoSource),
    /// Rows of another table, as objects.
    Relation(Relation),
    /// One number (or value) over rows of another table.
    Aggregate(Aggregate),
}

/// A field's declared type, and whether it is an array of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueType {
    /// The type, of each element if it is an array.
    pub field_type: FieldType,
    /// True for an array.
    pub array: bool,
}

/// The types that a schema can state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
#[allow(missing_docs)] // The names are the file format's own.
pub enum FieldType {
    Text,
    Keyword,
    Boolean,
    Short,
    Integer,
    Long,
    Float,
    Double,
    Decimal,
    Date,
    Timestamp,
    Time,
    Uuid,
    Binary,
    Json,
    Enum,
    /// Any type of the source's, with a mapping of the author's.
    Custom {
        /// Type names that are accepted.
        source: Vec<String>,
        /// The sink's mapping, as written.
        mapping: serde_json::Map<String, serde_json::Value>,
    },
}

/// Changes a text on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transform {
    /// Takes spaces off both ends.
    Trim,
    /// Makes letters small.
    Lowercase,
    /// Makes letters capital.
    Uppercase,
}

/// A value written in the schema: JSON text, numbers digit for digit as they stand there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Literal(pub String);

/// Where a point's coordinates come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum GeoSource {
    /// Two columns.
    LatLon {
        /// Latitude, degrees north.
        lat: Text,
        /// Longitude, degrees east.
        lon: Text,
    },
    /// A column of a point type: x is the longitude.
    Point(Text),
}

/// How many rows a relation gives, and which side points at which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Cardinality {
    /// This row's column points at the other: an object or null.
    BelongsTo,
    /// The other's column points at this row: an object or null.
    HasOne,
    /// The other's column points at this row: an array.
    HasMany,
}

/// The way from a row to rows of another table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Path {
    /// The far table.
    pub table: QualifiedTable,
    /// Without `through`: this row's column and the far one's. With it: empty.
    pub join: Vec<JoinPair>,
    /// Tables in between, each joined to the one before.
    pub through: Vec<Through>,
    /// With `through`: the last table's column and the far one's.
    pub to: Vec<JoinPair>,
    /// Over the far table (`where`).
    pub filter: Option<Sql>,
    /// True: a row reached twice counts once.
    pub distinct: bool,
    /// True when the author opts out of refreshing both parents of a moved row (`on_move: ignore`).
    pub ignore_moves: bool,
}

/// A table on the way to the far one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Through {
    /// The table.
    pub table: QualifiedTable,
    /// The previous table's column and this one's.
    pub join: Vec<JoinPair>,
    /// Over this table (`where`).
    pub filter: Option<Sql>,
}

/// Rows of another table, as objects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Relation {
    /// How many, and which side points.
    pub cardinality: Cardinality,
    /// The way there.
    pub path: Path,
    /// Over *this* row: else null or `[]`.
    pub when: Option<Sql>,
    /// The rows' order, before the far key.
    pub order_by: Vec<Order>,
    /// At most so many (`has_many`).
    pub limit: Option<u64>,
    /// An object by this column's text instead of an array.
    pub key_by: Option<Text>,
    /// The fields stand beside the parent's instead of inside an object.
    pub inline: bool,
    /// The far rows' fields.
    pub fields: Vec<Field>,
}

/// One column to order by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Order {
    /// The column of the far table.
    pub column: Text,
    /// True for descending (`-column`).
    pub descending: bool,
}

/// A value over rows of another table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Aggregate {
    /// What is made of the rows.
    pub function: AggregateFunction,
    /// The way there.
    pub path: Path,
    /// The mapping's type; casts nothing. `long` for a count.
    pub field_type: FieldType,
    /// For `collect` and `value`: the rows' order, before the far key.
    pub order_by: Vec<Order>,
    /// For `collect`: at most so many.
    pub limit: Option<u64>,
    /// For `collect` and `value`.
    pub transforms: Vec<Transform>,
}

/// What an aggregate makes of its rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum AggregateFunction {
    /// How many; of none 0.
    Count,
    /// Their sum; of none null.
    Sum(Operand),
    /// Their average; of none null.
    Avg(Operand),
    /// The least; of none null.
    Min(Operand),
    /// The greatest; of none null.
    Max(Operand),
    /// All, as an array; of none `[]`. Keeps NULLs.
    Collect(Operand),
    /// The first one's, or null.
    Value(Operand),
}

/// What of a far row goes into an aggregate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub enum Operand {
    /// A column.
    Column(Text),
    /// An expression over the far row.
    Sql(Sql),
}
