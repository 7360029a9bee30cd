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

#[cfg(test)]
mod tests {
    use super::*;

    fn column(native: &str, base: &str) -> ColumnInfo {
        ColumnInfo {
            native_type: native.into(),
            base_type: base.into(),
            one_text_per_value: true,
            ..Default::default()
        }
    }

    #[test]
    fn a_text_is_read_without_modifiers_and_without_a_domains_conditions() {
        assert_eq!(cast_type(&column("character varying(3)", "varchar")), r#"pg_catalog."varchar""#);
        assert_eq!(cast_type(&column("code", "bpchar")), r#"pg_catalog."bpchar""#);
        assert_eq!(cast_type(&column(r#""Sales-2".mood"#, "mood")), r#""Sales-2".mood"#);
    }

    #[test]
    fn a_text_names_the_same_value_only_within_a_family() {
        let (int, long) = (column("integer", "int4"), column("bigint", "int8"));
        let (date, time) = (column("date", "date"), column("timestamp without time zone", "timestamp"));
        assert!(same_text(&int, &long) && same_text(&date, &date));
        assert!(!same_text(&date, &time) && !same_text(&int, &date));
        let numeric = ColumnInfo { one_text_per_value: false, ..column("numeric", "numeric") };
        assert!(!same_text(&numeric, &numeric));
    }
}
