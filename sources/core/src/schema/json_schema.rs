use serde_json::{Map, Value, json};

use super::read::keys::{COLUMN, GEO_POINT, OPERAND, ORDER, SORTS, Sort, TABLE, THROUGH, TOP};
use super::types::TYPE_NAMES;

/// A JSON Schema (2020-12) of the schema file's format, for editors: the keys that the reader knows, and what they take.
///
/// It says less than the reader: what a file may not say whatever its keys (a name used twice) is told by
/// [`IndexSchema::from_yaml`](super::IndexSchema::from_yaml).
pub fn json_schema() -> Value {
    let mut sorts = vec![json!({ "$ref": "#/$defs/type" }), sort(&COLUMN)];
    sorts.extend(SORTS.iter().map(sort));
    let through = object(THROUGH, &["table", "join"], through_property);
    let table = object(TABLE, &["table"], |_| json!({ "type": "string" }));
    let order = object(ORDER, &["column"], |key| match key {
        "descending" => json!({ "type": "boolean" }),
        _ => json!({ "type": "string" }),
    });
    let mut file = object(TOP, &["table", "fields"], |key| match key {
        "version" => json!({ "const": 1, "description": "The version of the file format." }),
        "table" => described(reference("table"), "The root table: one row, one document."),
        "key" => described(one_or_many(json!({ "type": "string" })), "The order of the id's parts."),
        "where" => described(sql(), "Rows outside have no document."),
        "delete_when" => described(sql(), "Rows inside have no document: soft delete."),
        _ => reference("fields"),
    });
    let defs = json!({
        "type": { "type": "string", "enum": TYPE_NAMES },
        "table": { "anyOf": [{ "type": "string", "description": "`table` or `schema.table`" }, table] },
        "pairs": { "type": "object", "minProperties": 1, "additionalProperties": { "type": "string" },
                   "description": "Column of the nearer table: column of the farther." },
        "through": through,
        "order": { "anyOf": [{ "type": "string", "description": "A column; `-column` for descending." }, order] },
        "operand": { "anyOf": [{ "type": "string" }, object(OPERAND, OPERAND, |_| sql())] },
        "fields": { "type": "object", "minProperties": 1, "additionalProperties": reference("field") },
        "field": { "anyOf": sorts },
    });
    if let Value::Object(file) = &mut file {
        file.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
        file.insert("title".into(), json!("Millstream index schema"));
        file.insert("$defs".into(), defs);
    }
    file
}

/// One sort of field as an object.
fn sort(sort: &Sort) -> Value {
    let is_count = sort.key == "count";
    let mut required = vec![sort.key];
    match sort.key {
        "sql" => required.push("type"),
        "belongs_to" | "has_one" | "has_many" => required.push("fields"),
        "sum" | "avg" | "min" | "max" | "collect" | "value" => required.extend(["of", "type"]),
        _ => {}
    }
    let mut schema = object(sort.keys, &required, |key| property(sort, key, is_count));
    if sort.keys.contains(&"join")
        && let Value::Object(schema) = &mut schema
    {
        schema.insert("oneOf".into(), json!([{ "required": ["join"] }, { "required": ["through"] }]));
    }
    schema
}

fn property(sort: &Sort, key: &str, is_count: bool) -> Value {
    match key {
        "type" => json!({ "type": "string", "enum": TYPE_NAMES.iter().copied().chain(["custom"]).collect::<Vec<_>>() }),
        "array" | "nullable" | "distinct" | "inline" => json!({ "type": "boolean" }),
        "default" | "constant" => json!(true),
        "transforms" => one_or_many(json!({ "enum": ["trim", "lowercase", "uppercase"] })),
        "mapping" => described(json!({ "type": "object" }), "More properties for the sink's mapping."),
        "source" => one_or_many(json!({ "type": "string" })),
        "sql" | "where" | "when" => sql(),
        "object" | "fields" => reference("fields"),
        "geo_point" => object(GEO_POINT, &[], |_| json!({ "type": "string" })),
        "belongs_to" | "has_one" | "has_many" | "of" => reference("table"),
        "count" if is_count => reference("table"),
        "join" | "through" => through_property(key),
        "order_by" => one_or_many(reference("order")),
        "limit" => json!({ "type": "integer", "minimum": 1 }),
        "on_move" => json!({ "const": "ignore" }),
        key if key == sort.key => reference("operand"),
        _ => json!({ "type": "string" }),
    }
}

fn through_property(key: &str) -> Value {
    match key {
        "table" => reference("table"),
        "where" => sql(),
        "through" => one_or_many(reference("through")),
        _ => reference("pairs"),
    }
}

fn object(keys: &[&str], required: &[&str], property: impl Fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), property(key))).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn one_or_many(item: Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "items": item }] })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn sql() -> Value {
    json!({ "type": "string", "description": "SQL over this table's own columns." })
}

fn described(mut schema: Value, description: &str) -> Value {
    if let Value::Object(schema) = &mut schema {
        schema.insert("description".into(), json!(description));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As much of JSON Schema as ours uses.
    fn fits(root: &Value, schema: &Value, value: &Value) -> bool {
        let Value::Object(schema) = schema else { return schema == &json!(true) };
        schema.iter().all(|(word, rule)| match (word.as_str(), rule) {
            ("$ref", Value::String(to)) => {
                fits(root, root.pointer(to.trim_start_matches('#')).expect("it is defined"), value)
            }
            ("type", Value::String(name)) => match name.as_str() {
                "object" => value.is_object(),
                "array" => value.is_array(),
                "string" => value.is_string(),
                "boolean" => value.is_boolean(),
                "integer" => value.is_u64(),
                other => panic!("type {other}"),
            },
            ("enum", Value::Array(values)) => values.contains(value),
            ("const", expected) => value == expected,
            ("minimum", least) => value.as_u64() >= least.as_u64(),
            ("minProperties", least) => value.as_object().is_none_or(|it| Some(it.len() as u64) >= least.as_u64()),
            ("anyOf", Value::Array(choices)) => choices.iter().any(|choice| fits(root, choice, value)),
            ("oneOf", Value::Array(choices)) => choices.iter().filter(|choice| fits(root, choice, value)).count() == 1,
            ("required", Value::Array(keys)) => keys.iter().all(|key| value.get(key.as_str().unwrap()).is_some()),
            ("items", item) => value.as_array().is_none_or(|items| items.iter().all(|it| fits(root, item, it))),
            ("properties", Value::Object(properties)) => value.as_object().is_none_or(|value| {
                value.iter().all(|(key, value)| properties.get(key).is_none_or(|rule| fits(root, rule, value)))
            }),
            ("additionalProperties", rule) => value.as_object().is_none_or(|value| {
                let known = |key: &String| schema.get("properties").is_some_and(|known| known.get(key).is_some());
                value.iter().all(|(key, value)| known(key) || fits(root, rule, value))
            }),
            ("description" | "title" | "$schema" | "$defs", _) => true,
            (other, _) => panic!("word {other}"),
        })
    }

    fn accepts(text: &str) -> bool {
        let value: Value = crate::yaml::from_str(text, "s.yaml").unwrap();
        let schema = json_schema();
        fits(&schema, &schema, &value)
    }

    #[test]
    fn the_example_of_the_documentation_fits() {
        assert!(accepts(include_str!("read/testdata/users.schema.yaml")));
        assert!(accepts("table: { schema: a.b, table: c }\nfields: { n: { count: { table: d }, join: { a: b } } }"));
    }

    #[test]
    fn what_the_reader_refuses_for_its_keys_does_not_fit() {
        for fields in [
            "{ id: lnog }",
            "{ id: { type: long, colunm: x } }",
            "{ id: { type: long, limit: 5 } }",
            "{ o: { has_many: o, join: { a: b } } }",
            "{ o: { has_many: o, fields: { id: long } } }",
            "{ o: { has_many: o, join: { a: b }, inline: true, fields: { id: long } } }",
            "{ o: { has_many: o, join: { a: b }, limit: 0, fields: { id: long } } }",
            "{ n: { sum: x, of: o, join: { a: b } } }",
            "{}",
        ] {
            let text = format!("table: t\nfields: {fields}");
            assert!(crate::IndexSchema::from_yaml(&text, "s.yaml").is_err(), "{fields}");
            assert!(!accepts(&text), "{fields}");
        }
        assert!(!accepts("fields: { id: long }"));
    }
}
