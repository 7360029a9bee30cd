//! Short ways to write a schema in Rust.

use millstream_core::schema::*;
use millstream_model::QualifiedTable;

pub fn table(name: &str) -> QualifiedTable {
    QualifiedTable::new("public", name)
}

pub fn index(root: &str, fields: Vec<Field>) -> IndexSchema {
    IndexSchema { table: table(root), key: None, filter: None, delete_when: None, fields }
}

pub fn field(name: &str, kind: FieldKind) -> Field {
    Field { name: name.into(), nullable: true, mapping: None, kind }
}

pub fn of_type(field_type: FieldType) -> ValueType {
    ValueType { field_type, array: false }
}

pub fn column(name: &str) -> Field {
    typed(name, FieldType::Keyword)
}

pub fn typed(name: &str, field_type: FieldType) -> Field {
    with(name, of_type(field_type), &[], None)
}

pub fn with(name: &str, value: ValueType, transforms: &[Transform], default: Option<&str>) -> Field {
    let default = default.map(|text| Literal(text.to_owned()));
    field(name, FieldKind::Column { column: name.into(), value, transforms: transforms.to_vec(), default })
}

pub fn sql(name: &str, sql: &str) -> Field {
    let value = of_type(FieldType::Keyword);
    field(name, FieldKind::Sql { sql: Sql(sql.to_owned()), value, transforms: Vec::new(), default: None })
}

pub fn constant(name: &str, value: &str) -> Field {
    field(name, FieldKind::Constant { value: Literal(value.to_owned()), field_type: FieldType::Keyword })
}

pub fn pairs(pairs: &[(&str, &str)]) -> Vec<JoinPair> {
    pairs.iter().map(|(left, right)| JoinPair { left: (*left).into(), right: (*right).into() }).collect()
}

pub fn path(far: &str, join: &[(&str, &str)]) -> Path {
    Path {
        table: table(far),
        join: pairs(join),
        through: Vec::new(),
        to: Vec::new(),
        filter: None,
        distinct: false,
        ignore_moves: false,
    }
}

/// A path through tables, each with its join, and then `to` the far one.
pub fn through(far: &str, between: &[(&str, &[(&str, &str)])], to: &[(&str, &str)]) -> Path {
    let between = between.iter().map(|(name, join)| Through { table: table(name), join: pairs(join), filter: None });
    Path { through: between.collect(), to: pairs(to), ..path(far, &[]) }
}

pub fn relation(cardinality: Cardinality, path: Path, fields: Vec<Field>) -> Relation {
    Relation { cardinality, path, when: None, order_by: Vec::new(), limit: None, key_by: None, inline: false, fields }
}

pub fn has_many(name: &str, path: Path, fields: Vec<Field>) -> Field {
    field(name, FieldKind::Relation(relation(Cardinality::HasMany, path, fields)))
}

pub fn belongs_to(name: &str, path: Path, fields: Vec<Field>) -> Field {
    field(name, FieldKind::Relation(relation(Cardinality::BelongsTo, path, fields)))
}

pub fn has_one(name: &str, path: Path, fields: Vec<Field>) -> Field {
    field(name, FieldKind::Relation(relation(Cardinality::HasOne, path, fields)))
}

pub fn of(column: &str) -> Operand {
    Operand::Column(column.into())
}

pub fn aggregate(function: AggregateFunction, path: Path) -> Aggregate {
    let field_type = FieldType::Keyword;
    Aggregate { function, path, field_type, order_by: Vec::new(), limit: None, transforms: Vec::new() }
}

pub fn over(name: &str, function: AggregateFunction, path: Path) -> Field {
    field(name, FieldKind::Aggregate(aggregate(function, path)))
}

pub fn order(column: &str, descending: bool) -> Order {
    Order { column: column.into(), descending }
}
