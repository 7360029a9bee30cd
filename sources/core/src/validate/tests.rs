use std::collections::BTreeMap;

use millstream_model::IndexName;

use super::*;
use crate::{IndexInfo, IndexSchema};

/// A table described as `name type[?][!]`: `?` nullable, `!` unreadable; the first column is the key.
fn table(columns: &str) -> TableInfo {
    let columns: Vec<ColumnInfo> = columns
        .split(',')
        .map(|column| {
            let (name, base) = column.trim().split_once(' ').expect("a name and a type");
            ColumnInfo {
                name: name.into(),
                native_type: base.trim_end_matches(['?', '!']).to_owned(),
                base_type: base.trim_end_matches(['?', '!']).trim_end_matches("[]").to_owned(),
                is_array: base.contains("[]"),
                nullable: base.contains('?'),
                readable: !base.contains('!'),
                ..ColumnInfo::default()
            }
        })
        .collect();
    let key = vec![columns[0].name.clone()];
    let index = IndexInfo { name: "pkey".into(), columns: key.clone(), unique: true, partial: false };
    TableInfo { columns, primary_key: key.clone(), indexes: vec![index], old_values: Some(key), ..TableInfo::default() }
}

fn shop() -> BTreeMap<QualifiedTable, TableInfo> {
    let mut orders = table("id int8, user_id int8, total numeric, note text, made timestamptz, doc json");
    orders.indexes.push(IndexInfo { name: "u".into(), columns: vec!["user_id".into()], unique: false, partial: false });
    orders.old_values = None;
    let mut users = table("id int8, email text, age int4?, tags text[], company_id int8?, at point?, secret text!");
    users.indexes.push(IndexInfo {
        name: "c".into(),
        columns: vec!["company_id".into()],
        unique: false,
        partial: false,
    });
    let companies = table("id int8, name text, code text");
    [("users", users), ("orders", orders), ("companies", companies)]
        .into_iter()
        .map(|(name, info)| (QualifiedTable::new("public", name), info))
        .collect()
}

fn check(text: &str, change: impl FnOnce(&mut BTreeMap<QualifiedTable, TableInfo>)) -> Vec<String> {
    let schema = IndexSchema::from_yaml(text, "s.yaml").unwrap_or_else(|errors| panic!("{errors}"));
    let spec = SourceSpec::new([(IndexName::new("users"), schema)]);
    let mut tables = shop();
    change(&mut tables);
    let catalog = Catalog { tables, ..Catalog::default() };
    validate_indexes(&spec, &catalog).iter().map(ToString::to_string).collect()
}

fn fields(fields: &str) -> Vec<String> {
    check(&format!("table: users\nfields: {{ {fields} }}"), |_| {})
}

fn of(name: &str) -> QualifiedTable {
    QualifiedTable::new("public", name)
}

const ORDERS: &str = "o: { has_many: orders, join: { id: user_id }, fields: { total: decimal } }";

#[test]
fn what_agrees_is_not_spoken_of() {
    let all = "id: long, email: keyword, age: { type: integer, nullable: true }, tags: { type: keyword, array: true }, \
               c: { belongs_to: companies, join: { company_id: id }, fields: { name: text } }, \
               p: { geo_point: { point: at }, nullable: true }, s: { sum: total, of: orders, type: decimal, join: { id: user_id } }";
    assert_eq!(fields(&format!("{all}, {ORDERS}")), Vec::<String>::new());
}

#[test]
fn every_finding_names_path_and_mend() {
    for (written, expected) in [
        (
            "emial: keyword",
            "error[missing-column] index users at fields.emial: public.users has no column `emial`; to mend it: write `email`",
        ),
        (
            "zzz: keyword",
            "error[missing-column] index users at fields.zzz: public.users has no column `zzz`; to mend it: add it, or name another",
        ),
        (
            "email: long",
            "error[type] index users at fields.email: column `email` of public.users is `text`, which long does not show; to mend it: write `type: text`, or convert it with `sql`",
        ),
        (
            "id: { type: custom, source: [int4], mapping: { type: long } }",
            "error[type] index users at fields.id: column `id` of public.users is `int8`, which custom does not show; to mend it: add `int8` to `source`",
        ),
        (
            "tags: keyword",
            "error[array] index users at fields.tags: column `tags` of public.users is an array, the field is not; to mend it: write `array: true`",
        ),
        (
            "email: { type: text, array: true }",
            "error[array] index users at fields.email: column `email` of public.users is not an array, the field is; to mend it: take `array: true` away",
        ),
        (
            "age: integer",
            "warning[nullable] index users at fields.age: column `age` of public.users may be NULL, the field does not say so; to mend it: write `nullable: true` or a `default`, or make the column NOT NULL",
        ),
        (
            "secret: text",
            "error[unreadable] index users at fields.secret: this role may not read column `secret` of public.users; to mend it: let the role read it",
        ),
        (
            "o: { count: order, join: { id: user_id } }",
            "error[missing-table] index users at fields.o: there is no table public.order; to mend it: write `public.orders`",
        ),
        (
            "o: { count: orders, join: { email: user_id } }",
            "error[join-types] index users at fields.o.join: `email` of public.users is `text`, `user_id` of public.orders is `int8`: they can't be compared; to mend it: join by columns of one type",
        ),
        (
            "p: { geo_point: { lat: email, lon: id } }",
            "error[type] index users at fields.p: column `email` of public.users is `text`, not a number; to mend it: name columns of latitude and longitude, or one of type point",
        ),
        (
            "o: { has_many: orders, join: { id: user_id }, order_by: [doc], fields: { id: long } }",
            "error[type] index users at fields.o.order_by[0]: column `doc` of public.orders is `json`, which has no order; to mend it: order by another column",
        ),
        (
            "o: { has_many: orders, join: { id: user_id }, key_by: lang, fields: { id: long } }",
            "error[missing-column] index users at fields.o.key_by: public.orders has no column `lang`; to mend it: add it, or name another",
        ),
        (
            "o: { sum: note, of: orders, type: decimal, join: { id: user_id } }",
            "error[type] index users at fields.o.sum: there is no sum of `text` (column `note` of public.orders); to mend it: take another column, or `{ sql: … }`",
        ),
        (
            "o: { max: note, of: orders, type: long, join: { id: user_id } }",
            "warning[type] index users at fields.o.max: column `note` of public.orders is `text`, which long does not show; to mend it: write `type: text`, or convert it with `sql`",
        ),
        (
            "c: { belongs_to: companies, join: { email: name }, fields: { name: text } }",
            "warning[unindexed-link] index users at fields.c.join: no index of public.companies begins with (name): building a document reads the whole table; to mend it: create an index over (name)",
        ),
    ] {
        assert_eq!(fields(written).first().map(String::as_str), Some(expected), "{written}");
    }
}

#[test]
fn p5_an_identity_that_does_not_tell_the_links_is_an_error() {
    let text = format!("table: users\nfields: {{ id: long, {ORDERS} }}");
    let by_key = |tables: &mut BTreeMap<QualifiedTable, TableInfo>| {
        let orders = tables.get_mut(&of("orders")).unwrap();
        orders.old_values = Some(vec!["id".into()]);
    };
    let found = check(&text, by_key);
    assert_eq!(
        found,
        [
            "error[identity] index users at fields.o.join: an update or delete of public.orders does not tell the row's old \
          (user_id): its old parent would stay as it was; to mend it: let the log tell a row's old (id, user_id): by the \
          key, by a unique index over them, or by all columns; or write `on_move: ignore` at the relation"
        ]
    );
    assert_eq!(check(&text.replace("join:", "on_move: ignore, join:"), by_key), Vec::<String>::new());
    let by_index = |tables: &mut BTreeMap<QualifiedTable, TableInfo>| {
        tables.get_mut(&of("orders")).unwrap().old_values = Some(vec!["user_id".into(), "id".into()]);
    };
    assert_eq!(check(&text, by_index), Vec::<String>::new());
    let by_nothing = |tables: &mut BTreeMap<QualifiedTable, TableInfo>| {
        tables.get_mut(&of("users")).unwrap().old_values = Some(Vec::new());
    };
    assert!(check(&text, by_nothing)[0].contains("does not tell which row it was (missing: id)"));
}

#[test]
fn tables_that_can_not_be_followed_are_refused() {
    let text = "table: users\nfields: { id: long }";
    let with = |change: fn(&mut TableInfo)| check(text, |tables| change(tables.get_mut(&of("users")).unwrap()));
    assert_eq!(
        with(|info| info.kind = TableKind::Unsupported("a view".to_owned())),
        [
            "error[unsupported-table] index users at table: public.users is a view: its changes are not told; to mend it: \
          name the table that holds the rows"
        ]
    );
    assert!(with(|info| info.primary_key.clear())[0].starts_with("error[no-primary-key]"));
    assert!(with(|info| info.row_security = true)[0].starts_with("error[row-security]"));
    assert!(with(|info| info.columns[0].generated = true)[0].starts_with("error[generated-column]"));
}

#[test]
fn a_key_is_a_permutation_of_the_primary_key() {
    let text = "table: users\nkey: [id, email]\nfields: { id: long }";
    assert_eq!(
        check(text, |_| {}),
        ["error[key] index users at key: `key` names other columns than the primary key of public.users; to mend it: \
          write `key: [id]` in the order you like, or leave it out"]
    );
    let both = |tables: &mut BTreeMap<QualifiedTable, TableInfo>| {
        let users = tables.get_mut(&of("users")).unwrap();
        users.primary_key = vec!["email".into(), "id".into()];
        users.old_values = None;
    };
    assert_eq!(check(text, both), Vec::<String>::new());
}

#[test]
fn a_table_of_another_schema_is_found_by_its_name() {
    let schema = IndexSchema::from_yaml("table: shop.users\nfields: { id: long }", "s.yaml").unwrap();
    let spec = SourceSpec::new([(IndexName::new("users"), schema)]);
    let catalog = Catalog { others: [of("users")].into(), ..Catalog::default() };
    assert_eq!(validate_indexes(&spec, &catalog)[0].remedy, "write `public.users`");
}
