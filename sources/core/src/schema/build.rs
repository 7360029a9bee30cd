use millstream_model::{QualifiedTable, Text};

use super::{
    Aggregate, AggregateFunction, Cardinality, Field, FieldKind, FieldType, IndexSchema, JoinPair, Order, Path,
    Relation, Sql, Through, ValueType,
};

/// Building a schema in Rust. All that is not said is as in a file that does not say it; every part stays open to be set.
///
/// ```
/// use millstream_core::schema::{Field, FieldType, Path, Relation};
/// use millstream_core::IndexSchema;
/// use millstream_model::QualifiedTable;
///
/// let orders = Path::new(QualifiedTable::new("public", "orders")).on("id", "user_id");
/// let schema = IndexSchema::new(QualifiedTable::new("public", "users"))
///     .field(Field::column("id", FieldType::Long))
///     .field(Field::relation("orders", Relation::has_many(orders).field(Field::column("total", FieldType::Decimal))));
/// assert!(schema.check().is_empty());
///
/// let file = "table: users\nfields: { id: long, orders: { has_many: orders, join: { id: user_id }, fields: { total: decimal } } }";
/// assert_eq!(schema, IndexSchema::from_yaml(file, "users.schema.yaml").unwrap());
/// ```
impl IndexSchema {
    /// A schema of this root table, without fields yet.
    pub fn new(table: QualifiedTable) -> Self {
        Self { table, key: None, filter: None, delete_when: None, fields: Vec::new() }
    }

    /// Adds a field.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }
}

impl Field {
    /// A field of any kind.
    pub fn new(name: impl Into<Text>, kind: FieldKind) -> Self {
        Self { name: name.into(), nullable: false, mapping: None, kind }
    }

    /// A column of the same name.
    pub fn column(name: impl Into<Text>, field_type: FieldType) -> Self {
        let name = name.into();
        let value = ValueType { field_type, array: false };
        Self::new(name.clone(), FieldKind::Column { column: name, value, transforms: Vec::new(), default: None })
    }

    /// An expression over the row.
    pub fn sql(name: impl Into<Text>, field_type: FieldType, sql: impl Into<String>) -> Self {
        let value = ValueType { field_type, array: false };
        Self::new(name, FieldKind::Sql { sql: Sql(sql.into()), value, transforms: Vec::new(), default: None })
    }

    /// Fields of the same row, nested.
    pub fn object(name: impl Into<Text>, fields: impl IntoIterator<Item = Field>) -> Self {
        Self::new(name, FieldKind::Object(fields.into_iter().collect()))
    }

    /// Rows of another table.
    pub fn relation(name: impl Into<Text>, relation: Relation) -> Self {
        Self::new(name, FieldKind::Relation(relation))
    }

    /// A value over rows of another table.
    pub fn aggregate(name: impl Into<Text>, aggregate: Aggregate) -> Self {
        Self::new(name, FieldKind::Aggregate(aggregate))
    }

    /// Says that it may be null.
    #[must_use]
    pub fn nullable(mut self) -> Self {
        self.nullable = true;
        self
    }

    /// Takes the value from a column of another name. Only a column's field has one: others stay as they are.
    #[must_use]
    pub fn from_column(mut self, name: impl Into<Text>) -> Self {
        if let FieldKind::Column { column, .. } = &mut self.kind {
            *column = name.into();
        }
        self
    }
}

impl Path {
    /// The way to a table, not yet joined.
    pub fn new(table: QualifiedTable) -> Self {
        let (join, through, to) = (Vec::new(), Vec::new(), Vec::new());
        Self { table, join, through, to, filter: None, distinct: false, ignore_moves: false }
    }

    /// Joins by a pair of columns: the nearer table's and this one's. Several pairs by several calls. After
    /// [`through`](Self::through), the nearer table is the last one in between.
    #[must_use]
    pub fn on(mut self, near: impl Into<Text>, far: impl Into<Text>) -> Self {
        let pair = JoinPair { left: near.into(), right: far.into() };
        if self.through.is_empty() {
            self.join.push(pair)
        } else {
            self.to.push(pair)
        }
        self
    }

    /// Adds a table in between, joined by one pair of columns to the one before.
    #[must_use]
    pub fn through(mut self, table: QualifiedTable, near: impl Into<Text>, far: impl Into<Text>) -> Self {
        let join = vec![JoinPair { left: near.into(), right: far.into() }];
        self.through.push(Through { table, join, filter: None });
        self
    }

    /// Only rows of the far table for which a condition holds.
    #[must_use]
    pub fn filter(mut self, sql: impl Into<String>) -> Self {
        self.filter = Some(Sql(sql.into()));
        self
    }
}

impl Relation {
    /// A relation of a cardinality, without fields yet.
    pub fn new(cardinality: Cardinality, path: Path) -> Self {
        let (order_by, fields) = (Vec::new(), Vec::new());
        Self { cardinality, path, when: None, order_by, limit: None, key_by: None, inline: false, fields }
    }

    /// This row points at the other: an object or null.
    pub fn belongs_to(path: Path) -> Self {
        Self::new(Cardinality::BelongsTo, path)
    }

    /// The other row points at this one: an object or null.
    pub fn has_one(path: Path) -> Self {
        Self::new(Cardinality::HasOne, path)
    }

    /// Other rows point at this one: an array.
    pub fn has_many(path: Path) -> Self {
        Self::new(Cardinality::HasMany, path)
    }

    /// Adds a field of the far row.
    #[must_use]
    pub fn field(mut self, field: Field) -> Self {
        self.fields.push(field);
        self
    }

    /// Adds a column to order by.
    #[must_use]
    pub fn order_by(mut self, column: impl Into<Text>, descending: bool) -> Self {
        self.order_by.push(Order { column: column.into(), descending });
        self
    }

    /// At most so many rows.
    #[must_use]
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }
}

impl Aggregate {
    /// An aggregate over all rows of a path.
    pub fn new(function: AggregateFunction, path: Path, field_type: FieldType) -> Self {
        Self { function, path, field_type, order_by: Vec::new(), limit: None, transforms: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_built_in_rust_is_checked_as_one_from_a_file() {
        let path = Path::new(QualifiedTable::new("public", "o"));
        let schema = IndexSchema::new(QualifiedTable::new("public", "t"))
            .field(Field::column("id", FieldType::Long))
            .field(Field::column("id", FieldType::Text).from_column("x"))
            .field(Field::relation("o", Relation::has_one(path).limit(2).field(Field::column("y", FieldType::Text))));
        let found: Vec<String> = schema.check().into_iter().map(|fault| fault.path).collect();
        assert_eq!(found, ["fields.id", "fields.o.limit", "fields.o.join"]);
    }

    #[test]
    fn a_way_through_other_tables_reads_as_in_a_file() {
        let table = |name: &str| QualifiedTable::new("public", name);
        let path = Path::new(table("tags")).through(table("user_tags"), "id", "user_id").on("tag_id", "id");
        let built = IndexSchema::new(table("users"))
            .field(Field::aggregate("n", Aggregate::new(AggregateFunction::Count, path, FieldType::Long)));
        let text = "table: users\nfields: { n: { count: tags, through: { table: user_tags, join: { id: user_id }, to: { tag_id: id } } } }";
        assert_eq!(built, IndexSchema::from_yaml(text, "s.yaml").unwrap());
    }
}
