//! Which keys stand where in a schema file.

/// At the top.
pub(crate) const TOP: &[&str] = &["version", "table", "key", "where", "delete_when", "fields"];
/// What a table may be named by, beside a text.
pub(crate) const TABLE: &[&str] = &["schema", "table"];
/// A table in between.
pub(crate) const THROUGH: &[&str] = &["table", "join", "to", "where"];
/// A point by two columns, or by one.
pub(crate) const GEO_POINT: &[&str] = &["lat", "lon", "point"];
/// What an aggregate takes of a far row, beside a column's name.
pub(crate) const OPERAND: &[&str] = &["sql"];
/// A column to order by, where its name begins with `-`.
pub(crate) const ORDER: &[&str] = &["column", "descending"];

/// A sort of field: the key that tells it, and all that it may say.
pub(crate) struct Sort {
    /// The key by which it is known.
    pub(crate) key: &'static str,
    /// All keys, that one too.
    pub(crate) keys: &'static [&'static str],
}

/// A column: what has none of the keys that tell the others.
pub(crate) const COLUMN: Sort =
    Sort { key: "type", keys: &["type", "column", "array", "nullable", "default", "transforms", "mapping", "source"] };

/// All other sorts of fields.
pub(crate) const SORTS: &[Sort] = &[
    Sort { key: "sql", keys: &["type", "sql", "array", "nullable", "default", "transforms", "mapping", "source"] },
    Sort { key: "object", keys: &["object", "nullable", "mapping"] },
    Sort { key: "geo_point", keys: &["geo_point", "nullable", "mapping"] },
    Sort { key: "constant", keys: &["constant", "type", "nullable", "mapping", "source"] },
    Sort {
        key: "belongs_to",
        keys: &[
            "belongs_to",
            "join",
            "through",
            "where",
            "when",
            "order_by",
            "distinct",
            "inline",
            "fields",
            "on_move",
            "nullable",
            "mapping",
        ],
    },
    Sort {
        key: "has_one",
        keys: &[
            "has_one", "join", "through", "where", "when", "order_by", "distinct", "inline", "fields", "on_move",
            "nullable", "mapping",
        ],
    },
    Sort {
        key: "has_many",
        keys: &[
            "has_many", "join", "through", "where", "when", "order_by", "limit", "distinct", "key_by", "fields",
            "on_move", "nullable", "mapping",
        ],
    },
    Sort {
        key: "count",
        keys: &["count", "join", "through", "where", "distinct", "type", "on_move", "nullable", "mapping", "source"],
    },
    Sort {
        key: "sum",
        keys: &["sum", "of", "join", "through", "where", "type", "on_move", "nullable", "mapping", "source"],
    },
    Sort {
        key: "avg",
        keys: &["avg", "of", "join", "through", "where", "type", "on_move", "nullable", "mapping", "source"],
    },
    Sort {
        key: "min",
        keys: &["min", "of", "join", "through", "where", "type", "on_move", "nullable", "mapping", "source"],
    },
    Sort {
        key: "max",
        keys: &["max", "of", "join", "through", "where", "type", "on_move", "nullable", "mapping", "source"],
    },
    Sort {
        key: "collect",
        keys: &[
            "collect",
            "of",
            "join",
            "through",
            "where",
            "order_by",
            "limit",
            "distinct",
            "transforms",
            "type",
            "on_move",
            "nullable",
            "mapping",
            "source",
        ],
    },
    Sort {
        key: "value",
        keys: &[
            "value",
            "of",
            "join",
            "through",
            "where",
            "order_by",
            "transforms",
            "type",
            "on_move",
            "nullable",
            "mapping",
            "source",
        ],
    },
];

/// What a key belongs to that stands where it means nothing.
pub(crate) fn home(key: &str) -> Option<&'static str> {
    Some(match key {
        "limit" => "has_many and collect",
        "key_by" => "has_many",
        "inline" => "belongs_to and has_one",
        "when" | "fields" => "relations",
        "order_by" => "relations, collect and value",
        "distinct" => "relations with `through`, collect and count",
        "transforms" => "columns, sql, collect and value",
        "default" | "array" => "columns and sql",
        "column" => "columns",
        "of" => "sum, avg, min, max, collect and value",
        "source" => "the type custom",
        "join" | "through" | "where" | "on_move" => "relations and aggregates",
        "to" => "the last table in `through`",
        _ => return None,
    })
}
