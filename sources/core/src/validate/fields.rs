use millstream_model::{QualifiedTable, Text};

use super::Validator;
use super::types::{accepts, has_order, is_number, suggested};
use crate::ColumnInfo;
use crate::schema::{
    Aggregate, AggregateFunction, Field, FieldKind, FieldType, GeoSource, Operand, Order, Path, Relation, ValueType,
};

impl<'a> Validator<'a> {
    /// Fields over rows of one table.
    pub(super) fn fields(&mut self, table: &QualifiedTable, at: &str, fields: &[Field]) {
        for field in fields {
            let at = format!("{at}.{}", field.name);
            match &field.kind {
                FieldKind::Column { column, value, default, .. } => {
                    if let Some(info) = self.column(table, &at, column) {
                        self.value(table, &at, info, value);
                        self.nullable(table, &at, info, field.nullable || default.is_some());
                    }
                }
                FieldKind::Sql { .. } | FieldKind::Constant { .. } => {}
                FieldKind::Object(fields) => self.fields(table, &format!("{at}.object"), fields),
                FieldKind::GeoPoint(source) => self.geo_point(table, &at, source, field.nullable),
                FieldKind::Relation(relation) => self.relation(table, &at, relation),
                FieldKind::Aggregate(aggregate) => self.aggregate(table, &at, aggregate),
            }
        }
    }

    fn value(&mut self, table: &QualifiedTable, at: &str, column: &ColumnInfo, value: &ValueType) {
        if !accepts(&value.field_type, column) {
            let (message, remedy) = mismatch(table, column, &value.field_type);
            self.error("type", at, message, remedy);
        } else if column.is_array != value.array && !takes_arrays_whole(&value.field_type) {
            let (message, remedy) = match column.is_array {
                true => ("is an array, the field is not", "write `array: true`"),
                false => ("is not an array, the field is", "take `array: true` away"),
            };
            self.error("array", at, format!("column `{}` of {table} {message}", column.name), remedy);
        }
    }

    fn nullable(&mut self, table: &QualifiedTable, at: &str, column: &ColumnInfo, expected: bool) {
        if column.nullable && !expected {
            let message = format!("column `{}` of {table} may be NULL, the field does not say so", column.name);
            let remedy = "write `nullable: true` or a `default`, or make the column NOT NULL";
            let said = self.warning("nullable", at, message, remedy);
            *said = said.clone().about(table, [column.name.clone()]);
        }
    }

    fn geo_point(&mut self, table: &QualifiedTable, at: &str, source: &GeoSource, nullable: bool) {
        let (columns, what): (Vec<&Text>, _) = match source {
            GeoSource::LatLon { lat, lon } => (vec![lat, lon], "a number"),
            GeoSource::Point(column) => (vec![column], "a point"),
        };
        for name in columns {
            let Some(column) = self.column(table, at, name) else { continue };
            let suits = match source {
                GeoSource::LatLon { .. } => is_number(&column.base_type),
                GeoSource::Point(_) => column.base_type == "point",
            };
            if column.is_array || !suits {
                let message = format!("column `{name}` of {table} is `{}`, not {what}", column.native_type);
                self.error("type", at, message, "name columns of latitude and longitude, or one of type point");
            }
            self.nullable(table, at, column, nullable);
        }
    }

    fn relation(&mut self, table: &QualifiedTable, at: &str, relation: &Relation) {
        let far = &relation.path.table;
        self.path(table, at, &relation.path);
        self.order_by(far, at, &relation.order_by);
        if let Some(column) = &relation.key_by {
            self.column(far, &format!("{at}.key_by"), column);
        }
        self.fields(far, &format!("{at}.fields"), &relation.fields);
    }

    fn path(&mut self, table: &QualifiedTable, at: &str, path: &Path) {
        let mut near = table;
        for (number, through) in path.through.iter().enumerate() {
            let at = format!("{at}.through[{number}].join");
            self.pairs(near, &through.table, &at, &through.join, path.ignore_moves);
            near = &through.table;
        }
        match path.through.len().checked_sub(1) {
            Some(last) => {
                self.pairs(near, &path.table, &format!("{at}.through[{last}].to"), &path.to, path.ignore_moves)
            }
            None => self.pairs(near, &path.table, &format!("{at}.join"), &path.join, path.ignore_moves),
        }
    }

    fn order_by(&mut self, table: &QualifiedTable, at: &str, order_by: &[Order]) {
        for (number, order) in order_by.iter().enumerate() {
            let at = format!("{at}.order_by[{number}]");
            let Some(column) = self.column(table, &at, &order.column) else { continue };
            if !has_order(&column.base_type) {
                let message =
                    format!("column `{}` of {table} is `{}`, which has no order", column.name, column.native_type);
                self.error("type", at, message, "order by another column");
            }
        }
    }

    fn aggregate(&mut self, table: &QualifiedTable, at: &str, aggregate: &Aggregate) {
        use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value};
        self.path(table, at, &aggregate.path);
        let far = &aggregate.path.table;
        self.order_by(far, at, &aggregate.order_by);
        let (Sum(operand) | Avg(operand) | Min(operand) | Max(operand) | Collect(operand) | Value(operand)) =
            &aggregate.function
        else {
            return;
        };
        let Operand::Column(name) = operand else { return };
        let at = format!("{at}.{}", aggregate.function.name());
        let Some(column) = self.column(far, &at, name) else { return };
        let adds = is_number(&column.base_type) || matches!(column.base_type.as_str(), "interval" | "money");
        let can = match &aggregate.function {
            Sum(_) => adds,
            Avg(_) => adds && column.base_type != "money",
            Min(_) | Max(_) => has_order(&column.base_type) && !matches!(column.base_type.as_str(), "bool" | "jsonb"),
            Count | Collect(_) | Value(_) => true,
        };
        let function = aggregate.function.name();
        if !can || (column.is_array && matches!(aggregate.function, Sum(_) | Avg(_))) {
            let message = format!("there is no {function} of `{}` (column `{name}` of {far})", column.native_type);
            self.error("type", at, message, "take another column, or `{ sql: … }`");
            return;
        }
        let agrees = match &aggregate.function {
            Sum(_) | Avg(_) if is_number(&column.base_type) => is_numeric(&aggregate.field_type),
            Sum(_) | Avg(_) => true,
            _ => accepts(&aggregate.field_type, column),
        };
        if !agrees {
            // The type casts nothing: the documents are right, the mapping is not.
            let (message, remedy) = mismatch(far, column, &aggregate.field_type);
            self.warning("type", at, message, remedy);
        }
    }
}

fn mismatch(table: &QualifiedTable, column: &ColumnInfo, field_type: &FieldType) -> (String, String) {
    let stated = field_type.name();
    let message =
        format!("column `{}` of {table} is `{}`, which {stated} does not show", column.name, column.native_type);
    let remedy = match field_type {
        FieldType::Custom { .. } => format!("add `{}` to `source`", column.base_type),
        _ => format!("write `type: {}`, or convert it with `sql`", suggested(column)),
    };
    (message, remedy)
}

/// Types that show an array as it is.
fn takes_arrays_whole(field_type: &FieldType) -> bool {
    matches!(field_type, FieldType::Json | FieldType::Custom { .. })
}

fn is_numeric(field_type: &FieldType) -> bool {
    matches!(
        field_type,
        FieldType::Short
            | FieldType::Integer
            | FieldType::Long
            | FieldType::Float
            | FieldType::Double
            | FieldType::Decimal
            | FieldType::Custom { .. }
    )
}
