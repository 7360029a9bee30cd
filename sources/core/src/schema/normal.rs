use std::fmt::Write;

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    Aggregate, AggregateFunction, Field, FieldKind, FieldType, GeoSource, IndexSchema, JoinPair, Operand, Order, Path,
    Relation, ValueType,
};

/// The version of the normal forms that hashes are made of. Kept beside a hash: one of another version says nothing.
pub const HASH_VERSION: u32 = 1;

/// The SHA-256 of a JSON value whatever the order of its objects' keys, in hexadecimal.
pub(super) fn hash_of(value: &Value) -> String {
    let mut text = String::new();
    canonical(value, &mut text);
    Sha256::digest(text.as_bytes()).iter().fold(String::with_capacity(64), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn canonical(value: &Value, into: &mut String) {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            into.push('{');
            for (key, value) in entries {
                let _ = write!(into, "{}:", Value::String(key.clone()));
                canonical(value, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(items) => {
            into.push('[');
            for item in items {
                canonical(item, into);
                into.push(',');
            }
            into.push(']');
        }
        other => {
            let _ = write!(into, "{other}");
        }
    }
}

/// What a schema says of its documents, said in one way only.
///
/// Holds only what is stated and differs from the default, so that a form that learns more stays the same for schemas that
/// do not use it. Fields are ordered by themselves: their order shows in a document and means nothing. Whether a field may be
/// null, which types a custom one accepts and how fields are mapped changes no document and is left out.
pub(super) fn normal_form(schema: &IndexSchema) -> Value {
    let mut form = Map::new();
    form.insert("table".into(), json!(schema.table));
    put(&mut form, "key", schema.key.as_ref().map(|key| json!(key)));
    put(&mut form, "where", schema.filter.as_ref().map(|sql| json!(sql.0.trim())));
    put(&mut form, "delete_when", schema.delete_when.as_ref().map(|sql| json!(sql.0.trim())));
    form.insert("fields".into(), fields(&schema.fields));
    Value::Object(form)
}

fn put(form: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        form.insert(key.to_owned(), value);
    }
}

fn put_true(form: &mut Map<String, Value>, key: &str, flag: bool) {
    put(form, key, flag.then_some(Value::Bool(true)));
}

fn fields(fields: &[Field]) -> Value {
    let mut forms: Vec<(String, Value)> = fields
        .iter()
        .map(|field| {
            let form = self::field(field);
            let mut text = String::new();
            canonical(&form, &mut text);
            (text, form)
        })
        .collect();
    forms.sort_by(|(left, _), (right, _)| left.cmp(right));
    Value::Array(forms.into_iter().map(|(_, form)| form).collect())
}

fn field(field: &Field) -> Value {
    let mut form = Map::new();
    let inline = matches!(&field.kind, FieldKind::Relation(Relation { inline: true, .. }));
    // An inline relation's own name is in no document.
    put(&mut form, "name", (!inline).then(|| json!(field.name)));
    match &field.kind {
        FieldKind::Column { column, value, transforms, default } => {
            form.insert("column".into(), json!(column));
            put_value(&mut form, value);
            put(&mut form, "transforms", (!transforms.is_empty()).then(|| json!(transforms)));
            put(&mut form, "default", default.as_ref().map(|default| json!(default.0)));
        }
        FieldKind::Sql { sql, value, transforms, default } => {
            form.insert("sql".into(), json!(sql.0.trim()));
            put_value(&mut form, value);
            put(&mut form, "transforms", (!transforms.is_empty()).then(|| json!(transforms)));
            put(&mut form, "default", default.as_ref().map(|default| json!(default.0)));
        }
        FieldKind::Constant { value, .. } => {
            form.insert("constant".into(), json!(value.0));
        }
        FieldKind::Object(below) => {
            form.insert("object".into(), fields(below));
        }
        FieldKind::GeoPoint(GeoSource::LatLon { lat, lon }) => {
            form.insert("geo_point".into(), json!({ "lat": lat, "lon": lon }));
        }
        FieldKind::GeoPoint(GeoSource::Point(column)) => {
            form.insert("geo_point".into(), json!({ "point": column }));
        }
        FieldKind::Relation(relation) => put_relation(&mut form, relation),
        FieldKind::Aggregate(aggregate) => put_aggregate(&mut form, aggregate),
    }
    Value::Object(form)
}

fn put_value(form: &mut Map<String, Value>, value: &ValueType) {
    put_type(form, &value.field_type);
    put_true(form, "array", value.array);
}

fn put_type(form: &mut Map<String, Value>, field_type: &FieldType) {
    form.insert("type".into(), json!(field_type.name()));
}

fn put_relation(form: &mut Map<String, Value>, relation: &Relation) {
    form.insert("relation".into(), json!(relation.cardinality.name()));
    put_path(form, &relation.path);
    put(form, "when", relation.when.as_ref().map(|sql| json!(sql.0.trim())));
    put_order(form, &relation.order_by);
    put(form, "limit", relation.limit.map(|limit| json!(limit)));
    put(form, "key_by", relation.key_by.as_ref().map(|column| json!(column)));
    put_true(form, "inline", relation.inline);
    form.insert("fields".into(), fields(&relation.fields));
}

fn put_aggregate(form: &mut Map<String, Value>, aggregate: &Aggregate) {
    use AggregateFunction::{Avg, Collect, Count, Max, Min, Sum, Value as First};
    form.insert("aggregate".into(), json!(aggregate.function.name()));
    match &aggregate.function {
        Count => {}
        Sum(operand) | Avg(operand) | Min(operand) | Max(operand) | Collect(operand) | First(operand) => {
            let operand = match operand {
                Operand::Column(column) => json!({ "column": column }),
                Operand::Sql(sql) => json!({ "sql": sql.0.trim() }),
            };
            form.insert("of".into(), operand);
        }
    }
    put_path(form, &aggregate.path);
    put_type(form, &aggregate.field_type);
    put_order(form, &aggregate.order_by);
    put(form, "limit", aggregate.limit.map(|limit| json!(limit)));
    put(form, "transforms", (!aggregate.transforms.is_empty()).then(|| json!(aggregate.transforms)));
}

fn put_path(form: &mut Map<String, Value>, path: &Path) {
    form.insert("table".into(), json!(path.table));
    put(form, "join", (!path.join.is_empty()).then(|| pairs(&path.join)));
    let through = path.through.iter().map(|through| {
        let mut form = Map::new();
        form.insert("table".into(), json!(through.table));
        form.insert("join".into(), pairs(&through.join));
        put(&mut form, "where", through.filter.as_ref().map(|sql| json!(sql.0.trim())));
        Value::Object(form)
    });
    put(form, "through", (!path.through.is_empty()).then(|| Value::Array(through.collect())));
    put(form, "to", (!path.to.is_empty()).then(|| pairs(&path.to)));
    put(form, "where", path.filter.as_ref().map(|sql| json!(sql.0.trim())));
    put_true(form, "distinct", path.distinct);
    // Without it documents of the past may have missed a move.
    put_true(form, "ignore_moves", path.ignore_moves);
}

fn pairs(pairs: &[JoinPair]) -> Value {
    let mut pairs: Vec<&JoinPair> = pairs.iter().collect();
    pairs.sort();
    json!(pairs)
}

fn put_order(form: &mut Map<String, Value>, order_by: &[Order]) {
    put(form, "order_by", (!order_by.is_empty()).then(|| json!(order_by)));
}

#[cfg(test)]
mod tests {
    use millstream_model::IndexName;

    use super::*;

    fn hashes(text: &str) -> (String, String) {
        let schema = IndexSchema::from_yaml(text, "s.yaml").unwrap_or_else(|errors| panic!("{errors}"));
        let mapping = schema.mapping(&IndexName::new("t"));
        (mapping.schema_hash, mapping.mapping_hash)
    }

    #[test]
    fn one_schema_has_one_hash_however_it_is_written() {
        let short = hashes("table: t\nfields: { id: long, n: { count: o, join: { a: b, c: d } } }");
        for other in [
            "version: 1\ntable: public.t\nfields: { id: long, n: { count: o, join: { a: b, c: d } } }",
            "table: { schema: public, table: t }\nfields: { id: { type: long }, n: { count: public.o, join: { c: d, a: b } } }",
            "fields: { n: { join: { a: b, c: d }, type: long, count: o }, id: { column: id, type: long, array: false } }\ntable: t",
            "table: t\nfields: { id: { type: long, nullable: true, transforms: [] }, n: { count: o, join: { a: b, c: d } } }",
        ] {
            assert_eq!(hashes(other), short, "{other}");
        }
    }

    #[test]
    fn what_changes_documents_changes_the_schemas_hash() {
        let base = "table: t\nfields: { id: long, o: { has_many: o, join: { a: b }, fields: { id: long } } }";
        let (before, mapping) = hashes(base);
        for (from, to) in [
            ("table: t", "table: u"),
            ("table: t", "table: t\nwhere: x"),
            ("table: t", "table: t\nkey: [b, a]"),
            ("{ a: b }", "{ a: c }"),
            ("fields: { id: long } }", "limit: 3, fields: { id: long } }"),
            ("fields: { id: long } }", "order_by: [x], fields: { id: long } }"),
            ("fields: { id: long } }", "where: x, fields: { id: long } }"),
            ("fields: { id: long } }", "when: x, fields: { id: long } }"),
        ] {
            let (after, after_mapping) = hashes(&base.replacen(from, to, 1));
            assert_ne!(after, before, "{to}");
            assert_eq!(after_mapping, mapping, "{to}");
        }
    }

    #[test]
    fn a_mapping_of_the_authors_changes_the_mappings_hash_alone() {
        let (schema, mapping) = hashes("table: t\nfields: { id: long }");
        let (same, other) = hashes("table: t\nfields: { id: { type: long, mapping: { index: false } } }");
        assert_eq!(same, schema);
        assert_ne!(other, mapping);
    }

    #[test]
    fn the_hash_of_a_known_schema_stays_what_it_was() {
        // A change here makes every index of every user be filled again unless HASH_VERSION changes with it.
        let (schema, mapping) = hashes(include_str!("read/testdata/users.schema.yaml"));
        assert_eq!(
            (HASH_VERSION, schema.as_str(), mapping.as_str()),
            (
                1,
                "f5336dce432e79b096d6ce3e55e1eb6d38815af1598461a0996d0b051ee9d962",
                "c0ef54cf65d131a4309210719b84dedfb87852f8e396eb4f29d246faa7f6aae8"
            )
        );
    }
}
