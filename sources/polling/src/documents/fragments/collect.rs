use millstream_core::IndexSpec;
use millstream_core::schema::{AggregateFunction, Field, FieldKind, Operand, Path, Sql};
use millstream_model::QualifiedTable;

/// One piece of SQL of a schema.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    /// Where in the schema: `fields.orders.where`.
    pub(super) path: String,
    /// The table whose columns it sees.
    pub(super) table: QualifiedTable,
    pub(super) sql: String,
}

/// Every fragment of an index.
pub(super) fn fragments(index: &IndexSpec) -> Vec<Fragment> {
    let mut collect = Collect { found: Vec::new() };
    let schema = &index.schema;
    collect.condition("where", &schema.table, schema.filter.as_ref());
    collect.condition("delete_when", &schema.table, schema.delete_when.as_ref());
    collect.fields(&schema.table, "fields", &schema.fields);
    collect.found
}

struct Collect {
    found: Vec<Fragment>,
}

impl Collect {
    fn add(&mut self, path: impl Into<String>, table: &QualifiedTable, sql: &Sql) {
        self.found.push(Fragment { path: path.into(), table: table.clone(), sql: sql.0.clone() });
    }

    fn condition(&mut self, path: impl Into<String>, table: &QualifiedTable, sql: Option<&Sql>) {
        if let Some(sql) = sql {
            self.add(path, table, sql);
        }
    }

    fn fields(&mut self, table: &QualifiedTable, at: &str, fields: &[Field]) {
        for field in fields {
            let at = format!("{at}.{}", field.name);
            match &field.kind {
                FieldKind::Sql { sql, .. } => self.add(format!("{at}.sql"), table, sql),
                FieldKind::Object(fields) => self.fields(table, &format!("{at}.object"), fields),
                FieldKind::Relation(relation) => {
                    self.condition(format!("{at}.when"), table, relation.when.as_ref());
                    self.path(&at, &relation.path);
                    self.fields(&relation.path.table, &format!("{at}.fields"), &relation.fields);
                }
                FieldKind::Aggregate(aggregate) => {
                    self.path(&at, &aggregate.path);
                    if let Some(Operand::Sql(sql)) = operand(&aggregate.function) {
                        let at = format!("{at}.{}.sql", aggregate.function.name());
                        self.add(at, &aggregate.path.table, sql);
                    }
                }
                FieldKind::Column { .. } | FieldKind::Constant { .. } | FieldKind::GeoPoint(_) => {}
            }
        }
    }

    fn path(&mut self, at: &str, path: &Path) {
        for (number, through) in path.through.iter().enumerate() {
            self.condition(format!("{at}.through[{number}].where"), &through.table, through.filter.as_ref());
        }
        self.condition(format!("{at}.where"), &path.table, path.filter.as_ref());
    }
}

fn operand(function: &AggregateFunction) -> Option<&Operand> {
    use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value};
    match function {
        Count => None,
        Sum(operand) | Avg(operand) | Min(operand) | Max(operand) | Collect(operand) | Value(operand) => Some(operand),
    }
}
