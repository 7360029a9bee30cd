//! H: coverage, identity, partitions, spelling.

use std::time::Duration;

use millstream_tests::{Cluster, Stage};

use crate::words::{NOTES, NOTES_ORACLE, NOTES_SCHEMA, family, family_on};

/// An index is added over a table in which a transaction had already written when the new coverage came.
#[tokio::test(flavor = "multi_thread")]
async fn case_h1_a_transaction_older_than_the_coverage_is_not_lost() {
    // A server of its own: the open transaction would hold up every slot that is made meanwhile.
    let cluster = Cluster::builder().start().await;
    let mut stage = family_on(&cluster, "h1").await;
    stage.run(NOTES).await;
    stage.start().await;
    stage.settled().await;
    let mut open = stage.database().connect().await;
    open.run("begin; insert into notes values (1, 'before')").await;
    assert!(stage.stop().await);
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.spawn();
    // The old index is live meanwhile; the new one waits for the open transaction.
    stage.until_state("parents", "live").await;
    stage.run("insert into parents values (1, 'meanwhile')").await;
    stage.until_confirmed().await;
    stage.compare_index("parents").await;
    open.run("insert into notes values (2, 'after'); commit").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h1_a_transaction_older_than_the_slot_is_not_lost() {
    let cluster = Cluster::builder().start().await;
    let mut stage = family_on(&cluster, "h1_slot").await;
    let mut open = stage.database().connect().await;
    open.run("begin; insert into parents values (1, 'before')").await;
    stage.spawn();
    open.run("insert into parents values (2, 'after')").await;
    stage.host().until_log("transaction").await;
    open.run("insert into parents values (3, 'later'); commit").await;
    stage.settled().await;
    stage.close().await;
}

const LEAVES: &str = "
    create table roots (id int, part int, name text, primary key (id, part)) partition by list (part);
    create table roots_1 partition of roots for values in (1);
    create table roots_2 partition of roots for values in (2) partition by range (id);
    create table roots_2a partition of roots_2 for values from (0) to (1000);
    create table kids (id int, part int, root_id int, name text, primary key (id, part)) partition by list (part);
    create table kids_1 partition of kids for values in (1);
    create table kids_2 partition of kids for values in (2);
    create index on kids (root_id);
    insert into roots select n, 1 + n % 2, 'r' || n from generate_series(1, 20) n;
    insert into kids select n, 1 + n % 2, 1 + n % 20, 'k' || n from generate_series(1, 40) n;
";

/// Partitioned roots with partitioned kids, and their index.
pub(crate) async fn leaves(test: &str) -> Stage {
    let mut stage = Stage::new(test).await;
    stage.run(LEAVES).await;
    stage.index(
        "roots",
        "{ table: roots, fields: { id: integer, part: integer, name: text, kids: { collect: name, of: kids, type: text, join: { id: root_id } } } }",
        "select r.id || ':' || r.part, json_build_object('id', r.id, 'part', r.part, 'name', r.name, 'kids', coalesce((select json_agg(k.name order by k.id, k.part) from kids k where k.root_id = r.id), '[]'::json)) from roots r",
    );
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h2_partitions_come_and_go() {
    let mut stage = leaves("h2").await;
    stage.start().await;
    stage.settled().await;
    for change in [
        "update kids set root_id = 1 + root_id % 20",
        "delete from kids_1 where id < 10",
        "truncate kids_2",
        "update roots set part = 2 where id = 2",
        "delete from roots_1 where id = 4",
        "truncate roots_2a",
        "create table kids_3 partition of kids for values in (3); insert into kids values (100, 3, 4, 'in a later leaf')",
        "create table kids_4 (like kids including all); insert into kids_4 values (200, 4, 6, 'attached'); alter table kids attach partition kids_4 for values in (4)",
        "update kids set name = name || '!', root_id = 8 where part > 2",
        "create table roots_3 (like roots including all); insert into roots_3 values (300, 3, 'attached'); alter table roots attach partition roots_3 for values in (3)",
        "update roots set name = 'live' where id = 300",
        "alter table kids detach partition kids_4",
        "drop table kids_3",
        "alter table roots detach partition roots_1",
        "drop table roots_3",
    ] {
        stage.run(change).await;
        stage.equal_in_the_end(change).await;
    }
    stage.close().await;
}

/// Somebody breaks an index's coverage while running; the application's writes go on, the other index too.
async fn coverage_broken(test: &str, manage: &str, break_it: &str, mend: &str) {
    let mut stage = family(test).await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.config.source("hold", "1s");
    stage.run("insert into parents values (1, 'a'), (2, 'b'); insert into children values (1, 1, 'c'); insert into notes values (1, 'n')").await;
    // Everything is made by the first run; the second may change what `manage` says only.
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("manage", manage);
    stage.start().await;
    let name = stage.database().name().to_owned();
    stage.run(&break_it.replace("PUBLICATION", &name)).await;
    stage.run("update children set parent_id = 2, name = 'x'; update children set parent_id = 1; insert into children values (2, 2, 'y'); delete from children where id = 2").await;
    stage.until_not_live("parents").await;
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("children"), "the table is named");
    stage.run("insert into notes values (2, 'goes on')").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run("update children set parent_id = 2, name = 'while held'").await;
    stage.run(&mend.replace("PUBLICATION", &name)).await;
    stage.settled().await;
    stage.run("update children set parent_id = 1").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_an_identity_that_is_set_back_is_noticed() {
    coverage_broken(
        "h3_identity",
        "none",
        "alter table children replica identity default",
        "alter table children replica identity full",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_a_table_that_leaves_the_publication_is_noticed() {
    coverage_broken(
        "h3_publication",
        "none",
        "alter publication PUBLICATION drop table children",
        "alter publication PUBLICATION add table children",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h4_spellings_of_one_key_are_one_document() {
    let mut stage = Stage::new("h4").await;
    stage.run("create extension citext; create table amounts (id numeric primary key, note text); create table refs (id int primary key, amount numeric); create index on refs (amount); create table people (name citext primary key, note text); create table pets (id int primary key, owner citext); create index on pets (owner)").await;
    stage.index(
        "amounts",
        "{ table: amounts, fields: { id: decimal, note: { type: text, nullable: true }, refs: { collect: id, of: refs, type: integer, join: { id: amount } } } }",
        "select a.id, json_build_object('id', a.id, 'note', a.note, 'refs', coalesce((select json_agg(r.id order by r.id) from refs r where r.amount = a.id), '[]'::json)) from amounts a",
    );
    stage.index(
        "people",
        "{ table: people, fields: { name: keyword, note: { type: text, nullable: true }, pets: { collect: id, of: pets, type: integer, join: { name: owner } } } }",
        "select p.name, json_build_object('name', p.name, 'note', p.note, 'pets', coalesce((select json_agg(x.id order by x.id) from pets x where x.owner = p.name), '[]'::json)) from people p",
    );
    stage.run("insert into amounts values (1.0, 'a'), (2, 'b'); insert into refs values (1, 1.000); insert into people values ('bob', 'a'); insert into pets values (1, 'BOB')").await;
    stage.start().await;
    stage.settled().await;
    stage.run("insert into refs values (2, 1.0000), (3, 2.0); insert into pets values (2, 'Bob')").await;
    stage.settled().await;
    stage.run("update amounts set id = 1.00 where id = 1; update people set name = 'Bob'").await;
    stage.settled().await;
    assert!(stage.document("amounts", "1.0").is_none() && stage.document("people", "bob").is_none());
    stage.run("update refs set amount = 2.000 where id = 1; delete from pets where id = 1; update amounts set note = 'live'").await;
    stage.settled().await;
    stage.close().await;
}

/// An operator's own publication that tells less than all.
async fn publication_refused(test: &str, create: &str, named: &str) {
    let mut stage = family(test).await;
    let name = stage.database().name().to_owned();
    stage.config.source("manage", "[slot]");
    stage.run("alter table children replica identity full").await;
    stage.run(&create.replace("PUBLICATION", &name)).await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3), "a publication that must be mended is a permanent error");
    assert!(log.contains(named), "the log names {named:?}");
    assert!(log.to_lowercase().contains("alter publication"), "the statement is named");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h5_a_publication_without_deletes_is_refused() {
    publication_refused(
        "h5_delete",
        "create publication PUBLICATION for table parents, children with (publish = 'insert, update, truncate')",
        "delete",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h5_a_publication_without_truncates_is_refused() {
    publication_refused(
        "h5_truncate",
        "create publication PUBLICATION for table parents, children with (publish = 'insert, update, delete')",
        "truncate",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h5_a_publication_with_a_row_filter_is_refused() {
    if Cluster::shared().await.major() < 15 {
        return; // Row filters came with 15.
    }
    publication_refused(
        "h5_filter",
        "create publication PUBLICATION for table parents where (id > 5), children",
        "parents",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h7_a_rewritten_table_is_noticed_and_filled_again() {
    let mut stage = family("h7").await;
    stage
        .run("alter table parents add amount numeric(10, 2); insert into parents values (1, 'a', 1.25), (2, 'b', 2.75)")
        .await;
    stage.index(
        "parents",
        "{ table: parents, fields: { id: integer, amount: decimal } }",
        "select id, json_build_object('id', id, 'amount', amount) from parents",
    );
    stage.start().await;
    stage.settled().await;
    stage.run("alter table parents alter amount type numeric(10, 1)").await;
    stage.equal_in_the_end("the rewritten table").await;
    stage.close().await;
}

/// What can't be watched is refused by name, before anything is done to it.
async fn refused(test: &str, create: &str, table: &str, reason: &str) {
    let mut stage = Stage::new(test).await;
    stage.run(create).await;
    stage.index(
        "things",
        &format!("{{ table: {table}, key: [id], fields: {{ id: integer }} }}"),
        "select '1', '{}'::json where false",
    );
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(matches!(code, Some(2 | 3)), "exit code {code:?}");
    assert!(log.contains(table) && log.to_lowercase().contains(reason), "the log names {table} and says {reason:?}");
    assert!(!log.contains("panicked"));
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h9_a_view_is_refused() {
    refused("h9_view", "create view things_view as select 1 as id", "things_view", "view").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h9_an_unlogged_table_is_refused() {
    refused("h9_unlogged", "create unlogged table things_unlogged (id int primary key)", "things_unlogged", "unlogged")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h9_an_inheritance_parent_is_refused() {
    let create =
        "create table things_parent (id int primary key); create table things_child () inherits (things_parent)";
    refused("h9_inherits", create, "things_parent", "inherit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h9_a_foreign_table_is_refused() {
    let create = "create extension if not exists file_fdw; create server files foreign data wrapper file_fdw; \
                  create foreign table things_foreign (id int) server files options (filename '/dev/null')";
    refused("h9_foreign", create, "things_foreign", "foreign").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h10_a_referenced_row_whose_key_changes_is_lost_and_found() {
    let mut stage = Stage::new("h10").await;
    stage.run("create table users (id int primary key, company_id int); create table companies (id int primary key, name text); create index on users (company_id); insert into companies values (1, 'a'); insert into users values (1, 1), (2, 1), (3, 2)").await;
    stage.index(
        "users",
        "{ table: users, fields: { id: integer, company: { belongs_to: companies, join: { company_id: id }, fields: { id: integer, name: text } } } }",
        "select u.id, json_build_object('id', u.id, 'company', (select json_build_object('id', c.id, 'name', c.name) from companies c where c.id = u.company_id)) from users u",
    );
    stage.start().await;
    stage.settled().await;
    for change in [
        "update companies set id = 2",
        "update companies set id = 1",
        "update companies set id = 5, name = 'b'",
        "insert into companies values (1, 'new')",
        "delete from companies",
    ] {
        stage.run(change).await;
        stage.settled().await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h11_p18_a_lost_right_stops_its_index_only() {
    let mut stage = family("h11").await;
    let role = format!("reader_{}", stage.database().name());
    stage.run(NOTES).await;
    stage.run("alter table children replica identity full; insert into parents values (1, 'a'); insert into children values (1, 1, 'c'); insert into notes values (1, 'n')").await;
    stage.run(&format!("create role {role} login replication; grant select on all tables in schema public to {role}; create publication {} for table parents, children, notes", stage.database().name())).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}")).source("manage", "[slot]").source("hold", "1s");
    stage.start().await;
    stage.settled().await;
    stage.run(&format!("revoke select on children from {role}")).await;
    stage.run("insert into children values (2, 1, 'unseen'); insert into notes values (2, 'goes on')").await;
    stage.until_not_live("parents").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("children"), "the table is named");
    stage.kill();
    stage.run("insert into children values (3, 1, 'unseen, too'); insert into notes values (3, 'while stopped')").await;
    stage.spawn();
    stage.until_state("notes", "live").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run(&format!("grant select on children to {role}")).await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p18_a_right_that_comes_back_within_the_hold_costs_no_filling_even_over_a_restart() {
    let mut stage = family("p18_restart").await;
    let role = format!("reader_{}", stage.database().name());
    stage.run("alter table children replica identity full; insert into parents values (1, 'a'); insert into children values (1, 1, 'c')").await;
    stage.run(&format!("create role {role} login replication; grant select on all tables in schema public to {role}; create publication {} for table parents, children", stage.database().name())).await;
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}")).source("manage", "[slot]").engine("inspect_every", "100ms");
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.run(&format!("revoke select on children from {role}; insert into children values (2, 1, 'held')")).await;
    stage.spawn();
    stage.until_state("parents", "held").await;
    stage.run(&format!("grant select on children to {role}")).await;
    stage.until_state("parents", "live").await;
    stage.settled().await;
    assert_eq!(stage.log().matches("filling begins").count(), 1, "nothing is filled again:\n{}", stage.log());
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h12_p11_one_row_that_cannot_be_built_leaves_the_others() {
    let mut stage = Stage::new("h12").await;
    stage.run("create table rates (id int primary key, a int not null, b int not null); insert into rates select n, n, n from generate_series(1, 1000) n; update rates set b = 0 where id = 500").await;
    stage.index(
        "rates",
        "{ table: rates, fields: { id: integer, rate: { type: integer, sql: 'a / b' } } }",
        "select id, json_build_object('id', id, 'rate', a / b) from rates where b <> 0",
    );
    stage.start().await;
    stage.settled().await;
    let letters = stage.dead_letters();
    assert_eq!(letters.len(), 1, "{letters:?}");
    let said = |name: &str| letters[0].get(name).and_then(|value| value.as_text().map(str::to_owned));
    assert_eq!(
        (said("index"), said("id"), said("state")),
        (Some("rates".into()), Some("500".into()), Some("open".into()))
    );
    assert!(said("reason").is_some_and(|reason| reason.contains("division by zero")));
    // A document that stands is kept when its row can't be built any more.
    stage.run("update rates set b = 0 where id = 7").await;
    stage.until_confirmed().await;
    assert!(stage.document("rates", "7").is_some(), "the sink keeps what it had");
    stage.run("update rates set b = 1 where b = 0").await;
    stage.settled().await;
    let resolved = stage
        .dead_letters()
        .iter()
        .filter(|letter| letter.get("state").and_then(|state| state.as_text()) == Some("resolved"))
        .count();
    assert_eq!(resolved, 2);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h12_p11_an_index_may_stop_at_a_row_that_cannot_be_built() {
    let mut stage = Stage::new("h12_stop").await.with_patience(Duration::from_secs(60));
    stage.run(NOTES).await;
    stage.run("create table rates (id int primary key, a int not null, b int not null); insert into rates select n, n, n from generate_series(1, 10) n; insert into notes values (1, 'n')").await;
    stage.index(
        "rates",
        "{ table: rates, fields: { id: integer, rate: { type: integer, sql: 'a / b' } } }",
        "select id, json_build_object('id', id, 'rate', a / b) from rates where b <> 0",
    );
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.config.index_options("rates", ", on_error: stop").source("hold", "1s");
    stage.start().await;
    stage.settled().await;
    stage.run("update rates set b = 0 where id = 5; update notes set body = 'goes on'").await;
    stage.until_not_live("rates").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run("update rates set b = 1 where id = 5").await;
    stage.settled().await;
    stage.close().await;
}
