use millstream_model::{QualifiedTable, Text};

use crate::nearest::nearest;
use crate::schema::types::TYPE_NAMES;
use crate::schema::{
    Aggregate, AggregateFunction, Cardinality, Field, FieldKind, FieldType, GeoSource, Operand, Order, Relation,
    Transform, ValueType,
};
use crate::yaml::{Node, NodeKind, suggest};

use super::keys::{self, COLUMN, SORTS, Sort};
use super::literals;
use super::reader::{Keys, Reader, join};

impl Reader {
    /// A mapping of fields. What is wrong with one does not hide the others.
    pub(super) fn fields(&mut self, node: &Node, path: &str) -> Option<Vec<Field>> {
        let entries = self.entries(node, path)?;
        let fields: Vec<Option<Field>> =
            entries.iter().map(|(_, name, node)| self.field(name, node, &join(path, name))).collect();
        fields.into_iter().collect()
    }

    fn field(&mut self, name: &str, node: &Node, path: &str) -> Option<Field> {
        if let NodeKind::Scalar { .. } = &node.kind {
            let field_type = self.type_name(node, path)?;
            let value = ValueType { field_type, array: false };
            let kind = FieldKind::Column { column: name.into(), value, transforms: Vec::new(), default: None };
            return Some(Field { name: name.into(), nullable: false, mapping: None, kind });
        }
        let sort = self.sort(node, path)?;
        let keys = self.keys(node, path, sort.keys)?;
        let kind = match sort.key {
            "type" => self.column(name, &keys, path),
            "sql" => self.expression(&keys, path),
            "object" => {
                keys.get("object").and_then(|node| self.fields(node, &join(path, "object"))).map(FieldKind::Object)
            }
            "geo_point" => self.geo_point(&keys, path),
            "constant" => self.constant(&keys, path),
            "belongs_to" => self.relation(Cardinality::BelongsTo, &keys, path),
            "has_one" => self.relation(Cardinality::HasOne, &keys, path),
            "has_many" => self.relation(Cardinality::HasMany, &keys, path),
            function => self.aggregate(function, &keys, path),
        };
        let nullable = self.flag(&keys, path, "nullable");
        let kind = kind?;
        // A custom type's mapping is the type itself.
        let mapping = match (keys.get("mapping"), is_custom(&keys)) {
            (Some(node), false) => Some(self.json_object(node, &join(path, "mapping"))?),
            _ => None,
        };
        Some(Field { name: name.into(), nullable, mapping, kind })
    }

    /// Which sort of field a mapping is, by the key that tells it.
    fn sort(&mut self, node: &Node, path: &str) -> Option<&'static Sort> {
        let entries = self.entries(node, path)?;
        let told: Vec<&'static Sort> =
            SORTS.iter().filter(|sort| entries.iter().any(|(_, key, _)| key == sort.key)).collect();
        let is_column = entries.iter().any(|(_, key, _)| key == "type" || key == "column");
        match told.as_slice() {
            [sort] => return Some(sort),
            [] if is_column => return Some(&COLUMN),
            [] => {}
            [first, second, ..] => {
                let message = format!("is both `{}` and `{}`", first.key, second.key);
                self.fault(node.place, path, message, "write two fields");
                return None;
            }
        }
        let sorts = || SORTS.iter().map(|sort| sort.key);
        let slip = entries.iter().find_map(|(place, key, _)| Some((*place, key, nearest(key, sorts())?)));
        match slip {
            Some((place, key, meant)) => {
                self.fault(place, join(path, key), format!("unknown key `{key}`"), format!("write `{meant}`"));
            }
            None => {
                let remedy = format!("write `type: …`, or one of {}", sorts().collect::<Vec<_>>().join(", "));
                self.fault(node.place, path, "says neither a type nor where its value comes from", remedy);
            }
        }
        None
    }

    fn column(&mut self, name: &str, keys: &Keys<'_>, path: &str) -> Option<FieldKind> {
        let column = match keys.get("column") {
            Some(node) => self.name(node, &join(path, "column")),
            None => Some(Text::from(name)),
        };
        let value = self.value_type(keys, path);
        let transforms = self.transforms(keys, path);
        let value = value?;
        let default = match keys.get("default") {
            Some(node) => Some(self.literal(node, &value, &join(path, "default"))?),
            None => None,
        };
        if let FieldType::Custom { source, .. } = &value.field_type
            && source.is_empty()
        {
            self.fault(
                keys.place,
                path,
                "`source` is missing",
                "write `source: [...]` with the column types to accept",
            );
        }
        Some(FieldKind::Column { column: column?, value, transforms: transforms?, default })
    }

    fn expression(&mut self, keys: &Keys<'_>, path: &str) -> Option<FieldKind> {
        let sql = keys.get("sql").and_then(|node| self.sql(node, &join(path, "sql")));
        let value = self.value_type(keys, path);
        let transforms = self.transforms(keys, path);
        let value = value?;
        let default = match keys.get("default") {
            Some(node) => Some(self.literal(node, &value, &join(path, "default"))?),
            None => None,
        };
        Some(FieldKind::Sql { sql: sql?, value, transforms: transforms?, default })
    }

    fn constant(&mut self, keys: &Keys<'_>, path: &str) -> Option<FieldKind> {
        let node = keys.get("constant")?;
        let at = join(path, "constant");
        if keys.get("type").is_none() {
            let (value, field_type) = self.placed_literal(node, &at, literals::untyped)?;
            return Some(FieldKind::Constant { value, field_type });
        }
        let field_type = self.field_type(keys, path)?;
        let array = matches!(node.kind, NodeKind::Sequence(_)) && field_type != FieldType::Json;
        let value = self.literal(node, &ValueType { field_type: field_type.clone(), array }, &at)?;
        Some(FieldKind::Constant { value, field_type })
    }

    fn geo_point(&mut self, keys: &Keys<'_>, path: &str) -> Option<FieldKind> {
        let path = join(path, "geo_point");
        let keys = self.keys(keys.get("geo_point")?, &path, keys::GEO_POINT)?;
        let mut column = |key: &str| keys.get(key).map(|node| self.name(node, &join(&path, key)));
        let source = match (column("lat"), column("lon"), column("point")) {
            (Some(lat), Some(lon), None) => GeoSource::LatLon { lat: lat?, lon: lon? },
            (None, None, Some(point)) => GeoSource::Point(point?),
            _ => {
                let message = "a point is two columns, or one of a point type";
                self.fault(keys.place, path, message, "write `{ lat: …, lon: … }` or `{ point: … }`");
                return None;
            }
        };
        Some(FieldKind::GeoPoint(source))
    }

    fn relation(&mut self, cardinality: Cardinality, keys: &Keys<'_>, at: &str) -> Option<FieldKind> {
        let key = cardinality.name();
        let table = keys.get(key).and_then(|node| self.table(node, &join(at, key)));
        let path = table.and_then(|table| self.path(table, keys, at));
        let when = keys.get("when").and_then(|node| self.sql(node, &join(at, "when")));
        let order_by = self.order_by(keys, at);
        let limit = keys.get("limit").and_then(|node| self.number(node, &join(at, "limit")));
        let key_by = keys.get("key_by").and_then(|node| self.name(node, &join(at, "key_by")));
        let inline = self.flag(keys, at, "inline");
        let fields = self.required(keys, at, "fields", "write `fields: { … }` with the far row's fields");
        let fields = fields.and_then(|node| self.fields(node, &join(at, "fields")));
        let (path, order_by, fields) = (path?, order_by?, fields?);
        Some(FieldKind::Relation(Relation { cardinality, path, when, order_by, limit, key_by, inline, fields }))
    }

    fn aggregate(&mut self, function: &'static str, keys: &Keys<'_>, at: &str) -> Option<FieldKind> {
        let (table, operand) = self.operand(function, keys, at);
        let path = table.and_then(|table| self.path(table, keys, at));
        let field_type = match (function, keys.get("type")) {
            ("count", None) => Some(FieldType::Long),
            (_, None) => {
                let remedy = "write `type: …`: it states the mapping";
                self.fault(keys.place, at, "`type` is missing", remedy);
                None
            }
            _ => self.field_type(keys, at),
        };
        let order_by = self.order_by(keys, at);
        let limit = keys.get("limit").and_then(|node| self.number(node, &join(at, "limit")));
        let transforms = self.transforms(keys, at);
        let function = match (function, operand) {
            ("count", _) => AggregateFunction::Count,
            ("sum", Some(operand)) => AggregateFunction::Sum(operand),
            ("avg", Some(operand)) => AggregateFunction::Avg(operand),
            ("min", Some(operand)) => AggregateFunction::Min(operand),
            ("max", Some(operand)) => AggregateFunction::Max(operand),
            ("collect", Some(operand)) => AggregateFunction::Collect(operand),
            ("value", Some(operand)) => AggregateFunction::Value(operand),
            _ => return None,
        };
        let (path, field_type, order_by, transforms) = (path?, field_type?, order_by?, transforms?);
        Some(FieldKind::Aggregate(Aggregate { function, path, field_type, order_by, limit, transforms }))
    }

    /// The far table, and what of its rows is taken.
    fn operand(
        &mut self,
        function: &'static str,
        keys: &Keys<'_>,
        at: &str,
    ) -> (Option<QualifiedTable>, Option<Operand>) {
        let at_operand = join(at, function);
        let Some(node) = keys.get(function) else { return (None, None) };
        if function == "count" {
            return (self.table(node, &at_operand), None);
        }
        let operand = match &node.kind {
            NodeKind::Mapping(_) => self.keys(node, &at_operand, keys::OPERAND).and_then(|keys| {
                let sql = self.required(&keys, &at_operand, "sql", "write a column's name, or `{ sql: … }`")?;
                self.sql(sql, &join(&at_operand, "sql")).map(Operand::Sql)
            }),
            _ => self.name(node, &at_operand).map(Operand::Column),
        };
        let table = self.required(keys, at, "of", "write `of: …` with the far table");
        (table.and_then(|node| self.table(node, &join(at, "of"))), operand)
    }

    fn order_by(&mut self, keys: &Keys<'_>, at: &str) -> Option<Vec<Order>> {
        let Some(node) = keys.get("order_by") else { return Some(Vec::new()) };
        let items = self.items(node, &join(at, "order_by"));
        items.into_iter().map(|(path, item)| self.order(item, &path)).collect()
    }

    fn order(&mut self, node: &Node, path: &str) -> Option<Order> {
        if let NodeKind::Mapping(_) = &node.kind {
            let keys = self.keys(node, path, keys::ORDER)?;
            let column = self.required(&keys, path, "column", "write `{ column: …, descending: true }`")?;
            let column = self.name(column, &join(path, "column"))?;
            return Some(Order { column, descending: self.flag(&keys, path, "descending") });
        }
        let text = self.text(node, path, "a column's name")?;
        match text.strip_prefix('-') {
            Some("") => {
                self.fault(node.place, path, "a column's name is expected after `-`", "");
                None
            }
            Some(column) => Some(Order { column: column.into(), descending: true }),
            None => Some(Order { column: text.into(), descending: false }),
        }
    }

    fn transforms(&mut self, keys: &Keys<'_>, path: &str) -> Option<Vec<Transform>> {
        let Some(node) = keys.get("transforms") else { return Some(Vec::new()) };
        let items = self.items(node, &join(path, "transforms"));
        let read = items.into_iter().map(|(path, item)| {
            let name = self.text(item, &path, "trim, lowercase or uppercase")?;
            let transform = Transform::of_name(name);
            if transform.is_none() {
                let remedy = suggest(name, &["trim", "lowercase", "uppercase"]);
                self.fault(item.place, &path, format!("unknown transform `{name}`"), remedy);
            }
            transform
        });
        read.collect()
    }

    fn value_type(&mut self, keys: &Keys<'_>, path: &str) -> Option<ValueType> {
        let array = self.flag(keys, path, "array");
        self.field_type(keys, path).map(|field_type| ValueType { field_type, array })
    }

    fn field_type(&mut self, keys: &Keys<'_>, path: &str) -> Option<FieldType> {
        let node = self.required(keys, path, "type", "write `type: …`")?;
        if !is_custom(keys) {
            if keys.get("source").is_some() {
                let place = keys.place_of("source");
                self.fault(place, join(path, "source"), "`source` belongs to the type custom", "remove it");
            }
            return self.type_name(node, &join(path, "type"));
        }
        let source = match keys.get("source") {
            Some(node) => {
                let items = self.items(node, &join(path, "source"));
                let names =
                    items.into_iter().map(|(path, item)| self.text(item, &path, "a type's name").map(str::to_owned));
                names.collect::<Option<Vec<_>>>()?
            }
            None => Vec::new(),
        };
        let remedy = "write `mapping: {…}` with what the sink shall make of it";
        let mapping = self.required(keys, path, "mapping", remedy)?;
        let mapping = self.json_object(mapping, &join(path, "mapping"))?;
        Some(FieldType::Custom { source, mapping })
    }

    fn type_name(&mut self, node: &Node, path: &str) -> Option<FieldType> {
        let name = self.text(node, path, "a type")?;
        let found = FieldType::of_name(name);
        if name == "custom" {
            let remedy = "write `{ type: custom, source: [...], mapping: {...} }`";
            self.fault(node.place, path, "custom needs `source` and `mapping`", remedy);
        } else if found.is_none() {
            self.fault(node.place, path, format!("unknown type `{name}`"), suggest(name, &TYPE_NAMES));
        }
        found
    }
}

fn is_custom(keys: &Keys<'_>) -> bool {
    keys.get("type").is_some_and(|node| matches!(&node.kind, NodeKind::Scalar { text, .. } if text == "custom"))
}
