use crate::ColumnInfo;
use crate::schema::FieldType;

/// Shown as JSON numbers.
const WHOLE: [&str; 3] = ["int2", "int4", "int8"];
const BROKEN: [&str; 3] = ["float4", "float8", "numeric"];

/// Two names of one type: the short and the standard's.
const SYNONYMS: [(&str, &str); 12] = [
    ("int2", "smallint"),
    ("int4", "integer"),
    ("int8", "bigint"),
    ("float4", "real"),
    ("float8", "double precision"),
    ("bool", "boolean"),
    ("varchar", "character varying"),
    ("bpchar", "character"),
    ("varbit", "bit varying"),
    ("timestamp", "timestamp without time zone"),
    ("timestamptz", "timestamp with time zone"),
    ("timetz", "time with time zone"),
];

/// What is shown as a JSON object, array or scalar of its own.
fn is_json(base: &str) -> bool {
    matches!(base, "json" | "jsonb" | "hstore" | "geometry" | "geography")
}

pub(super) fn is_number(base: &str) -> bool {
    WHOLE.contains(&base) || BROKEN.contains(&base)
}

/// Types that have no order: neither `order_by` nor a greatest.
pub(super) fn has_order(base: &str) -> bool {
    !matches!(base, "json" | "xml" | "point" | "line" | "box" | "path" | "polygon")
}

/// True when a column's values look as the stated type promises.
pub(super) fn accepts(field_type: &FieldType, column: &ColumnInfo) -> bool {
    let base = column.base_type.as_str();
    match field_type {
        FieldType::Text | FieldType::Keyword => !is_number(base) && !is_json(base) && base != "bool",
        FieldType::Boolean => base == "bool",
        FieldType::Short => base == "int2",
        FieldType::Integer => matches!(base, "int2" | "int4"),
        FieldType::Long => WHOLE.contains(&base),
        FieldType::Float => matches!(base, "float4" | "numeric" | "int2"),
        FieldType::Double => is_number(base) && base != "int8",
        FieldType::Decimal => base == "numeric" || WHOLE.contains(&base),
        FieldType::Date => base == "date",
        FieldType::Timestamp => matches!(base, "timestamp" | "timestamptz"),
        FieldType::Time => matches!(base, "time" | "timetz"),
        FieldType::Uuid => base == "uuid",
        FieldType::Binary => base == "bytea",
        FieldType::Enum => column.is_enum,
        FieldType::Json => is_json(base) || column.is_array || suggested(column) == "json",
        FieldType::Custom { source, .. } => source.iter().any(|name| is_called(column, name)),
    }
}

/// True when a type is known by this name, in any of its spellings.
fn is_called(column: &ColumnInfo, name: &str) -> bool {
    let name = name.trim().to_lowercase();
    let element = name.strip_suffix("[]").or_else(|| name.strip_prefix('_')).unwrap_or(&name);
    let native = column.native_type.to_lowercase();
    let without_modifier = match (native.find('('), native.find(')')) {
        (Some(open), Some(close)) if open < close => format!("{}{}", &native[..open], &native[close + 1..]),
        _ => native.clone(),
    };
    let base = column.base_type.to_lowercase();
    let synonym = SYNONYMS.iter().find(|(short, _)| *short == base).map(|(_, standard)| *standard);
    [name.as_str(), element].iter().any(|name| {
        *name == native
            || *name == without_modifier
            || Some(*name) == without_modifier.strip_suffix("[]")
            || *name == base
            || Some(*name) == synonym
    })
}

/// The stated type that suits a column.
pub(super) fn suggested(column: &ColumnInfo) -> &'static str {
    if column.is_enum {
        return "enum";
    }
    match column.base_type.as_str() {
        "bool" => "boolean",
        "int2" => "short",
        "int4" => "integer",
        "int8" => "long",
        "float4" => "float",
        "float8" => "double",
        "numeric" => "decimal",
        "date" => "date",
        "timestamp" | "timestamptz" => "timestamp",
        "time" | "timetz" => "time",
        "uuid" => "uuid",
        "bytea" => "binary",
        "text" | "varchar" => "text",
        "bpchar" | "name" | "citext" | "char" | "inet" | "cidr" | "macaddr" | "macaddr8" | "interval" | "money"
        | "bit" | "varbit" | "oid" | "xml" | "tsvector" | "ltree" | "pg_lsn" => "keyword",
        base if is_json(base) => "json",
        base if base.ends_with("range") => "keyword",
        // A composite type is shown as an object; another one as its text, which json takes too.
        _ => "json",
    }
}

/// Types that compare with each other share a family.
fn family(column: &ColumnInfo) -> &str {
    match column.base_type.as_str() {
        "int2" | "int4" | "int8" | "numeric" | "float4" | "float8" => "number",
        "text" | "varchar" | "bpchar" | "name" | "citext" => "text",
        "date" | "timestamp" | "timestamptz" => "time",
        "inet" | "cidr" => "network",
        other => other,
    }
}

/// True when the source can tell whether two columns are equal.
pub(super) fn compare(left: &ColumnInfo, right: &ColumnInfo) -> bool {
    let oid_and_number =
        |one: &ColumnInfo, other: &ColumnInfo| one.base_type == "oid" && WHOLE.contains(&other.base_type.as_str());
    let same = family(left) == family(right) || oid_and_number(left, right) || oid_and_number(right, left);
    same && !left.is_array && !right.is_array && has_order(&left.base_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(native: &str, base: &str) -> ColumnInfo {
        ColumnInfo { native_type: native.into(), base_type: base.into(), ..ColumnInfo::default() }
    }

    fn custom(source: &str) -> FieldType {
        FieldType::Custom { source: vec![source.to_owned()], mapping: serde_json::Map::new() }
    }

    #[test]
    fn a_suggested_type_is_accepted() {
        for base in [
            "bool",
            "int2",
            "int4",
            "int8",
            "float4",
            "float8",
            "numeric",
            "date",
            "timestamp",
            "timestamptz",
            "time",
            "timetz",
            "uuid",
            "bytea",
            "text",
            "varchar",
            "bpchar",
            "citext",
            "inet",
            "interval",
            "int4range",
            "json",
            "jsonb",
            "hstore",
            "xml",
            "some_composite",
        ] {
            let column = column(base, base);
            let suggested = FieldType::of_name(suggested(&column)).expect("a type's name");
            assert!(accepts(&suggested, &column), "{base}: {}", suggested.name());
        }
    }

    #[test]
    fn narrower_types_are_accepted_and_wider_ones_are_not() {
        assert!(accepts(&FieldType::Long, &column("integer", "int4")));
        assert!(!accepts(&FieldType::Integer, &column("bigint", "int8")));
        assert!(!accepts(&FieldType::Keyword, &column("bigint", "int8")));
        assert!(!accepts(&FieldType::Text, &column("jsonb", "jsonb")));
        assert!(accepts(&FieldType::Keyword, &column("tstzrange", "tstzrange")));
        assert!(!accepts(&FieldType::Json, &column("text", "text")));
    }

    #[test]
    fn custom_takes_every_spelling_of_a_type() {
        for name in ["int8", "bigint", "BIGINT"] {
            assert!(accepts(&custom(name), &column("d2", "int8")), "{name}");
        }
        assert!(accepts(&custom("d2"), &column("d2", "int8")));
        for name in ["timestamp with time zone", "timestamptz", "timestamp(3) with time zone"] {
            assert!(accepts(&custom(name), &column("timestamp(3) with time zone", "timestamptz")), "{name}");
        }
        for name in ["integer[]", "int4", "_int4", "int4[]"] {
            assert!(accepts(&custom(name), &column("integer[]", "int4")), "{name}");
        }
        assert!(!accepts(&custom("int4"), &column("bigint", "int8")));
    }

    #[test]
    fn only_what_the_source_can_compare_is_joined() {
        assert!(compare(&column("integer", "int4"), &column("numeric(10,2)", "numeric")));
        assert!(compare(&column("text", "text"), &column("character(3)", "bpchar")));
        assert!(!compare(&column("text", "text"), &column("integer", "int4")));
        assert!(!compare(&column("uuid", "uuid"), &column("text", "text")));
        assert!(compare(&column("mood", "mood"), &column("mood", "mood")));
        assert!(!compare(&column("json", "json"), &column("json", "json")));
    }
}
