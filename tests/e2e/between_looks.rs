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
