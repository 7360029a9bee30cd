//! What a column's declared type says of its values.
//!
//! SQLite lets any value stand in any column; what the declaration says is what the store keeps to. A type is known here by the
//! name that Postgres has for it, which is what schemas are held against.

use millstream_core::ColumnInfo;

/// The name, as schemas are held against it, of a declared type; `None` when the declaration says nothing.
///
/// The store's own types come first, then SQLite's rules of affinity.
pub(super) fn base_type(declared: &str) -> Option<&'static str> {
    let lower = declared.trim().to_lowercase();
    let name = lower.split('(').next().unwrap_or_default().trim();
    let known = match name.strip_suffix("_text").unwrap_or(name) {
        "" | "any" => return None,
        "boolean" | "bool" => "bool",
        "decimal" | "numeric" | "number" => "numeric",
        "timestamp" | "timestamptz" | "datetime" => "timestamptz",
        "date" => "date",
        "time" => "time",
        "uuid" => "uuid",
        "json" | "jsonb" => "jsonb",
        "blob" => "bytea",
        _ if name.contains("int") => "int8",
        _ if ["char", "clob", "text"].iter().any(|text| name.contains(text)) => "text",
        _ if name.contains("blob") => "bytea",
        _ if ["real", "floa", "doub"].iter().any(|real| name.contains(real)) => "float8",
        _ => "numeric",
    };
    Some(known)
}

/// The declared type as findings show it: of whole numbers there is one width.
pub(super) fn native_type(declared: &str, base: Option<&str>) -> String {
    match base {
        None => "of no declared type".to_owned(),
        Some("int8") if !declared.contains('(') => format!("{}(64 bits)", declared.to_lowercase()),
        Some(_) => declared.to_lowercase(),
    }
}

/// The base type of a column whose declaration says nothing.
pub(super) const UNDECLARED: &str = "any";

/// True when a value is found by its text: what keys and links must be made of.
///
/// The text of a floating-point number leaves digits out, that of a blob is none, and a column without a type has a text only for
/// texts. Of JSON one value has many texts. A decimal is exact where it is kept as text.
pub(super) fn has_exact_text(column: &ColumnInfo) -> bool {
    match column.base_type.as_str() {
        "float8" | "bytea" | "jsonb" | UNDECLARED => false,
        "numeric" => ["char", "clob", "text"].iter().any(|text| column.native_type.contains(text)),
        _ => true,
    }
}

/// Types whose values are kept as numbers: a text is compared with them as a number.
fn is_number(base: &str) -> bool {
    matches!(base, "int8" | "bool")
}

/// True when equal values of the two columns always have the same text.
pub(super) fn same_text(left: &ColumnInfo, right: &ColumnInfo) -> bool {
    let (a, b) = (left.base_type.as_str(), right.base_type.as_str());
    left.one_text_per_value && right.one_text_per_value && (a == b || (is_number(a) && is_number(b)))
}

/// True when two columns that are joined mean the same by equal values: here a moment, a day and a decimal are texts.
pub(super) fn joins(left: &ColumnInfo, right: &ColumnInfo) -> bool {
    let (a, b) = (left.base_type.as_str(), right.base_type.as_str());
    a != "numeric" && b != "numeric" && (a == b || (is_number(a) && is_number(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(declared: &str) -> ColumnInfo {
        let base = base_type(declared);
        ColumnInfo {
            native_type: native_type(declared, base),
            base_type: base.unwrap_or(UNDECLARED).to_owned(),
            one_text_per_value: true,
            ..Default::default()
        }
    }

    #[test]
    fn a_declared_type_has_one_meaning() {
        for (declared, base) in [
            ("INTEGER", "int8"),
            ("bigint", "int8"),
            ("decimal_text", "numeric"),
            ("DECIMAL(10,2)", "numeric"),
            ("timestamp_text", "timestamptz"),
            ("date_text", "date"),
            ("json_text", "jsonb"),
            ("boolean", "bool"),
            ("varchar(20)", "text"),
            ("DOUBLE PRECISION", "float8"),
            ("blob", "bytea"),
            ("something", "numeric"),
        ] {
            assert_eq!(base_type(declared), Some(base), "{declared}");
        }
        assert_eq!(base_type(""), None);
        assert_eq!(base_type("ANY"), None);
        assert_eq!(column("INTEGER").native_type, "integer(64 bits)");
    }

    #[test]
    fn only_what_is_found_by_its_text_is_a_key() {
        assert!(has_exact_text(&column("integer")) && has_exact_text(&column("timestamp_text")));
        assert!(has_exact_text(&column("decimal_text")) && !has_exact_text(&column("decimal(10,2)")));
        assert!(!["real", "blob", "json_text", ""].iter().any(|declared| has_exact_text(&column(declared))));
        assert!(joins(&column("integer"), &column("bigint")) && joins(&column("text"), &column("varchar(3)")));
        assert!(!joins(&column("decimal_text"), &column("decimal_text")));
        assert!(!joins(&column("date_text"), &column("timestamp_text")));
    }
}
