use super::*;
use crate::identity::{Identity, IdentityFacts};
use serde_json::json;
use std::collections::BTreeMap;

fn texts(names: &[&str]) -> Vec<Text> {
    names.iter().map(|name| Text::from(*name)).collect()
}

fn relation(name: &str) -> Relation {
    let table = QualifiedTable::new("public", name);
    Relation {
        table: table.clone(),
        relation: table,
        oid: 1,
        kind: 'r',
        persistence: 'p',
        is_parent: false,
        file: 1,
        columns: BTreeMap::new(),
        names: texts(&["id"]),
        labels: BTreeMap::new(),
        born_as_leaf: false,
        link: String::new(),
        identity: IdentityFacts {
            identity: Identity::Default,
            key: texts(&["id"]),
            not_null: texts(&["id"]),
            candidates: Vec::new(),
            broken_index: false,
        },
        published: true,
        listed: true,
        membership: Some(1),
        filter: None,
        published_columns: None,
        indexes: Vec::new(),
        owned: true,
        may_create: true,
    }
}

fn publication() -> Publication {
    Publication { oid: 1, version: "1".into(), all_tables: false, left_out: Vec::new(), via_root: false, owned: true }
}

fn facts(relations: Vec<Relation>) -> Facts {
    let server = json!({
        "version": 150_000, "wal_level": "logical", "slots_max": 10, "slots": 1, "has_slot": true, "may_replicate": true,
        "role": "al", "standby": false, "database": "shop", "may_create": true,
    });
    let server = serde_json::from_value(server).unwrap();
    Facts { server, publication: Some(publication()), relations }
}

/// Users with orders, whose link column is `user_id`.
fn needs() -> Needs {
    use millstream_core::schema::*;
    use millstream_core::{IndexSchema, SourceSpec};
    let users = QualifiedTable::new("public", "users");
    let relation = Relation {
        cardinality: Cardinality::HasMany,
        path: Path {
            table: QualifiedTable::new("public", "orders"),
            join: vec![JoinPair { left: "id".into(), right: "user_id".into() }],
            through: Vec::new(),
            to: Vec::new(),
            filter: None,
            distinct: false,
            ignore_moves: false,
        },
        when: None,
        order_by: Vec::new(),
        limit: None,
        key_by: None,
        inline: false,
        fields: Vec::new(),
    };
    let field = Field { name: "orders".into(), nullable: false, mapping: None, kind: FieldKind::Relation(relation) };
    let schema = IndexSchema { table: users, key: None, filter: None, delete_when: None, fields: vec![field] };
    Needs::of(&SourceSpec::new([("users".into(), schema)]))
}

fn orders() -> Relation {
    let mut orders = relation("orders");
    orders.names = texts(&["id", "user_id"]);
    orders.identity.identity = Identity::Full;
    orders
}

fn found(facts: &Facts, manage: Manage) -> Vec<Finding> {
    findings(facts, &needs(), "mill", manage)
}

#[test]
fn all_in_place_finds_nothing() {
    assert_eq!(found(&facts(vec![relation("users"), orders()]), Manage::default()), []);
}

#[test]
fn case_c2_an_identity_that_hides_moves_is_named_with_its_statement() {
    let mut plain = orders();
    plain.identity.identity = Identity::Default;
    let facts = facts(vec![relation("users"), plain]);
    let found = found(&facts, Manage::default());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].statements(), r#"ALTER TABLE "public"."orders" REPLICA IDENTITY FULL;"#);
    assert!(!found[0].remedies[0].manageable);
    assert!(findings(&facts, &needs(), "mill", Manage::ALL)[0].remedies[0].manageable);
}

#[test]
fn p14_a_table_without_usable_identity_is_not_put_into_the_publication() {
    let mut bare = orders();
    bare.identity.identity = Identity::Nothing;
    bare.published = false;
    let mut facts = facts(vec![relation("users"), bare]);
    let add = |found: &[Finding]| {
        let remedies = found.iter().flat_map(|finding| finding.remedies.clone());
        remedies.filter(|remedy| remedy.statement.contains("PUBLICATION")).collect::<Vec<_>>()
    };
    // Until then what is wrong with its identity is all that is said.
    assert_eq!(add(&found(&facts, Manage::default())), []);
    // With the identity set first it may.
    let all = found(&facts, Manage::ALL);
    assert!(add(&all)[0].manageable);
    assert!(all[0].statements().contains("REPLICA IDENTITY"), "{all:?}");
    // A publication made anew takes only what is safe.
    facts.publication = None;
    let made = add(&found(&facts, Manage::default()));
    assert_eq!(
        made[0].statement,
        r#"CREATE PUBLICATION "mill" FOR TABLE "public"."users" WITH (publish = 'insert, update, delete, truncate')"#
    );
    assert!(made[0].manageable && made.len() == 1);
    // A script sets the identity first.
    let script = found(&facts, Manage::NONE);
    assert!(script[0].statements().contains("REPLICA IDENTITY"), "{script:?}");
    assert!(script[1].statements().contains(r#"FOR TABLE "public"."orders", "public"."users" WITH"#), "{script:?}");
}

#[test]
fn nothing_is_published_where_no_table_is_there() {
    let mut facts = facts(Vec::new());
    facts.publication = None;
    let found = found(&facts, Manage::ALL);
    assert!(found.iter().all(|finding| finding.code == "missing-table"), "{found:?}");
    assert_eq!(found.len(), 2);
}

#[test]
fn what_the_role_may_not_do_is_not_ours_to_mend_and_names_the_right() {
    let with = |change: fn(&mut Facts)| {
        let mut orders = orders();
        orders.identity.identity = Identity::Default;
        let mut facts = facts(vec![relation("users"), orders]);
        change(&mut facts);
        let found = found(&facts, Manage::ALL);
        let lacking = found.iter().filter(|finding| finding.lacks_right).collect::<Vec<_>>();
        assert!(lacking.iter().all(|finding| finding.is_in_the_way() || finding.advice), "{lacking:?}");
        lacking.iter().map(|finding| (finding.code, finding.hint.clone())).collect::<Vec<_>>()
    };
    assert_eq!(with(|_| ()), []);
    let publication = with(|facts| {
        facts.publication = None;
        facts.server.may_create = false;
    });
    assert_eq!(publication[0].0, "publication");
    assert!(publication[0].1.contains(r#"GRANT CREATE ON DATABASE "shop" TO "al""#), "{publication:?}");
    let table = with(|facts| facts.relations[1].owned = false);
    assert_eq!((table[0].0, table[1].0), ("identity", "unindexed-link"));
    assert!(table[0].1.contains("public.orders is another role's; run it as its owner"), "{table:?}");
    let schema = with(|facts| facts.relations[1].may_create = false);
    assert!(schema[0].1.contains(r#"GRANT CREATE ON SCHEMA "public" TO "al""#), "{schema:?}");
    let add = with(|facts| {
        facts.relations[0].published = false;
        facts.publication.as_mut().unwrap().owned = false;
    });
    assert!(add[0].1.contains("the publication is another role's"), "{add:?}");
}

#[test]
fn a_setting_that_waits_for_a_restart_only_wants_that() {
    let with = |level: &str, pending: serde_json::Value| {
        let mut facts = facts(vec![relation("users"), orders()]);
        facts.server.wal_level = level.to_owned();
        facts.server.pending = serde_json::from_value(pending).unwrap();
        found(&facts, Manage::default()).remove(0)
    };
    let plain = with("replica", json!({}));
    assert_eq!(plain.mend(), "ALTER SYSTEM SET wal_level = 'logical'; (then restart the server)");
    for pending in [json!({ "wal_level": "logical" }), json!({ "wal_level": "" })] {
        let waiting = with("replica", pending);
        assert!(waiting.reason.ends_with("is set already, but takes effect only with a restart"), "{waiting:?}");
        assert_eq!(waiting.mend(), "restart the server");
    }
    // Another wrong value is no mend.
    assert!(with("replica", json!({ "wal_level": "minimal" })).mend().contains("ALTER SYSTEM"));
}

#[test]
fn columns_that_are_not_there_ask_nothing_of_the_log() {
    let mut plain = orders();
    plain.names = texts(&["id"]);
    plain.identity.identity = Identity::Default;
    let facts = facts(vec![relation("users"), plain]);
    assert_ne!(found(&facts, Manage::ALL), []);
    assert_eq!(findings(&facts, &needs().known_to(&facts), "mill", Manage::ALL), []);
}

#[test]
fn case_h5_filters_and_left_out_operations_are_refused_with_the_mend() {
    let mut filtered = orders();
    filtered.filter = Some("(id > 3)".into());
    let mut facts = facts(vec![relation("users"), filtered]);
    facts.publication = Some(Publication { left_out: vec!["delete".into(), "truncate".into()], ..publication() });
    let found = found(&facts, Manage::ALL);
    let blocking: Vec<&Finding> = found.iter().filter(|finding| !finding.advice).collect();
    assert_eq!(blocking.len(), 2);
    assert!(blocking[0].reason.contains("delete and truncate"));
    assert!(blocking[0].statements().contains("SET (publish = 'insert, update, delete, truncate')"));
    assert!(blocking[1].reason.contains("(id > 3)"));
    assert!(blocking.iter().flat_map(|finding| &finding.remedies).all(|remedy| !remedy.manageable));
}

#[test]
fn a_column_list_must_hold_key_and_links() {
    let mut listed = orders();
    listed.published_columns = Some(texts(&["id"]));
    let found = found(&facts(vec![relation("users"), listed.clone()]), Manage::default());
    assert!(found[0].reason.contains("leaves out user_id"), "{found:?}");
    listed.published_columns = Some(texts(&["user_id", "id"]));
    listed.identity.identity = Identity::Index(Some(texts(&["user_id", "id"])));
    let found = super::findings(&facts(vec![relation("users"), listed.clone()]), &needs(), "mill", Manage::default());
    assert!(
        found.len() == 1 && found[0].advice && found[0].reason.contains("user_id, id"),
        "its price is told: {found:?}"
    );
    listed.identity.identity = Identity::Full;
    let found = super::findings(&facts(vec![relation("users"), listed]), &needs(), "mill", Manage::default());
    assert!(found[0].reason.contains("refuses the application's updates") && !found[0].advice, "{found:?}");
    assert!(found[0].statements().contains("DROP TABLE") && found[0].hint.contains("identity back"), "{found:?}");
}

#[test]
fn p14_column_lists_are_made_only_where_asked_for_and_possible() {
    let lists = Manage::ALL.with_column_lists(true);
    let mut table = orders();
    table.published = false;
    table.names = texts(&["id", "total", "user_id"]);
    table.identity.not_null = texts(&["id", "user_id"]);
    let statement = |table: &Relation, manage: Manage, version: u32| {
        let mut facts = facts(vec![relation("users"), table.clone()]);
        facts.server.version = version;
        let found = super::findings(&facts, &needs(), "mill", manage);
        let remedies = found.iter().flat_map(|finding| &finding.remedies);
        remedies.map(|remedy| remedy.statement.clone()).find(|statement| statement.contains("ADD TABLE")).unwrap()
    };
    let whole = statement(&table, Manage::ALL, 150_000);
    assert!(!whole.contains('('), "not unless asked for: {whole}");
    // By the identity that is there, or the one that is made first.
    table.identity.identity = Identity::Default;
    assert!(statement(&table, lists, 150_000).ends_with("(\"id\", \"user_id\")"));
    assert!(!statement(&table, lists, 140_000).contains('('), "servers before 15 have none");
    table.identity.identity = Identity::Full;
    assert!(!statement(&table, lists, 150_000).contains('('), "whole old rows want whole new ones");
    table.identity.identity = Identity::Default;
    table.identity.not_null = texts(&["id"]);
    assert!(!statement(&table, lists, 150_000).contains('('), "its identity will be whole rows");
}

#[test]
fn case_h9_views_foreign_unlogged_tables_and_parents_are_refused_with_the_reason() {
    let with = |change: fn(&mut Relation)| {
        let mut table = orders();
        change(&mut table);
        let found = found(&facts(vec![relation("users"), table]), Manage::ALL);
        assert!(found[0].remedies.is_empty());
        found[0].reason.clone()
    };
    assert!(with(|table| table.kind = 'v').contains("a view"));
    assert!(with(|table| table.kind = 'f').contains("a foreign table"));
    assert!(with(|table| table.persistence = 'u').contains("an unlogged table"));
    assert!(with(|table| table.is_parent = true).contains("an inheritance parent"));
}

#[test]
fn case_b15_a_table_without_primary_key_is_refused_and_not_published() {
    let mut bare = orders();
    bare.identity.key.clear();
    bare.published = false;
    let found = found(&facts(vec![relation("users"), bare]), Manage::ALL);
    assert!(found.iter().any(|finding| finding.reason.contains("no primary key")));
    assert!(!found.iter().any(|finding| finding.statements().contains("ADD TABLE")));
}

#[test]
fn case_h2_every_leaf_has_its_own_identity_and_the_root_is_published() {
    let mut root = orders();
    root.kind = 'p';
    let mut leaf = orders();
    leaf.relation = QualifiedTable::new("parts", "orders_1");
    leaf.identity.identity = Identity::Default;
    leaf.published = false;
    let found = found(&facts(vec![relation("users"), root, leaf]), Manage::ALL);
    assert!(found[0].statements().contains(r#"ALTER TABLE "parts"."orders_1" REPLICA IDENTITY FULL"#));
    assert_eq!(found[1].statements(), r#"ALTER PUBLICATION "mill" ADD TABLE "public"."orders";"#);
}

#[test]
fn missing_indexes_are_advice_and_only_where_they_may_be_made() {
    let facts = facts(vec![relation("users"), orders()]);
    assert_eq!(found(&facts, Manage::default()), []);
    let found = found(&facts, Manage::ALL);
    assert!(found[0].advice);
    assert_eq!(
        found[0].statements(),
        r#"CREATE INDEX CONCURRENTLY IF NOT EXISTS "orders_user_id_idx" ON "public"."orders" ("user_id");"#
    );
}

#[test]
fn case_h2_a_leaf_that_an_old_decoder_does_not_know_is_listed_by_itself() {
    let mut root = orders();
    root.kind = 'p';
    let mut leaf = orders();
    (leaf.relation, leaf.oid, leaf.listed) = (QualifiedTable::new("parts", "orders_1"), 7, false);
    let mut facts = facts(vec![relation("users"), root, leaf]);
    assert_eq!(found(&facts, Manage::default()), []);
    let listed = needs().with_listed([7].into());
    let named = super::findings(&facts, &listed, "mill", Manage::default());
    assert_eq!(named.len(), 1, "{named:?}");
    assert_eq!(named[0].statements(), r#"ALTER PUBLICATION "mill" ADD TABLE "parts"."orders_1";"#);
    assert!(named[0].remedies[0].manageable && named[0].table == Some(QualifiedTable::new("public", "orders")));
    assert!(!super::findings(&facts, &listed, "mill", Manage::NONE)[0].remedies[0].manageable);
    facts.publication = Some(Publication { all_tables: true, ..publication() });
    assert_eq!(super::findings(&facts, &listed, "mill", Manage::default()), []);
}
