//! C: what changes about the configuration, the schema of the tables and the rows' standing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_tests::{Random, Stage};

use crate::words::{FAMILY_ORACLE, FAMILY_SCHEMA, NOTES, NOTES_ORACLE, NOTES_SCHEMA, family};

#[tokio::test(flavor = "multi_thread")]
async fn case_c9_a_new_index_is_filled_and_the_others_are_left_alone() {
    let mut stage = family("c9_index").await;
    stage.run(NOTES).await;
    stage.run("insert into parents select n, 'p' from generate_series(1, 100) n; insert into notes select n, 'n' from generate_series(1, 100) n").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let parents = lines(&stage, "parents");
    stage.run("insert into notes values (101, 'while stopped')").await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.start().await;
    stage.settled().await;
    assert_eq!(lines(&stage, "parents"), parents, "an index that was not changed is not written");
    stage.run("update notes set body = 'live' where id = 3; update parents set name = 'live' where id = 3").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c9_a_join_to_a_new_table_fills_that_index_again() {
    let mut stage = family("c9_join").await;
    stage.run(NOTES).await;
    stage.run("create table toys (id int primary key, child_id int, name text); create index on toys (child_id)").await;
    stage.run("insert into parents values (1, 'a'); insert into children values (1, 1, 'c'); insert into toys values (1, 1, 'bear'); insert into notes values (1, 'n')").await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let notes = lines(&stage, "notes");
    let schema = format!(
        "{FAMILY_SCHEMA}  toys: {{ collect: name, of: toys, type: text, through: {{ table: children, join: {{ id: parent_id }}, to: {{ id: child_id }} }} }}\n"
    );
    let oracle = FAMILY_ORACLE.replace(
        "'[]'::json))",
        "'[]'::json), 'toys', coalesce((select json_agg(t.name order by t.id) from children c join toys t on t.child_id = c.id where c.parent_id = p.id), '[]'::json))",
    );
    stage.index("parents", &schema, &oracle);
    stage.start().await;
    stage.settled().await;
    assert_eq!(lines(&stage, "notes"), notes, "an index that was not changed is not written");
    stage.run("insert into toys values (2, 1, 'ball'); update toys set name = 'car' where id = 1").await;
    stage.settled().await;
    stage.close().await;
}

/// How many lines of the file are about one index.
fn lines(stage: &Stage, index: &str) -> usize {
    let path = millstream_tests::documents_path(stage.folder().path());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"index\":{index:?}"))).count()
}

/// The filling and random changes at full speed meet in the same lanes.
#[tokio::test(flavor = "multi_thread")]
async fn case_c10_changes_during_the_filling_resurrect_nothing() {
    let rows: u64 = std::env::var("MILLSTREAM_C10_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(200_000);
    let mut stage = family("c10").await.with_patience(Duration::from_secs(400));
    stage.run(&format!("insert into parents select n, 'p' || n from generate_series(1, {rows}) n; insert into children select n, n, 'c' || n from generate_series(1, {rows}, 4) n; analyze")).await;
    let over = Arc::new(AtomicBool::new(false));
    let mut writers = Vec::new();
    for seed in 0..2 {
        let (database, over) = (stage.database().clone(), over.clone());
        writers.push(tokio::spawn(async move {
            let (mut sql, mut random) = (database.connect().await, Random::new(seed));
            let mut done = 0;
            while !over.load(Ordering::Relaxed) {
                let (one, other) = (1 + random.below(rows), 1 + random.below(rows));
                let change = match random.below(6) {
                    0 => format!("delete from parents where id = {one}"),
                    1 => format!("update parents set id = {rows} + {one} where id = {one}"),
                    2 => format!("update children set parent_id = (select id from parents where id = {other}) where parent_id = {one}"),
                    3 => format!("delete from children where parent_id between {one} and {one} + 20"),
                    4 => format!("insert into parents values ({one}, 'again') on conflict do nothing"),
                    _ => format!("update parents set name = 'changed' where id between {one} and {one} + 20"),
                };
                // Two writers may run into each other's locks: that is theirs to lose.
                if sql.try_run(&change).await.is_ok() {
                    done += 1;
                }
            }
            done
        }));
    }
    stage.spawn();
    stage.until_live().await;
    over.store(true, Ordering::Relaxed);
    let mut done = 0;
    for writer in writers {
        done += writer.await.expect("a writer does not panic");
    }
    assert!(done > 100, "the filling was over before {done} changes were made");
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c12_soft_deletes_and_the_root_filter_remove_and_restore() {
    let mut stage = Stage::new("c12").await;
    stage.run("create table users (id int primary key, archived boolean not null, deleted_at timestamptz, name text); insert into users values (1, false, null, 'a'), (2, true, null, 'b'), (3, false, now(), 'c')").await;
    stage.index(
        "users",
        "{ table: users, where: 'not archived -- ever', delete_when: 'deleted_at is not null', fields: { id: integer, name: text } }",
        "select id, json_build_object('id', id, 'name', name) from users where not archived and deleted_at is null",
    );
    stage.start().await;
    stage.settled().await;
    for change in [
        "update users set deleted_at = now() where id = 1",
        "update users set deleted_at = null",
        "update users set archived = not archived",
        "update users set archived = not archived, name = 'both'",
        "update users set id = id + 10, archived = true where id = 1",
        "update users set archived = false",
    ] {
        stage.run(change).await;
        stage.settled().await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c13_what_no_document_uses_may_change() {
    let mut stage = family("c13_unused").await;
    stage.run("alter table parents add unused text, add other int; insert into parents values (1, 'a')").await;
    stage.start().await;
    stage.settled().await;
    for change in [
        "alter table parents rename unused to renamed",
        "alter table parents drop renamed",
        "alter table parents alter other type bigint",
        "alter table parents add added text default 'x'",
    ] {
        stage.run(change).await;
        stage.run("update parents set name = name || '!'; insert into children values ((select count(*) from children), 1, 'c')").await;
        // A change of a column's type writes the table anew: that is noticed after a while, and the index is filled again.
        stage.equal_in_the_end(change).await;
    }
    stage.close().await;
}

/// A used column is renamed, dropped or changes its type while running: that index stops with the names, others go on, and
/// what mends it fills it again.
async fn used_column(test: &str, change: &str, mend: &str) {
    let mut stage = family(test).await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.config.source("hold", "1s");
    stage.run("insert into parents values (1, 'a'), (2, 'b'); insert into notes values (1, 'n')").await;
    stage.start().await;
    stage.settled().await;
    stage.run(change).await;
    stage.run("insert into parents (id) values (3); insert into notes values (2, 'goes on')").await;
    stage.until_not_live("parents").await;
    let status = stage.status().await;
    let said = format!("{status}{}", stage.log());
    assert!(said.contains("parents") && said.contains("name"), "index and column are named:\n{said}");
    // The other index neither waits nor differs, and the slot is not pinned.
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    for (id, name) in [("1", "a"), ("2", "b")] {
        let document = stage.document("parents", id).expect("the document is still there");
        assert_eq!(document.get("name").and_then(|name| name.as_text()), Some(name), "it lost its name");
    }
    stage.run(mend).await;
    stage.settled().await;
    stage.run("update parents set name = 'live'").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c13_p18_a_used_column_that_is_renamed_stops_its_index_only() {
    used_column("c13_renamed", "alter table parents rename name to title", "alter table parents rename title to name")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c13_p18_a_used_column_that_is_dropped_stops_its_index_only() {
    used_column("c13_dropped", "alter table parents drop name", "alter table parents add name text default 'new'")
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c13_p18_a_used_column_of_another_type_stops_its_index_only() {
    used_column(
        "c13_type",
        "alter table parents alter name type int using length(name)",
        "alter table parents alter name type text using name::text",
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_c15_enum_values_may_be_added_and_be_keys() {
    let mut stage = Stage::new("c15").await;
    stage.run("create type mood as enum ('sad', 'ok'); create table moods (mood mood primary key, note mood); insert into moods values ('sad', 'ok')").await;
    stage.index(
        "moods",
        "{ table: moods, fields: { mood: enum, note: { type: enum, nullable: true } } }",
        "select mood, json_build_object('mood', mood, 'note', note) from moods",
    );
    stage.start().await;
    stage.settled().await;
    stage.run("alter type mood add value 'happy'").await;
    stage.run("insert into moods values ('happy', 'happy'); update moods set note = 'happy'").await;
    stage.settled().await;
    stage.run("alter type mood rename value 'ok' to 'fine'").await;
    stage.run("insert into moods values ('fine', null); delete from moods where mood = 'sad'").await;
    stage.settled().await;
    stage.close().await;
}
