use std::collections::BTreeMap;

use super::{
    Aggregate, AggregateFunction, Cardinality, Field, FieldKind, FieldType, IndexSchema, JoinPair, Literal, Operand,
    Path, Relation, Sql, Transform,
};

/// Something in a schema that can't be right whatever the source holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaFault {
    /// Where in the schema: `fields.orders.limit`; empty for the schema as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to write; empty when there is nothing to say.
    pub remedy: String,
}

impl IndexSchema {
    /// All that can't be right whatever the source holds, in the schema's order; empty when it is well-formed.
    ///
    /// A schema that was read from a file has been checked; one that was built in Rust is checked when it is validated.
    pub fn check(&self) -> Vec<SchemaFault> {
        let mut check = Check::default();
        if let Some(key) = &self.key {
            check.key(key);
        }
        check.sql("where", self.filter.as_ref());
        check.sql("delete_when", self.delete_when.as_ref());
        check.fields("fields", &self.fields);
        check.faults
    }
}

#[derive(Default)]
struct Check {
    faults: Vec<SchemaFault>,
}

impl Check {
    fn fault(&mut self, path: impl Into<String>, message: impl Into<String>, remedy: impl Into<String>) {
        self.faults.push(SchemaFault { path: path.into(), message: message.into(), remedy: remedy.into() });
    }

    fn key(&mut self, key: &[millstream_model::Text]) {
        if key.is_empty() {
            self.fault("key", "names no column", "name the primary key's columns, or leave `key` out");
        }
        for (number, column) in key.iter().enumerate() {
            if key[..number].contains(column) {
                self.fault("key", format!("names `{column}` twice"), "name each column once");
            }
        }
    }

    fn sql(&mut self, path: impl Into<String>, sql: Option<&Sql>) {
        if sql.is_some_and(|sql| sql.0.trim().is_empty()) {
            self.fault(path, "is empty", "write an expression, or leave it out");
        }
    }

    fn fields(&mut self, at: &str, fields: &[Field]) {
        if fields.is_empty() {
            self.fault(at, "has no field", "write at least one, such as `id: long`");
        }
        let mut seen = BTreeMap::new();
        self.names(at, fields, &mut seen);
        for field in fields {
            self.field(&format!("{at}.{}", field.name), field);
        }
    }

    /// Each name that stands in one object, those of inline relations too, may be there once.
    fn names<'f>(&mut self, at: &str, fields: &'f [Field], seen: &mut BTreeMap<&'f str, String>) {
        for field in fields {
            let path = format!("{at}.{}", field.name);
            if let FieldKind::Relation(Relation { inline: true, fields, .. }) = &field.kind {
                self.names(&format!("{path}.fields"), fields, seen);
            } else if let Some(first) = seen.get(field.name.as_str()) {
                let message = format!("the name `{}` is used twice in one object (also at {first})", field.name);
                self.fault(path, message, "give one of them another name");
            } else {
                seen.insert(&field.name, path);
            }
        }
    }

    fn field(&mut self, at: &str, field: &Field) {
        if field.name.is_empty() {
            self.fault(at, "the name is empty", "give the field a name");
        }
        match &field.kind {
            FieldKind::Column { column, value, transforms, default } => {
                if column.is_empty() {
                    self.fault(at, "the column's name is empty", "name a column");
                }
                self.transforms(at, &value.field_type, transforms);
                self.default_value(at, value.array, default.as_ref());
            }
            FieldKind::Sql { sql, value, transforms, default } => {
                self.sql(format!("{at}.sql"), Some(sql));
                self.transforms(at, &value.field_type, transforms);
                self.default_value(at, value.array, default.as_ref());
            }
            FieldKind::Constant { value, .. } => self.literal(&format!("{at}.constant"), value),
            FieldKind::Object(fields) => self.fields(&format!("{at}.object"), fields),
            FieldKind::GeoPoint(_) => {}
            FieldKind::Relation(relation) => {
                if relation.inline && field.mapping.is_some() {
                    let message = "an inline relation has no field of its own to map";
                    self.fault(format!("{at}.mapping"), message, "put `mapping` beside the fields below");
                }
                self.relation(at, relation);
            }
            FieldKind::Aggregate(aggregate) => self.aggregate(at, aggregate),
        }
    }

    fn transforms(&mut self, at: &str, field_type: &FieldType, transforms: &[Transform]) {
        let textual = matches!(
            field_type,
            FieldType::Text | FieldType::Keyword | FieldType::Uuid | FieldType::Enum | FieldType::Custom { .. }
        );
        if !textual && !transforms.is_empty() {
            let message = format!("transforms are for texts, not for {}", field_type.name());
            self.fault(format!("{at}.transforms"), message, "remove them, or change the type to text or keyword");
        }
    }

    fn default_value(&mut self, at: &str, array: bool, default: Option<&Literal>) {
        let Some(default) = default else { return };
        let at = format!("{at}.default");
        self.literal(&at, default);
        if array && !default.0.starts_with('[') {
            self.fault(at, "the field is an array, its default is not", "write a list");
        }
    }

    fn literal(&mut self, at: &str, literal: &Literal) {
        let value: Result<&serde_json::value::RawValue, _> = serde_json::from_str(&literal.0);
        if value.is_err() || literal.0.contains('\n') {
            self.fault(at, format!("is not one line of JSON (value={})", literal.0), "write one JSON value");
        }
    }

    fn relation(&mut self, at: &str, relation: &Relation) {
        let many = relation.cardinality == Cardinality::HasMany;
        if relation.limit.is_some() && !many {
            self.fault(format!("{at}.limit"), "`limit` belongs to has_many and collect", "remove it");
        }
        if relation.key_by.is_some() && !many {
            self.fault(format!("{at}.key_by"), "`key_by` belongs to has_many", "remove it");
        }
        if relation.inline && many {
            let message =
                "`inline` belongs to belongs_to and has_one: many rows can't stand beside their parent's fields";
            self.fault(format!("{at}.inline"), message, "remove it");
        }
        if relation.path.distinct && relation.path.through.is_empty() {
            let message = "`distinct` needs `through`: without a table in between no row comes twice";
            self.fault(format!("{at}.distinct"), message, "remove it");
        }
        self.limit(at, relation.limit);
        self.path(at, &relation.path);
        self.sql(format!("{at}.when"), relation.when.as_ref());
        self.fields(&format!("{at}.fields"), &relation.fields);
    }

    fn aggregate(&mut self, at: &str, aggregate: &Aggregate) {
        use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value};
        let ordered = matches!(aggregate.function, Collect(_) | Value(_));
        if aggregate.limit.is_some() && !matches!(aggregate.function, Collect(_)) {
            self.fault(format!("{at}.limit"), "`limit` belongs to has_many and collect", "remove it");
        }
        if !aggregate.order_by.is_empty() && !ordered {
            self.fault(format!("{at}.order_by"), "`order_by` belongs to relations, collect and value", "remove it");
        }
        if aggregate.path.distinct && !matches!(aggregate.function, Collect(_) | Count) {
            let message = "`distinct` belongs to relations with `through`, collect and count";
            self.fault(format!("{at}.distinct"), message, "remove it");
        }
        if !aggregate.transforms.is_empty() && !ordered {
            let message = "`transforms` belong to columns, sql, collect and value";
            self.fault(format!("{at}.transforms"), message, "remove them");
        } else {
            self.transforms(at, &aggregate.field_type, &aggregate.transforms);
        }
        if let Sum(operand) | Avg(operand) | Min(operand) | Max(operand) | Collect(operand) | Value(operand) =
            &aggregate.function
        {
            match operand {
                Operand::Column(column) if column.is_empty() => {
                    self.fault(at, "the column's name is empty", "name a column");
                }
                Operand::Column(_) => {}
                Operand::Sql(sql) => self.sql(format!("{at}.{}.sql", aggregate.function.name()), Some(sql)),
            }
        }
        self.limit(at, aggregate.limit);
        self.path(at, &aggregate.path);
    }

    fn limit(&mut self, at: &str, limit: Option<u64>) {
        if limit.is_some_and(|limit| limit == 0 || i64::try_from(limit).is_err()) {
            self.fault(format!("{at}.limit"), "a limit is at least 1", "write how many rows at most, or leave it out");
        }
    }

    fn path(&mut self, at: &str, path: &Path) {
        self.sql(format!("{at}.where"), path.filter.as_ref());
        if path.through.is_empty() {
            self.pairs(&format!("{at}.join"), &path.join);
            if !path.to.is_empty() {
                self.fault(format!("{at}.to"), "`to` belongs to the last table in `through`", "write `join` alone");
            }
            return;
        }
        if !path.join.is_empty() {
            let message = "with `through`, `join` stands inside it";
            self.fault(format!("{at}.join"), message, "write `through: { table: …, join: …, to: … }`");
        }
        for (number, through) in path.through.iter().enumerate() {
            self.pairs(&format!("{at}.through[{number}].join"), &through.join);
            self.sql(format!("{at}.through[{number}].where"), through.filter.as_ref());
        }
        self.pairs(&format!("{at}.through[{}].to", path.through.len() - 1), &path.to);
    }

    fn pairs(&mut self, at: &str, pairs: &[JoinPair]) {
        if pairs.is_empty() {
            self.fault(at, "says no pair of columns", "write `{ column of the nearer table: column of the farther }`");
        }
        if pairs.iter().any(|pair| pair.left.is_empty() || pair.right.is_empty()) {
            self.fault(at, "a column's name is empty", "name a column on either side");
        }
    }
}
