//! C: documents follow their rows. Children that move, keys that change, tables that are emptied.

use crate::words::{FAMILY_ORACLE, FAMILY_SCHEMA, family};
use millstream_tests::Stage;

/// A long value that is stored out of line, in a column that no update names.
async fn toast(test: &str, identity: &str) {
    let mut stage = Stage::new(test).await;
    stage
        .run("create table pages (id int primary key, hits int not null, body text); alter table pages alter body set storage external")
        .await;
    stage.run(identity).await;
    stage.index(
        "pages",
        "{ table: pages, fields: { id: integer, hits: integer, body: text } }",
        "select id, json_build_object('id', id, 'hits', hits, 'body', body) from pages",
    );
    stage.run("insert into pages select n, 0, repeat(md5(n::text), 625) from generate_series(1, 3) n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("update pages set hits = 1 where id = 1").await;
    stage.run("begin; insert into pages values (4, 0, repeat(md5('4'), 625)); update pages set hits = 2 where id = 4; commit").await;
    stage.settled().await;
    stage.run("update pages set id = 5 where id = 2").await;
    stage.settled().await;
    let body = stage.document("pages", "4").and_then(|page| page.get("body")?.as_text().map(str::len));
    assert_eq!(body, Some(20_000));
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c1_a_long_value_is_intact_under_the_default_identity() {
    toast("c1_default", "select 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c1_a_long_value_is_intact_under_full_identity() {
    toast("c1_full", "alter table pages replica identity full").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c1_a_long_value_is_intact_under_an_identity_by_index() {
    let identity = "create unique index pages_identity on pages (id, hits); \
                    alter table pages replica identity using index pages_identity";
    toast("c1_index", identity).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c2_p5_a_moved_child_refreshes_both_parents() {
    let mut stage = family("c2").await;
    stage
        .run("insert into parents values (1, 'a'), (2, 'b'); insert into children values (10, 1, 'x'), (11, 1, 'y')")
        .await;
    stage.start().await;
    stage.settled().await;
    stage.run("update children set parent_id = 2 where id = 10").await;
    stage.settled().await;
    stage.run("update children set parent_id = null where id = 11").await;
    stage.settled().await;
    stage.run("update children set parent_id = 1, id = 12 where id = 11").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c2_p5_an_identity_that_cannot_tell_is_refused_with_the_statement() {
    let mut stage = family("c2_refused").await;
    stage.config.source("manage", "[publication, slot]");
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3), "a set-up that must be mended is a permanent error");
    assert!(log.contains("REPLICA IDENTITY FULL"), "the statement is named");
    assert!(log.contains("children"), "the table is named");
    // What it printed is what mends it.
    stage.run("alter table children replica identity full; insert into parents values (1), (2); insert into children values (1, 1)").await;
    stage.start().await;
    stage.run("update children set parent_id = 2").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c2_p5_a_join_may_opt_out_of_moves() {
    let mut stage = family("c2_opt_out").await;
    stage.config.source("manage", "[publication, slot]");
    let schema = FAMILY_SCHEMA.replace("join: { id: parent_id }", "join: { id: parent_id }\n    on_move: ignore");
    stage.index("parents", &schema, FAMILY_ORACLE);
    stage.run("insert into parents values (1), (2); insert into children values (1, 1, 'x')").await;
    stage.start().await;
    stage.run("update children set name = 'y'").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c3_deleted_children_leave_their_parents() {
    let mut stage = family("c3").await;
    stage.run("insert into parents select n, 'p' || n from generate_series(1, 5) n; insert into children select n, 1 + n % 5, 'c' || n from generate_series(1, 50) n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("delete from children where id = 7").await;
    stage.settled().await;
    stage.run("delete from parents where id = 3").await;
    stage.settled().await;
    assert!(stage.document("parents", "3").is_none());
    stage.run("insert into children values (100, 1, 'brief'); delete from children where id = 100").await;
    stage
        .run("begin; insert into children values (101, 1, 'brief'); delete from children where id = 101; commit")
        .await;
    stage.run("insert into parents values (50, 'brief')").await;
    stage.run("delete from parents where id = 50").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c4_p6_a_changed_key_moves_the_document() {
    let mut stage = family("c4").await;
    stage.run("insert into parents values (1, 'a'), (2, 'b'), (3, 'c'); insert into children values (10, 1, 'x'), (20, 2, 'y')").await;
    stage.start().await;
    stage.settled().await;
    stage.run("update parents set id = 9 where id = 1").await;
    stage.settled().await;
    assert!(stage.document("parents", "1").is_none(), "the old document is gone");
    stage.run("begin; update parents set id = -2 where id = 2; update parents set id = 2 where id = 3; update parents set id = 3 where id = -2; commit").await;
    stage.settled().await;
    assert!(stage.document("parents", "-2").is_none(), "a key on the way leaves nothing");
    stage.run("update children set id = id + 1").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c5_every_parent_of_a_large_transaction_is_rebuilt() {
    let mut stage = family("c5").await;
    stage.run("insert into parents select n from generate_series(1, 20) n; insert into children select n, n, 'old' from generate_series(1, 20) n").await;
    stage.start().await;
    stage.run("update children set name = 'live'").await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.run("update children set name = 'stopped', parent_id = 1 + parent_id % 20").await;
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c5_twenty_thousand_small_transactions_arrive() {
    let mut stage = family("c5_many").await;
    stage.run("insert into parents select n from generate_series(1, 200) n").await;
    stage.start().await;
    stage.run("do $$ begin for n in 1..20000 loop insert into children values (n, 1 + n % 200, 'c'); commit; end loop; end $$").await;
    stage.settled().await;
    stage.close().await;
}

const GROUPS: &str = "
    create table users (id int primary key, name text);
    create table tags (id int primary key, name text not null);
    create table user_tags (user_id int, tag_id int, primary key (user_id, tag_id));
    create index on user_tags (tag_id);
    insert into users select n, 'u' || n from generate_series(1, 4) n;
    insert into tags select n, 't' || n from generate_series(1, 4) n;
    insert into user_tags values (1, 1), (1, 2), (2, 2), (3, 3)
";

#[tokio::test(flavor = "multi_thread")]
async fn case_c6_exactly_the_documents_behind_a_link_table_change() {
    let mut stage = Stage::new("c6").await;
    stage.run(GROUPS).await;
    stage.index(
        "users",
        "{ table: users, fields: { id: integer, name: text, tags: { has_many: tags, through: { table: user_tags, join: { id: user_id }, to: { tag_id: id } }, fields: { id: integer, name: text } } } }",
        "select u.id, json_build_object('id', u.id, 'name', u.name, 'tags', coalesce((
           select json_agg(json_build_object('id', t.id, 'name', t.name) order by t.id)
           from user_tags l join tags t on t.id = l.tag_id where l.user_id = u.id), '[]'::json)) from users u",
    );
    stage.start().await;
    stage.settled().await;
    for (change, documents) in [
        ("insert into user_tags values (4, 1)", 1),
        ("delete from user_tags where user_id = 1 and tag_id = 1", 1),
        ("update user_tags set user_id = 4 where user_id = 3", 2),
        ("update user_tags set tag_id = 4 where user_id = 2", 1),
        ("update tags set name = 'renamed' where id = 2", 1),
        ("update tags set id = 7 where id = 2", 1),
        ("update tags set id = 2 where id = 7", 1),
        ("delete from tags where id = 1", 1),
        ("update tags set name = 'nobody has it' where id = 3 and exists (select from user_tags where tag_id = 99)", 0),
    ] {
        let before = stage.fold().lines();
        stage.run(change).await;
        stage.settled().await;
        assert_eq!(stage.fold().lines() - before, documents, "documents written after: {change}");
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c7_p7_a_truncated_related_table_empties_the_documents() {
    let mut stage = family("c7_related").await;
    stage.run("insert into parents select n from generate_series(1, 500) n; insert into children select n, n, 'c' from generate_series(1, 500) n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("truncate children").await;
    stage.settled().await;
    stage.run("begin; insert into children values (1, 1, 'lost'); truncate children; insert into children values (2, 2, 'kept'); commit").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c7_p7_a_truncated_root_is_cleared_and_goes_on() {
    let mut stage = family("c7_root").await;
    stage.run("insert into parents select n from generate_series(1, 500) n; insert into children select n, n, 'c' from generate_series(1, 500) n").await;
    stage.start().await;
    stage.settled().await;
    stage.run("truncate parents cascade").await;
    stage.settled().await;
    assert!(stage.fold().documents("parents").is_empty());
    stage.run("insert into parents values (1, 'a'), (2, 'b')").await;
    stage.settled().await;
    stage.run("begin; insert into parents values (3, 'lost'); truncate parents cascade; insert into parents values (4, 'kept'); insert into children values (4, 4, 'kept'); commit").await;
    stage.settled().await;
    stage.kill();
    stage.run("truncate parents cascade; insert into parents values (5, 'while stopped')").await;
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}
