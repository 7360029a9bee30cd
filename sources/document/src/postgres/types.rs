//! Column types as the queries write them.

use millstream_core::ColumnInfo;
use millstream_postgres::quote;

/// Types of the server that keys are made of, without those that stand for others of theirs.
const OF_SERVER: [&str; 31] = [
    "bit",
    "bool",
    "bpchar",
    "bytea",
    "cidr",
    "date",
    "float4",
    "float8",
    "inet",
    "int2",
    "int4",
    "int8",
    "interval",
    "macaddr",
    "macaddr8",
    "money",
    "name",
    "numeric",
    "oid",
    "pg_lsn",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "timetz",
    "tsquery",
    "tsvector",
    "uuid",
    "varbit",
    "varchar",
    "xid8",
];

/// The type to read a value's text as: a domain's base, since its conditions may not hold for an old value, and without
/// modifiers, since `varchar(3)` would cut a text until it equals another.
pub(super) fn cast_type(column: &ColumnInfo) -> String {
    if !column.is_array && OF_SERVER.contains(&column.base_type.as_str()) {
        format!("pg_catalog.{}", quote::ident(&column.base_type))
    } else {
        column.native_type.clone()
    }
}

/// True when equal values of the two columns always have the same text.
pub(super) fn same_text(left: &ColumnInfo, right: &ColumnInfo) -> bool {
    const INTEGERS: [&str; 3] = ["int2", "int4", "int8"];
    const TEXTS: [&str; 2] = ["text", "varchar"];
    let (a, b) = (left.base_type.as_str(), right.base_type.as_str());
    let family = |types: &[&str]| types.contains(&a) && types.contains(&b);
    left.one_text_per_value && right.one_text_per_value && (a == b || family(&INTEGERS) || family(&TEXTS))
}
