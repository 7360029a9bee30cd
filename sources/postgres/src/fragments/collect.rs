use millstream_core::SourceSpec;
use millstream_core::schema::{AggregateFunction, Field, FieldKind, Operand, Path, Sql};
use millstream_model::{IndexName, QualifiedTable};

/// One piece of SQL of a schema.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) index: IndexName,
    /// Where in the schema: `fields.orders.where`.
    pub(super) path: String,
    /// The table whose columns it sees.
    pub(super) table: QualifiedTable,
    pub(super) sql: String,
    /// True when it must be true or false.
    pub(super) is_condition: bool,
}

/// Every fragment of every index.
pub(super) fn fragments(spec: &SourceSpec) -> Vec<Fragment> {
    let mut found = Vec::new();
    for index in spec.indexes() {
        let mut collect = Collect { index: &index.name, found: &mut found };
        let schema = &index.schema;
        collect.condition("where", &schema.table, schema.filter.as_ref());
        collect.condition("delete_when", &schema.table, schema.delete_when.as_ref());
        collect.fields(&schema.table, "fields", &schema.fields);
    }
    found
}

struct Collect<'a> {
    index: &'a IndexName,
    found: &'a mut Vec<Fragment>,
}

impl Collect<'_> {
    fn add(&mut self, path: impl Into<String>, table: &QualifiedTable, sql: &Sql, is_condition: bool) {
        let (index, path, table) = (self.index.clone(), path.into(), table.clone());
        self.found.push(Fragment { index, path, table, sql: sql.0.clone(), is_condition });
    }

    fn condition(&mut self, path: impl Into<String>, table: &QualifiedTable, sql: Option<&Sql>) {
        if let Some(sql) = sql {
            self.add(path, table, sql, true);
        }
    }

    fn fields(&mut self, table: &QualifiedTable, at: &str, fields: &[Field]) {
        for field in fields {
            let at = format!("{at}.{}", field.name);
            match &field.kind {
                FieldKind::Sql { sql, .. } => self.add(format!("{at}.sql"), table, sql, false),
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
                        self.add(at, &aggregate.path.table, sql, false);
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
