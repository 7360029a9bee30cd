use millstream_model::{IndexMapping, IndexName};
use serde_json::{Map, Value, json};

use super::normal::{HASH_VERSION, hash_of, normal_form};
use super::{Field, FieldKind, FieldType, IndexSchema, Relation};

impl IndexSchema {
    /// What a sink must know of the index: the mapping that the stated types derive, and the hashes of schema and mapping.
    ///
    /// The mapping is in the form that OpenSearch and Elasticsearch share. Documents keep every digit whatever the mapping
    /// says: it decides only how values are *searched*.
    ///
    /// | type | mapping |
    /// |---|---|
    /// | `text keyword boolean short integer long` | the same |
    /// | `float double` | the same; what is not finite is kept and not indexed |
    /// | `decimal` | `double`: searched and sorted to 15 digits; what is not finite is kept and not indexed |
    /// | `date timestamp` | `date`; infinite ones and those before our era are kept and not indexed |
    /// | `time uuid enum` | `keyword` |
    /// | `binary` | `binary` |
    /// | `json` | an object that is kept and not indexed, whatever is in it |
    /// | objects and relations | `properties`; with `key_by`, a dynamic template for each field below |
    ///
    /// `mapping:` of a field is laid over that. Where it states another `type`, it stands alone.
    pub fn mapping(&self, index: &IndexName) -> IndexMapping {
        let mut derived = Derived::default();
        let properties = derived.properties("", &self.fields);
        let mut mapping = Map::new();
        if !derived.templates.is_empty() {
            mapping.insert("dynamic_templates".to_owned(), Value::Array(derived.templates));
        }
        mapping.insert("properties".to_owned(), Value::Object(properties));
        let mapping = Value::Object(mapping);
        IndexMapping {
            index: index.clone(),
            hash_version: HASH_VERSION,
            schema_hash: hash_of(&normal_form(self)),
            mapping_hash: hash_of(&mapping),
            mapping,
        }
    }
}

#[derive(Default)]
struct Derived {
    templates: Vec<Value>,
}

impl Derived {
    /// The properties of an object at a path; those of inline relations stand among them.
    fn properties(&mut self, at: &str, fields: &[Field]) -> Map<String, Value> {
        let mut properties = Map::new();
        for field in fields {
            match &field.kind {
                FieldKind::Relation(Relation { inline: true, fields, .. }) => {
                    properties.extend(self.properties(at, fields));
                }
                _ => {
                    let at = if at.is_empty() { field.name.to_string() } else { format!("{at}.{}", field.name) };
                    let derived = self.field(&at, field);
                    properties.insert(field.name.to_string(), laid_over(derived, field.mapping.as_ref()));
                }
            }
        }
        properties
    }

    fn field(&mut self, at: &str, field: &Field) -> Value {
        match &field.kind {
            FieldKind::Column { value, .. } | FieldKind::Sql { value, .. } => of_type(&value.field_type),
            FieldKind::Constant { field_type, .. } => of_type(field_type),
            FieldKind::Aggregate(aggregate) => of_type(&aggregate.field_type),
            FieldKind::GeoPoint(_) => json!({ "type": "geo_point" }),
            FieldKind::Object(fields) => json!({ "properties": self.properties(at, fields) }),
            FieldKind::Relation(Relation { key_by: Some(_), fields, .. }) => {
                let below = self.properties(&format!("{at}.*"), fields);
                self.add_templates(&format!("{at}.*"), below);
                json!({ "type": "object" })
            }
            FieldKind::Relation(relation) => json!({ "properties": self.properties(at, &relation.fields) }),
        }
    }

    /// A template for each leaf below a key that the documents themselves name.
    fn add_templates(&mut self, at: &str, properties: Map<String, Value>) {
        for (name, mut mapping) in properties {
            let at = format!("{at}.{name}");
            let below = mapping.as_object_mut().and_then(|mapping| mapping.remove("properties"));
            if let Some(Value::Object(below)) = below {
                self.add_templates(&at, below);
            }
            let is_plain_object = mapping.as_object().is_some_and(Map::is_empty);
            if !is_plain_object {
                self.templates.push(json!({ at.clone(): { "path_match": at, "mapping": mapping } }));
            }
        }
    }
}

fn of_type(field_type: &FieldType) -> Value {
    match field_type {
        FieldType::Text
        | FieldType::Keyword
        | FieldType::Boolean
        | FieldType::Short
        | FieldType::Integer
        | FieldType::Long
        | FieldType::Binary => json!({ "type": field_type.name() }),
        FieldType::Float => json!({ "type": "float", "ignore_malformed": true }),
        FieldType::Double | FieldType::Decimal => json!({ "type": "double", "ignore_malformed": true }),
        FieldType::Date | FieldType::Timestamp => {
            json!({ "type": "date", "format": "strict_date_optional_time", "ignore_malformed": true })
        }
        FieldType::Time | FieldType::Uuid | FieldType::Enum => json!({ "type": "keyword" }),
        FieldType::Json => json!({ "type": "object", "enabled": false }),
        FieldType::Custom { mapping, .. } => Value::Object(mapping.clone()),
    }
}

/// The author's properties over the derived ones.
fn laid_over(derived: Value, extra: Option<&Map<String, Value>>) -> Value {
    let (Value::Object(mut derived), Some(extra)) = (derived.clone(), extra) else { return derived };
    if let Some(stated) = extra.get("type") {
        let object = Value::from("object");
        let before = derived.get("type").unwrap_or(&object);
        let both_hold_properties =
            derived.contains_key("properties") && [&object, &Value::from("nested")].contains(&stated);
        if before != stated && !both_hold_properties {
            return Value::Object(extra.clone());
        }
    }
    lay_over(&mut derived, extra);
    Value::Object(derived)
}

fn lay_over(derived: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (derived.get_mut(key), value) {
            (Some(Value::Object(below)), Value::Object(extra)) => lay_over(below, extra),
            _ => {
                derived.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(fields: &str) -> IndexMapping {
        let schema = IndexSchema::from_yaml(&format!("table: t\nfields: {fields}"), "s.yaml");
        schema.unwrap_or_else(|errors| panic!("{errors}")).mapping(&IndexName::new("t"))
    }

    fn properties(fields: &str) -> Value {
        mapping(fields).mapping["properties"].clone()
    }

    #[test]
    fn the_mapping_follows_from_the_stated_types() {
        assert_eq!(
            properties(
                "{ a: long, b: { object: { c: uuid } }, d: { has_many: x, join: { a: b }, fields: { e: text } } }"
            ),
            json!({
                "a": { "type": "long" },
                "b": { "properties": { "c": { "type": "keyword" } } },
                "d": { "properties": { "e": { "type": "text" } } },
            })
        );
        assert_eq!(properties("{ n: { count: x, join: { a: b } } }"), json!({ "n": { "type": "long" } }));
        assert_eq!(properties("{ k: { constant: 1.5 } }")["k"]["type"], "double");
        assert_eq!(properties("{ j: json }"), json!({ "j": { "type": "object", "enabled": false } }));
        assert_eq!(
            properties("{ c: { type: custom, source: [inet], mapping: { type: ip } } }"),
            json!({ "c": { "type": "ip" } })
        );
    }

    #[test]
    fn the_authors_mapping_is_laid_over() {
        assert_eq!(
            properties("{ a: { type: text, mapping: { fields: { raw: { type: keyword } } } } }"),
            json!({ "a": { "type": "text", "fields": { "raw": { "type": "keyword" } } } })
        );
        assert_eq!(
            properties("{ a: { type: decimal, mapping: { type: scaled_float, scaling_factor: 100 } } }"),
            json!({ "a": { "type": "scaled_float", "scaling_factor": 100 } })
        );
        assert_eq!(
            properties("{ a: { has_many: x, join: { a: b }, fields: { e: text }, mapping: { type: nested } } }"),
            json!({ "a": { "properties": { "e": { "type": "text" } }, "type": "nested" } })
        );
        assert_eq!(
            properties("{ a: { has_many: x, join: { a: b }, fields: { e: text }, mapping: { type: flattened } } }"),
            json!({ "a": { "type": "flattened" } })
        );
    }

    #[test]
    fn inline_fields_stand_beside_their_parents() {
        let fields = "{ a: { belongs_to: x, join: { a: b }, inline: true, fields: { e: text, f: long } } }";
        assert_eq!(properties(fields), json!({ "e": { "type": "text" }, "f": { "type": "long" } }));
    }

    #[test]
    fn keys_that_documents_name_are_mapped_by_template() {
        let mapping = mapping(
            "{ a: { has_many: x, join: { a: b }, key_by: l, fields: { e: text, o: { object: { f: date } } } } }",
        );
        assert_eq!(mapping.mapping["properties"], json!({ "a": { "type": "object" } }));
        let templates = mapping.mapping["dynamic_templates"].as_array().unwrap();
        assert_eq!(templates.len(), 2);
        assert_eq!(templates[0], json!({ "a.*.e": { "path_match": "a.*.e", "mapping": { "type": "text" } } }));
        assert_eq!(templates[1]["a.*.o.f"]["mapping"]["type"], "date");
    }
}
