//! What happens to tables while no engine watches must be noticed by the next.

use crate::words::family;
use millstream_tests::Stage;

/// Runs a change while the host is stopped, and expects the same documents as plain SQL gives once it is back.
async fn changed_while_stopped(stage: &mut Stage, change: &str) {
    assert!(stage.stop().await);
    stage.run(change).await;
    stage.start().await;
    stage.equal_in_the_end(change).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h7_a_table_rewritten_while_stopped_is_filled_again() {
    let mut stage = family("h7_stopped").await;
    stage.run("insert into parents values (1, 'a'), (2, 'b'); insert into children values (1, 1, 'c')").await;
    stage.start().await;
    stage.settled().await;
    changed_while_stopped(&mut stage, "alter table children alter name type varchar(40) using upper(name)").await;
    let lines = stage.fold().lines();
    // A vacuumed one is not.
    changed_while_stopped(&mut stage, "vacuum full children").await;
    assert_eq!(stage.fold().lines(), lines, "a table that was only vacuumed is not filled again");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h2_partitions_that_come_and_go_while_stopped() {
    let mut stage = Stage::new("h2_stopped").await;
    stage
        .run(
            "create table roots (id int, part int, name text, primary key (id, part)) partition by list (part);
             create table roots_1 partition of roots for values in (1);
             create table roots_2 partition of roots for values in (2);
             insert into roots select n, 1 + n % 2, 'r' from generate_series(1, 20) n",
        )
        .await;
    stage.index(
        "roots",
        "{ table: roots, fields: { id: integer, part: integer, name: { type: text, nullable: true } } }",
        "select id || ':' || part, json_build_object('id', id, 'part', part, 'name', name) from roots",
    );
    stage.start().await;
    stage.settled().await;
    for change in [
        "alter table roots detach partition roots_2",
        "create table roots_3 (like roots including all); insert into roots_3 values (300, 3, 'attached');
         alter table roots attach partition roots_3 for values in (3)",
        "drop table roots_3",
        "truncate roots_1",
    ] {
        changed_while_stopped(&mut stage, change).await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_a_table_taken_out_of_the_publication_while_stopped_stops_only_its_index() {
    let mut stage = family("h3_stopped").await;
    stage.run("create table notes (id int primary key, body text)").await;
    stage.index(
        "notes",
        "{ table: notes, fields: { id: integer, body: { type: text, nullable: true } } }",
        "select id, json_build_object('id', id, 'body', body) from notes",
    );
    stage.run("insert into parents values (1, 'a'); insert into children values (1, 1, 'c')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("manage", "[slot]");
    let publication = stage.database().name().to_owned();
    stage
        .run(&format!("alter publication {publication} drop table children; update children set name = 'missed'"))
        .await;
    stage.spawn();
    stage.until_not_live("parents").await;
    stage.run("insert into notes values (1, 'goes on')").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run(&format!("alter publication {publication} add table children")).await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_an_index_waits_until_all_its_tables_are_told_again() {
    let mut stage = Stage::new("h3_two").await;
    stage
        .run(
            "create table parents (id int primary key, name text);
             create table sons (id int primary key, parent_id int, name text); create index on sons (parent_id);
             create table daughters (id int primary key, parent_id int, name text); create index on daughters (parent_id);
             insert into parents values (1, 'a'); insert into sons values (1, 1, 's'); insert into daughters values (1, 1, 'd')",
        )
        .await;
    stage.index(
        "parents",
        "{ table: parents, fields: { id: integer,
           sons: { collect: name, of: sons, type: text, join: { id: parent_id } },
           daughters: { collect: name, of: daughters, type: text, join: { id: parent_id } } } }",
        "select p.id, json_build_object('id', p.id,
           'sons', coalesce((select json_agg(name order by id) from sons where parent_id = p.id), '[]'::json),
           'daughters', coalesce((select json_agg(name order by id) from daughters where parent_id = p.id), '[]'::json))
         from parents p",
    );
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("manage", "[slot]");
    let publication = stage.database().name().to_owned();
    stage.spawn();
    stage.until_state("parents", "live").await;
    stage.run(&format!("alter publication {publication} drop table sons, daughters")).await;
    stage.until_not_live("parents").await;
    stage.run("update sons set name = 'missed'; update daughters set name = 'missed'").await;
    stage.run(&format!("alter publication {publication} add table sons")).await;
    // Whoever is mended first must not open the index: a change of the other would be missed for good.
    stage.until_confirmed().await;
    stage.run("update daughters set name = 'missed again'").await;
    stage.until_not_live("parents").await;
    stage.run(&format!("alter publication {publication} add table daughters")).await;
    stage.settled().await;
    stage.run("update daughters set name = 'told'").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p16_a_publication_made_anew_is_answered_by_policy() {
    let mut stage = family("publication_anew").await;
    stage.run("insert into parents values (1, 'a'); insert into children values (1, 1, 'c')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let publication = stage.database().name().to_owned();
    stage.run(&format!("drop publication {publication}; update children set name = 'missed'")).await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3));
    assert!(log.contains("publication") && log.contains("on_gap: backfill"), "it says what mends it:\n{log}");
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    stage.settled().await;
    // And while it runs.
    stage.run(&format!("drop publication {publication}; update children set name = 'missed again'")).await;
    stage.equal_in_the_end("a publication dropped while running").await;
    stage.run("update children set name = 'live'").await;
    stage.settled().await;
    stage.close().await;
}
