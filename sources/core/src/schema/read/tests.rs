use proptest::prelude::*;

use super::super::*;
use crate::IndexSchema;

/// The example of the documentation: every sort of field there is.
const USERS: &str = include_str!("testdata/users.schema.yaml");

fn read(fields: &str) -> IndexSchema {
    let text = format!("table: shop.users\nfields:\n{fields}\n");
    IndexSchema::from_yaml(&text, "s.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

/// The first line of each error in a file whose third line begins with `fields`.
fn errors(fields: &str) -> Vec<String> {
    let text = format!("table: shop.users\nfields:\n{fields}\n");
    let errors = IndexSchema::from_yaml(&text, "s.yaml").expect_err("it is wrong");
    errors.0.iter().map(|error| error.to_string().lines().next().unwrap_or_default().to_owned()).collect()
}

fn kind(schema: &IndexSchema, name: &str) -> FieldKind {
    schema.fields.iter().find(|field| field.name == name).unwrap_or_else(|| panic!("{name} is there")).kind.clone()
}

fn constant(written: &str) -> (String, FieldType) {
    match kind(&read(&format!("  x: {{ constant: {written} }}")), "x") {
        FieldKind::Constant { value, field_type } => (value.0, field_type),
        other => panic!("{other:?}"),
    }
}

fn default_of(written: &str) -> String {
    match kind(&read(&format!("  x: {{ {written} }}")), "x") {
        FieldKind::Column { default: Some(default), .. } => default.0,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_whole_grammar_is_read() {
    let schema = IndexSchema::from_yaml(USERS, "users.schema.yaml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(schema.key.as_deref(), Some(&["id".into()][..]));
    assert_eq!(schema.filter, Some(Sql("not archived".into())));
    assert_eq!(schema.fields.len(), 20);

    let FieldKind::Relation(orders) = kind(&schema, "orders") else { panic!("a relation") };
    assert_eq!(orders.path.table.to_string(), "shop.orders");
    assert_eq!(orders.order_by[0], Order { column: "created_at".into(), descending: true });
    assert_eq!((orders.limit, orders.cardinality), (Some(50), Cardinality::HasMany));

    let FieldKind::Relation(bought) = kind(&schema, "bought") else { panic!("a relation") };
    assert!(bought.path.distinct && bought.path.join.is_empty());
    assert_eq!(bought.path.through.len(), 2);
    assert_eq!(bought.path.to, [JoinPair { left: "product_id".into(), right: "id".into() }]);

    let FieldKind::Aggregate(spent) = kind(&schema, "spent") else { panic!("an aggregate") };
    assert_eq!(spent.function, AggregateFunction::Sum(Operand::Sql(Sql("quantity * unit_price".into()))));
    let FieldKind::Aggregate(count) = kind(&schema, "order_count") else { panic!("an aggregate") };
    assert_eq!((count.function, count.field_type), (AggregateFunction::Count, FieldType::Long));

    let paths: Vec<String> = SchemaTree::of(&schema).nodes().iter().map(|node| node.path.clone()).collect();
    assert!(paths.contains(&"fields.bought.through[1]".to_owned()), "{paths:?}");
    assert!(paths.contains(&"fields.roles.fields.team".to_owned()), "{paths:?}");
}

#[test]
fn json_is_yaml() {
    let schema =
        IndexSchema::from_yaml(r#"{"version": 1, "table": "users", "fields": {"id": "long"}}"#, "s.json").unwrap();
    assert_eq!(schema.table.to_string(), "public.users");
}

#[test]
fn p13_any_table_and_column_can_be_named() {
    let text = "table: { schema: Sales-2, table: a.b }\nfields:\n  x: { type: long, column: '-we\"ird.' }\n  \
                n: { count: other, join: { 'a b': 'c\"d' } }\n  m: { count: { schema: s.t, table: t }, join: { a: b } }\n  \
                o: { collect: x, of: t, type: long, join: { a: b }, order_by: { column: -x, descending: true } }";
    let schema = IndexSchema::from_yaml(text, "s.yaml").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!((schema.table.schema(), schema.table.table()), ("Sales-2", "a.b"));
    let FieldKind::Aggregate(count) = kind(&schema, "n") else { panic!("an aggregate") };
    assert_eq!((count.path.table.schema(), count.path.table.table()), ("Sales-2", "other"));
    assert_eq!(count.path.join, [JoinPair { left: "a b".into(), right: "c\"d".into() }]);
    let FieldKind::Aggregate(count) = kind(&schema, "m") else { panic!("an aggregate") };
    assert_eq!(count.path.table.schema(), "s.t");
    let FieldKind::Aggregate(collect) = kind(&schema, "o") else { panic!("an aggregate") };
    assert_eq!(collect.order_by, [Order { column: "-x".into(), descending: true }]);
}

#[test]
fn constants_are_read_as_their_source_text() {
    use FieldType::{Boolean, Decimal, Keyword, Long};
    for (written, value, field_type) in [
        ("NO", "\"NO\"", Keyword),
        ("01234", "\"01234\"", Keyword),
        ("1234567890123456789012345", "1234567890123456789012345", Decimal),
        ("1.10", "1.10", Decimal),
        ("42", "42", Long),
        ("-0", "-0", Long),
        ("\"42\"", "\"42\"", Keyword),
        ("true", "true", Boolean),
        ("'true'", "\"true\"", Keyword),
        ("yes", "\"yes\"", Keyword),
        ("null", "null", Keyword),
        ("0x1F", "\"0x1F\"", Keyword),
        ("2020-01-01", "\"2020-01-01\"", Keyword),
        ("[1, 2]", "[1,2]", Long),
        ("01234, type: keyword", "\"01234\"", Keyword),
        ("12345678901234567890123, type: keyword", "\"12345678901234567890123\"", Keyword),
        ("null, type: keyword", "\"null\"", Keyword),
        ("null, type: long", "null", Long),
        ("1e2, type: decimal", "1e2", Decimal),
        ("NaN, type: decimal", "\"NaN\"", Decimal),
        ("{ a: [NO, 1.50, \"1\"] }, type: json", "{\"a\":[\"NO\",1.50,\"1\"]}", FieldType::Json),
    ] {
        assert_eq!(constant(written), (value.to_owned(), field_type), "{written}");
    }
}

#[test]
fn defaults_are_read_by_their_declared_type() {
    assert_eq!(default_of("type: keyword, default: NO"), "\"NO\"");
    assert_eq!(default_of("type: keyword, default: 007"), "\"007\"");
    assert_eq!(default_of("type: long, default: 7"), "7");
    assert_eq!(default_of("type: keyword, array: true, default: [a, 01, ~]"), "[\"a\",\"01\",null]");
    assert_eq!(
        default_of("type: decimal, default: 1.1000000000000000000000000000000001"),
        "1.1000000000000000000000000000000001"
    );
    let wrong = |written: &str| errors(&format!("  x: {{ {written} }}"));
    assert_eq!(
        wrong("type: long, default: 007"),
        ["s.yaml:3:29: fields.x.default: a value of type long is expected here, not `007`; \
          write a whole number within the type's bounds, as JSON does"]
    );
    assert!(wrong("type: short, default: 40000")[0].contains("not `40000`"));
    assert!(wrong("type: boolean, default: yes")[0].contains("write true or false"));
    assert!(wrong("type: keyword, default: [a]")[0].contains("write one value, or `array: true` beside it"));
    assert!(wrong("type: keyword, array: true, default: a")[0].contains("a list is expected here, not `a`"));
}

#[test]
fn every_error_names_place_path_and_what_to_write() {
    for (fields, expected) in [
        ("  id: lnog", "s.yaml:3:7: fields.id: unknown type `lnog`; write `long`"),
        (
            "  id: custom",
            "s.yaml:3:7: fields.id: custom needs `source` and `mapping`; write `{ type: custom, source: [...], mapping: {...} }`",
        ),
        ("  id: { type: long, colunm: x }", "s.yaml:3:21: fields.id.colunm: unknown key `colunm`; write `column`"),
        (
            "  id: { type: long, limit: 5 }",
            "s.yaml:3:21: fields.id.limit: `limit` belongs to has_many and collect; remove it",
        ),
        (
            "  id: {}",
            "s.yaml:3:7: fields.id: says neither a type nor where its value comes from; write `type: …`, or one of sql, object, geo_point, constant, belongs_to, has_one, has_many, count, sum, avg, min, max, collect, value",
        ),
        ("  id: { has_mny: x }", "s.yaml:3:9: fields.id.has_mny: unknown key `has_mny`; write `has_many`"),
        (
            "  n: { count: a, sum: b, join: { a: b } }",
            "s.yaml:3:6: fields.n: is both `count` and `sum`; write two fields",
        ),
        (
            "  o: { belongs_to: o, join: { a: b }, limit: 1, fields: { id: long } }",
            "s.yaml:3:39: fields.o.limit: `limit` belongs to has_many and collect; remove it",
        ),
        (
            "  o: { has_many: o, join: { a: b }, inline: true, fields: { id: long } }",
            "s.yaml:3:37: fields.o.inline: `inline` belongs to belongs_to and has_one; remove it",
        ),
        (
            "  o: { has_one: o, join: { a: b }, key_by: x, fields: { id: long } }",
            "s.yaml:3:36: fields.o.key_by: `key_by` belongs to has_many; remove it",
        ),
        (
            "  o: { has_many: o, join: { a: b }, distinct: true, fields: { id: long } }",
            "s.yaml:3:37: fields.o.distinct: `distinct` needs `through`: without a table in between no row comes twice; remove it",
        ),
        (
            "  o: { has_many: o, join: { a: b }, limit: 0, fields: { id: long } }",
            "s.yaml:3:37: fields.o.limit: a limit is at least 1; write how many rows at most, or leave it out",
        ),
        (
            "  o: { has_many: o, join: { a: b } }",
            "s.yaml:3:6: fields.o: `fields` is missing; write `fields: { … }` with the far row's fields",
        ),
        (
            "  o: { has_many: o, fields: { id: long } }",
            "s.yaml:3:6: fields.o: `join` or `through` is missing; write `join: { our column: their column }`",
        ),
        (
            "  o: { has_many: o, join: {}, fields: { id: long } }",
            "s.yaml:3:21: fields.o.join: says no pair of columns; write `{ column of the nearer table: column of the farther }`",
        ),
        (
            "  o: { has_many: o, through: { table: t, join: { a: b } }, fields: { id: long } }",
            "s.yaml:3:30: fields.o.through[0]: `to` is missing; write `to: { column of this table: column of the far one }`",
        ),
        (
            "  o: { has_many: o, join: { a: b }, through: { table: t, join: { a: b }, to: { a: b } }, fields: { id: long } }",
            "s.yaml:3:21: fields.o.join: with `through`, `join` stands inside it; write `through: { table: …, join: …, to: … }`",
        ),
        (
            "  o: { has_many: o, through: [{ table: t, join: { a: b }, to: { a: b } }, { table: u, join: { a: b }, to: { a: b } }], fields: { id: long } }",
            "s.yaml:3:59: fields.o.through[0].to: `to` belongs to the last table in `through`; remove it: the next table's `join` says how it follows",
        ),
        (
            "  n: { count: o, join: { a: b }, when: x }",
            "s.yaml:3:34: fields.n.when: `when` belongs to relations; remove it",
        ),
        (
            "  n: { sum: x, of: o, type: long, join: { a: b }, distinct: true }",
            "s.yaml:3:51: fields.n.distinct: `distinct` belongs to relations with `through`, collect and count; remove it",
        ),
        (
            "  n: { sum: x, of: o, join: { a: b } }",
            "s.yaml:3:6: fields.n: `type` is missing; write `type: …`: it states the mapping",
        ),
        (
            "  n: { value: x, of: o, type: long, join: { a: b }, limit: 2 }",
            "s.yaml:3:53: fields.n.limit: `limit` belongs to has_many and collect; remove it",
        ),
        (
            "  n: { max: x, of: o, type: long, join: { a: b }, default: 2 }",
            "s.yaml:3:51: fields.n.default: `default` belongs to columns and sql; remove it",
        ),
        (
            "  n: { max: x, of: a.b.c, type: long, join: { a: b } }",
            "s.yaml:3:20: fields.n.of: `a.b.c` is not a table's name, or a schema's and a table's with a dot between; write `{ schema: …, table: … }` for names with dots",
        ),
        (
            "  a: { type: long, transforms: [trim] }",
            "s.yaml:3:20: fields.a.transforms: transforms are for texts, not for long; remove them, or change the type to text or keyword",
        ),
        (
            "  a: { type: text, transforms: [upercase] }",
            "s.yaml:3:33: fields.a.transforms[0]: unknown transform `upercase`; write `uppercase`",
        ),
        (
            "  a: { type: text, nullable: yes }",
            "s.yaml:3:30: fields.a.nullable: true or false is expected here, not `yes`",
        ),
        (
            "  a: { geo_point: { lat: x } }",
            "s.yaml:3:19: fields.a.geo_point: a point is two columns, or one of a point type; write `{ lat: …, lon: … }` or `{ point: … }`",
        ),
        ("  a: { type: text, sql: '' }", "s.yaml:3:25: fields.a.sql: an SQL expression is expected here, not ``"),
        (
            "  a: { constant: { x: 1 } }",
            "s.yaml:3:18: fields.a.constant: a mapping needs its type; write `type: json` beside it",
        ),
        ("  a: { object: {} }", "s.yaml:3:8: fields.a.object: has no field; write at least one, such as `id: long`"),
        (
            "  a: { has_many: o, join: { a: b }, on_move: keep, fields: { id: long } }",
            "s.yaml:3:46: fields.a.on_move: unknown choice `keep`; write `on_move: ignore`, or leave it out",
        ),
        (
            "  team: text\n  t: { belongs_to: t, join: { a: b }, inline: true, fields: { team: text } }",
            "s.yaml:4:63: fields.t.fields.team: the name `team` is used twice in one object (also at fields.team); give one of them another name",
        ),
        ("  a: long\n  a: text", "s.yaml:4:3: duplicate mapping key `a` is not allowed here"),
    ] {
        assert_eq!(errors(fields).first().map(String::as_str), Some(expected), "{fields}");
    }
}

#[test]
fn all_errors_of_a_file_are_told_at_once() {
    let found = errors("  a: lnog\n  b: { type: long, lmit: 3 }\n  c: { object: { d: nope } }");
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn the_top_is_checked() {
    let error = |text: &str| IndexSchema::from_yaml(text, "s.yaml").expect_err("it is wrong").0[0].to_string();
    assert!(
        error("version: 2\ntable: t\nfields: { id: long }")
            .starts_with("s.yaml:1:10: version: unknown version `2`; write `version: 1`")
    );
    assert!(error("fields: { id: long }").starts_with("s.yaml:1:1: `table` is missing; name the root table"));
    assert!(error("table: t\nfields: {}").starts_with("s.yaml:2:1: fields: has no field;"));
    assert!(
        error("table: t\nfelds: { id: long }").starts_with("s.yaml:2:1: felds: unknown key `felds`; write `fields`")
    );
    assert!(error("table: t\nkey: [a, a]\nfields: { id: long }").starts_with("s.yaml:2:1: key: names `a` twice"));
    assert!(error("").contains("a mapping is expected here, not nothing"));
}

#[test]
fn anchors_and_merge_keys_work() {
    let schema = read("  a: &price { type: decimal, nullable: true }\n  b: *price\n  c: { <<: *price, column: cc }");
    assert_eq!(schema.fields.len(), 3);
    assert!(schema.fields.iter().all(|field| field.nullable));
    let FieldKind::Column { column, .. } = kind(&schema, "b") else { panic!("a column") };
    assert_eq!(column, "b");
}

proptest! {
    #[test]
    fn reading_never_panics_on_any_text(text in "\\PC*") {
        let _ = IndexSchema::from_yaml(&text, "s.yaml");
    }

    #[test]
    fn reading_never_panics_on_a_damaged_schema(from in 0..USERS.len(), length in 0..200usize, put in "[-\\[\\]{}:,&*!|>'\"#%@ \n a0~?]{0,6}") {
        let floor = |at: usize| (0..=at.min(USERS.len())).rev().find(|at| USERS.is_char_boundary(*at)).unwrap_or(0);
        let text = format!("{}{put}{}", &USERS[..floor(from)], &USERS[floor(from + length)..]);
        let _ = IndexSchema::from_yaml(&text, "s.yaml");
    }
}

#[test]
fn a_schema_that_was_read_knows_where_its_parts_stand() {
    use crate::{Diagnostic, SourceSpec};
    let text = "table: users\nfields:\n  id: long\n  orders:\n    has_many: orders\n    join: { id: user_id }\n    fields: { no: long }\n";
    let node = crate::yaml::Node::parse(text, "users.schema.yaml").unwrap();
    let (schema, places) = IndexSchema::from_node_with_places(&node, text, "users.schema.yaml").unwrap();
    let spec = SourceSpec::new([("users".into(), schema)]).with_places([("users".into(), places)]);
    let at = |path: &str| {
        let found = spec.located(Diagnostic::error("type", &"users".into(), path, "no", ""));
        found.location.map(|location| location.to_string())
    };
    assert_eq!(at("table").as_deref(), Some("users.schema.yaml:1:1"));
    assert_eq!(at("fields.orders.join").as_deref(), Some("users.schema.yaml:6:5"));
    assert_eq!(at("fields.orders.fields.no").as_deref(), Some("users.schema.yaml:7:15"));
    // What is not there stands where the nearest thing above it does.
    assert_eq!(at("fields.orders.order_by[3]").as_deref(), Some("users.schema.yaml:4:3"));
    let orders = millstream_model::QualifiedTable::new("public", "orders");
    assert_eq!(spec.location_of(&orders).unwrap().to_string(), "users.schema.yaml:4:3");
}
