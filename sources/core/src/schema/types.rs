use super::{AggregateFunction, Cardinality, FieldType, Transform};

/// The names of the types as a schema writes them, but for `custom`.
pub(crate) const TYPE_NAMES: [&str; 16] = [
    "text",
    "keyword",
    "boolean",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "decimal",
    "date",
    "timestamp",
    "time",
    "uuid",
    "binary",
    "json",
    "enum",
];

impl FieldType {
    /// The type of this name; `None` for `custom`, which needs more than a name, and for what is none.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Text,
            "keyword" => Self::Keyword,
            "boolean" => Self::Boolean,
            "short" => Self::Short,
            "integer" => Self::Integer,
            "long" => Self::Long,
            "float" => Self::Float,
            "double" => Self::Double,
            "decimal" => Self::Decimal,
            "date" => Self::Date,
            "timestamp" => Self::Timestamp,
            "time" => Self::Time,
            "uuid" => Self::Uuid,
            "binary" => Self::Binary,
            "json" => Self::Json,
            "enum" => Self::Enum,
            _ => return None,
        })
    }

    /// The type's name as a schema writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Keyword => "keyword",
            Self::Boolean => "boolean",
            Self::Short => "short",
            Self::Integer => "integer",
            Self::Long => "long",
            Self::Float => "float",
            Self::Double => "double",
            Self::Decimal => "decimal",
            Self::Date => "date",
            Self::Timestamp => "timestamp",
            Self::Time => "time",
            Self::Uuid => "uuid",
            Self::Binary => "binary",
            Self::Json => "json",
            Self::Enum => "enum",
            Self::Custom { .. } => "custom",
        }
    }
}

impl Transform {
    /// The transform of this name.
    pub fn of_name(name: &str) -> Option<Self> {
        Some(match name {
            "trim" => Self::Trim,
            "lowercase" => Self::Lowercase,
            "uppercase" => Self::Uppercase,
            _ => return None,
        })
    }

    /// Its name as a schema writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trim => "trim",
            Self::Lowercase => "lowercase",
            Self::Uppercase => "uppercase",
        }
    }
}

impl Cardinality {
    /// Its name as a schema writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::BelongsTo => "belongs_to",
            Self::HasOne => "has_one",
            Self::HasMany => "has_many",
        }
    }
}

impl AggregateFunction {
    /// Its name as a schema writes it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Sum(_) => "sum",
            Self::Avg(_) => "avg",
            Self::Min(_) => "min",
            Self::Max(_) => "max",
            Self::Collect(_) => "collect",
            Self::Value(_) => "value",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_the_name_that_finds_it() {
        for name in TYPE_NAMES {
            assert_eq!(FieldType::of_name(name).map(|found| found.name()), Some(name));
        }
    }
}
