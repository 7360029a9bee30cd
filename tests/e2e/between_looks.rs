//! What happens to a table between two looks at the catalog, or while nobody looks: only the log tells it, or nothing does.

use millstream_tests::{Cluster, Stage};

use crate::cases_h::leaves;
use crate::words::family;

/// Two parents, with the children of one.
async fn two_parents(test: &str) -> Stage {
    let mut stage = family(test).await;
    stage.run("insert into parents values (1, 'a'), (2, 'b'); insert into children select n, 1, 'c' from generate_series(1, 5) n").await;
    stage.start().await;
    stage.settled().await;
    stage
}

const NARROWED: &str = "alter table children replica identity default";
const WHOLE: &str = "alter table children replica identity full";

/// Moves a child, of which the log tells no old parent where the identity is narrow.
fn moved(child: i32) -> String {
    format!("update children set parent_id = 2 where id = {child}")
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_an_identity_that_is_narrowed_and_put_back_leaves_no_parent_stale() {
    let mut stage = two_parents("narrowed").await;
    stage.run(&format!("begin; {NARROWED}; {}; {WHOLE}; commit", moved(1))).await;
    stage.equal_in_the_end("a move in the transaction that narrows the identity").await;
    for statement in [NARROWED, &moved(2), WHOLE] {
        stage.run(statement).await;
    }
    stage.equal_in_the_end("a move in a transaction of its own").await;
    for statement in [NARROWED, &moved(3), &moved(4), WHOLE] {
        stage.run(statement).await;
    }
    stage.equal_in_the_end("two moves, one after the other").await;
    stage.run("update children set parent_id = 1").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_an_identity_that_is_narrowed_while_nobody_watches_leaves_no_parent_stale() {
    let mut stage = two_parents("narrowed_stopped").await;
    assert!(stage.stop().await);
    for statement in [NARROWED, &moved(1), WHOLE] {
        stage.run(statement).await;
    }
    stage.start().await;
    stage.equal_in_the_end("a move while stopped").await;
    // What we put right ourselves at the start told as little before.
    assert!(stage.stop().await);
    stage.run(NARROWED).await;
    stage.run(&moved(2)).await;
    stage.start().await;
    stage.equal_in_the_end("a move while stopped, mended by us").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c9_an_index_that_needs_more_of_a_table_leaves_the_others_alone() {
    let mut stage = Stage::new("needs_more").await;
    stage.run("create table parents (id int primary key, name text); create table children (id int primary key, parent_id int, name text); create index on children (parent_id)").await;
    stage.run("insert into parents values (1, 'a'), (2, 'b'); insert into children values (1, 1, 'c')").await;
    stage.index(
        "children",
        "{ table: children, fields: { id: integer, name: { type: text, nullable: true } } }",
        "select id, json_build_object('id', id, 'name', name) from children",
    );
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let before = stage.fold().clears("children");
    stage.run("update children set parent_id = 2, name = 'moved while the log told no parent'").await;
    stage.index("parents", crate::words::FAMILY_SCHEMA, crate::words::FAMILY_ORACLE);
    stage.start().await;
    stage.settled().await;
    assert_eq!(stage.fold().clears("children"), before, "an index that needed no more was filled again");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h2_a_partition_taken_away_and_attached_again_is_noticed() {
    let mut stage = leaves("reattached").await;
    stage.start().await;
    stage.settled().await;
    stage.run("alter table kids detach partition kids_1; update kids_1 set root_id = 1 + (root_id + 3) % 20; delete from kids_1 where id = 10; alter table kids attach partition kids_1 for values in (1)").await;
    stage.equal_in_the_end("a partition that was away for a moment").await;
    stage.run("update kids set root_id = 1 + (root_id + 3) % 20 where part = 1").await;
    stage.equal_in_the_end("moves in it").await;
    assert!(stage.stop().await);
    stage.run("alter table kids detach partition kids_2; update kids_2 set root_id = 1 + (root_id + 3) % 20; alter table kids attach partition kids_2 for values in (2)").await;
    stage.start().await;
    stage.equal_in_the_end("a partition that was away while nobody watched").await;
    stage.run("update kids set root_id = 1 + (root_id + 3) % 20 where part = 2").await;
    stage.equal_in_the_end("moves in that").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h2_a_branch_that_comes_with_rows_is_noticed() {
    let mut stage = leaves("branch").await;
    stage.start().await;
    stage.settled().await;
    stage.run("create table kids_5 (like kids including all) partition by range (id); create table kids_5a partition of kids_5 for values from (0) to (1000); insert into kids_5 values (500, 5, 6, 'in a branch')").await;
    stage.until_confirmed().await;
    stage.run("alter table kids attach partition kids_5 for values in (5)").await;
    stage.equal_in_the_end("a branch with rows").await;
    // Roots need no more than their key in the log: nothing but the rows themselves tells of this one.
    stage.run("create table roots_5 (like roots including all) partition by range (id); create table roots_5a partition of roots_5 for values from (0) to (1000); insert into roots_5 values (500, 5, 'in a branch'); alter table roots attach partition roots_5 for values in (5)").await;
    stage.equal_in_the_end("a branch of roots").await;
    stage.run("update kids set root_id = 7 where part = 5").await;
    stage.equal_in_the_end("a move in it").await;
    stage.run("create table kids_5b partition of kids_5 for values from (1000) to (2000); insert into kids values (1500, 5, 6, 'in a later leaf')").await;
    stage.run("update kids set root_id = 8 where id = 1500").await;
    stage.equal_in_the_end("a later leaf of the branch").await;
    stage.close().await;
}

/// Where we may change nothing, what is to be done is named.
#[tokio::test(flavor = "multi_thread")]
async fn case_h2_a_partition_that_the_decoder_does_not_know_is_named() {
    let mut stage = leaves("attached_by_hand").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("manage", "none").source("hold", "1s");
    stage.start().await;
    stage.run("create table kids_4 (like kids including all); alter table kids_4 replica identity full; insert into kids_4 values (200, 4, 6, 'attached')").await;
    stage.until_confirmed().await;
    stage.run("alter table kids attach partition kids_4 for values in (4)").await;
    if Cluster::shared().await.major() < 15 {
        stage.until_not_live("roots").await;
        let add = format!("ALTER PUBLICATION \"{}\" ADD TABLE \"public\".\"kids_4\"", stage.database().name());
        stage.host().until_log(&add.replace('"', "\\\"")).await;
        // A restart does not forget it.
        assert!(stage.stop().await);
        stage.spawn();
        stage.until_not_live("roots").await;
        stage.run("update kids set root_id = 7 where part = 4").await;
        stage.run(&add).await;
    }
    stage.equal_in_the_end("the partition").await;
    stage.run("update kids set root_id = 8 where part = 4").await;
    stage.equal_in_the_end("a move in it").await;
    stage.close().await;
}

/// Changes of columns that write no row: nothing of them is in the log, and what the documents show is another thing.
const REDEFINED: [(&str, &str); 3] = [
    (
        "a column that another takes the place of",
        "begin; alter table parents add title text; update parents set title = upper(name); alter table parents drop name; \
         alter table parents rename title to name; commit",
    ),
    (
        "a column made anew with a default",
        "begin; alter table parents drop name; alter table parents add name text default 'new'; commit",
    ),
    (
        "two columns that swap their names",
        "begin; alter table parents add other text default 'other'; commit; begin; alter table parents rename name to third; \
         alter table parents rename other to name; alter table parents rename third to other; commit",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn case_h7_c13_a_column_that_is_another_one_under_its_old_name_is_noticed() {
    let mut stage = two_parents("redefined").await;
    for (what, change) in &REDEFINED {
        stage.run(change).await;
        stage.equal_in_the_end(what).await;
    }
    assert!(stage.stop().await);
    for (what, change) in &REDEFINED[1..] {
        stage.run(change.replace("other", "another").as_str()).await;
        stage.start().await;
        stage.equal_in_the_end(what).await;
        assert!(stage.stop().await);
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h7_p18_a_type_that_shows_the_same_rows_otherwise_is_noticed() {
    let mut stage = Stage::new("shown_otherwise").await;
    stage.run("create table events (id int primary key, at timestamp not null, net cidr not null, note varchar(9)); insert into events values (1, '2024-01-01 12:00', '10.0.0.1/32', 'n')").await;
    stage.index(
        "events",
        "{ table: events, fields: { id: integer, at: timestamp, net: { type: custom, source: [inet, cidr], mapping: { type: ip } }, note: { type: text, nullable: true } } }",
        "select id, json_build_object('id', id, 'at', at, 'net', net, 'note', note) from events",
    );
    stage.start().await;
    stage.settled().await;
    let fillings = stage.fold().clears("events");
    stage.run("alter table events alter note type text; update events set note = 'm'").await;
    stage.settled().await;
    stage.run("set timezone = 'UTC'; alter table events alter at type timestamptz").await;
    stage.equal_in_the_end("timestamp to timestamptz").await;
    stage.run("alter table events alter net type inet").await;
    stage.equal_in_the_end("cidr to inet").await;
    assert_eq!(stage.fold().clears("events"), fillings + 2, "a longer text fills nothing");
    stage.close().await;
}

/// The link column has another name for a while, and rows are moved and removed meanwhile.
const UNLINKED: [&str; 3] = [
    "alter table children rename parent_id to their_parent",
    "update children set their_parent = 2 where id <= 2; delete from children where id = 5",
    "alter table children rename their_parent to parent_id",
];

#[tokio::test(flavor = "multi_thread")]
async fn case_c13_p5_a_link_column_renamed_for_a_while_leaves_no_parent_stale() {
    let mut stage = two_parents("unlinked").await;
    stage.run(&UNLINKED.join(";")).await;
    stage.equal_in_the_end("a link column renamed for a while").await;
    assert!(stage.stop().await);
    for statement in UNLINKED {
        stage.run(&statement.replace("= 2 where id <= 2", "= 1").replace("id = 5", "id = 4")).await;
    }
    stage.start().await;
    stage.equal_in_the_end("a link column renamed while stopped").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h7_two_tables_that_change_places_for_a_while_are_noticed() {
    let mut stage = two_parents("places").await;
    stage.run("create table others (like parents including all); insert into others select n, 'other' from generate_series(1, 9) n").await;
    let swap = |one: &str, other: &str| {
        format!(
            "begin; alter table {one} rename to a_third; alter table {other} rename to {one}; alter table a_third rename to {other}; commit"
        )
    };
    stage.run(&swap("parents", "others")).await;
    stage.run("update parents set name = 'theirs' where id < 5; update others set name = 'ours' where id = 2; insert into others values (8, 'new')").await;
    stage.run(&swap("parents", "others")).await;
    stage.equal_in_the_end("tables that changed places").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c15_a_label_that_is_renamed_is_noticed() {
    let mut stage = Stage::new("relabelled").await;
    stage.run("create type mood as enum ('sad', 'ok'); create table moods (mood mood primary key, notes mood[]); insert into moods values ('sad', '{ok}'), ('ok', '{}')").await;
    stage.index(
        "moods",
        "{ table: moods, fields: { mood: enum, notes: { type: enum, nullable: true, array: true } } }",
        "select mood, json_build_object('mood', mood, 'notes', notes) from moods",
    );
    stage.start().await;
    stage.settled().await;
    stage.run("alter type mood add value 'happy'").await;
    stage.run("insert into moods values ('happy', null)").await;
    stage.settled().await;
    let fillings = stage.fold().clears("moods");
    stage.run("alter type mood rename value 'sad' to 'blue'").await;
    stage.equal_in_the_end("a renamed label").await;
    assert_eq!(stage.fold().clears("moods"), fillings + 1, "a label that is added fills nothing");
    assert!(stage.stop().await);
    stage.run("alter type mood rename value 'ok' to 'fine'").await;
    stage.start().await;
    stage.equal_in_the_end("a label renamed while stopped").await;
    stage.close().await;
}
