//! What somebody does to tables while the engine watches, and what an operator sees of it.

use std::time::Duration;

use millstream_tests::wait::until_within;
use millstream_tests::{Stage, http};

use crate::words::{NOTES, NOTES_ORACLE, NOTES_SCHEMA, family};

const STRICT: &str = "
    create table parents (id int primary key, name text);
    create table children (id int primary key, parent_id int not null references parents, name text);
    create index on children (parent_id);
    insert into parents values (1, 'a'), (2, 'b');
    insert into children values (1, 1, 'c'), (2, 2, 'd');
";

async fn strict(test: &str) -> Stage {
    let mut stage = Stage::new(test).await;
    stage.run(STRICT).await;
    stage.run(NOTES).await;
    stage.index("parents", crate::words::FAMILY_SCHEMA, crate::words::FAMILY_ORACLE);
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.config.source("hold", "1s");
    stage
}

/// The index that serves as identity is dropped: Postgres itself refuses updates then, so only inserts go on.
#[tokio::test(flavor = "multi_thread")]
async fn case_h3_an_identitys_index_that_is_dropped_is_noticed() {
    let mut stage = strict("h3_index").await;
    stage.run("create unique index children_identity on children (id, parent_id); alter table children replica identity using index children_identity").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    stage.config.source("manage", "none");
    stage.start().await;
    stage.run("update children set parent_id = 2 where id = 1").await;
    stage.settled().await;
    stage.run("drop index children_identity").await;
    stage.run("insert into children values (3, 1, 'e'); insert into notes values (1, 'goes on')").await;
    stage.until_not_live("parents").await;
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("children") && said.contains("REPLICA IDENTITY"), "table and mend are named:\n{said}");
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run("alter table children replica identity full; update children set parent_id = 2, name = 'mended'").await;
    stage.settled().await;
    stage.run("update children set parent_id = 1").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_h3_a_changed_primary_key_stops_its_index_until_a_restart() {
    let mut stage = strict("h3_key").await;
    stage.start().await;
    stage.settled().await;
    stage
        .run("alter table children drop constraint children_pkey; alter table children add primary key (parent_id, id)")
        .await;
    stage.run("update children set name = 'x'; insert into children values (1, 2, 'same id'); update children set parent_id = 1 where id = 2").await;
    stage.until_not_live("parents").await;
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("children") && said.contains("primary key"), "table and reason are named:\n{said}");
    stage.run("insert into notes values (1, 'goes on')").await;
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    // The mend that it names: a restart goes on with the new key.
    assert!(stage.stop().await);
    stage.start().await;
    stage.settled().await;
    stage.run("delete from children where id = 1 and parent_id = 2; update children set id = id + 10").await;
    stage.settled().await;
    stage.close().await;
}

/// Whatever the engine sets up, every write of the application's goes on: on tables with and without a key, watched or not.
#[tokio::test(flavor = "multi_thread")]
async fn p14_the_applications_writes_go_on() {
    let mut stage = strict("p14").await;
    stage.run("create table keyless (a int, b text); insert into keyless values (1, 'x')").await;
    stage.start().await;
    stage.settled().await;
    for write in [
        "update keyless set b = 'y'; delete from keyless",
        "update children set name = null, parent_id = 2; delete from children where id = 1",
        "alter table children replica identity full; update children set name = 'under full identity'",
        "alter table children add note text; update children set note = 'x'; alter table children drop note",
        "truncate notes; insert into notes values (1, 'x'); delete from notes",
        "create index concurrently_not on children (name); drop index concurrently_not; vacuum children",
    ] {
        for statement in write.split("; ") {
            stage.run(statement).await;
        }
        stage.equal_in_the_end(write).await;
    }
    stage.close().await;
}

/// Names that dashboards and alerts lean on.
const METRICS: &[&str] = &[
    "millstream_acks_total",
    "millstream_backfill_rows_done_total",
    "millstream_batch_size",
    "millstream_build_info",
    "millstream_builds_total",
    "millstream_changes_captured_total",
    "millstream_changes_resolved_total",
    "millstream_changes_without_document_total",
    "millstream_channel_capacity",
    "millstream_channel_depth",
    "millstream_documents_built_total",
    "millstream_documents_dead_lettered_total",
    "millstream_documents_deleted_total",
    "millstream_documents_rejected_total",
    "millstream_documents_written_total",
    "millstream_errors_total",
    "millstream_fence_waits_total",
    "millstream_index_state",
    "millstream_lag_bytes",
    "millstream_retries_total",
    "millstream_slot_confirmed_position",
    "millstream_slot_restart_position",
    "millstream_slot_wal_status",
    "millstream_stage_seconds",
    "millstream_tickets_open",
    "millstream_touches_total",
];

#[tokio::test(flavor = "multi_thread")]
async fn the_host_serves_every_metric_and_shows_no_row() {
    let mut stage = family("metrics").await;
    stage.config.source("heartbeat", "1s");
    stage.run("insert into parents select n, 'sensitive' from generate_series(1, 50) n").await;
    stage.start().await;
    stage.run("insert into children values (1, 1, 'sensitive'); delete from parents where id = 50").await;
    stage.settled().await;
    // Some are measured every few seconds.
    let lag = || async { stage.host().metric("millstream_lag_bytes", &[]).await };
    until_within(Duration::from_secs(30), "the lag to be measured", lag).await;
    let text = stage.host().metrics().await;
    let missing: Vec<&str> = METRICS.iter().filter(|name| !text.contains(*name)).copied().collect();
    assert!(missing.is_empty(), "these are not served: {missing:?}\n{text}");
    let undescribed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .filter(|name| !text.contains(&format!("# HELP {name} ")))
        .collect();
    assert!(undescribed.is_empty(), "these are not described: {undescribed:?}");
    assert_eq!(http::metric(&text, "millstream_slot_safe_bytes", &[]), Some(f64::INFINITY), "no limit is set");
    let engine = format!("engine=\"{}\"", stage.database().name());
    let value = |name: &str, labels: &[&str]| http::metric(&text, name, &[&[engine.as_str()], labels].concat());
    assert_eq!(value("millstream_index_state", &["index=\"parents\"", "state=\"live\""]), Some(1.0));
    assert!(value("millstream_documents_written_total", &["index=\"parents\""]).is_some_and(|count| count >= 51.0));
    assert_eq!(value("millstream_documents_dead_lettered_total", &["index=\"parents\""]), Some(0.0));
    for page in [text, stage.log(), stage.status().await.to_string()] {
        assert!(!page.contains("sensitive"), "a row's contents are shown");
    }
    for (path, expected) in [("/livez", 200), ("/readyz", 200), ("/nothing", 404)] {
        let (code, _) = http::get(stage.host().port(), path).await.expect("the host answers");
        assert_eq!(code, expected, "{path}");
    }
    // Without a token file there is no control at all.
    let (code, _) = http::post(stage.host().port(), "/pause", None).await.expect("the host answers");
    assert!(matches!(code, 404 | 405), "{code}");
    stage.close().await;
}

/// Bad input: each a message that names the thing and what mends it, and the exit code that scripts lean on.
#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_cannot_be_used_is_told_with_the_mend() {
    let mut stage = family("bad_source").await;
    let url = stage.database().url_as("nobody_at_all");
    stage.config.source("url", &format!("{url:?}"));
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(code == Some(3) && log.contains("nobody_at_all"), "{code:?}\n{log}");
    let role = format!("weak_{}", stage.database().name());
    stage.run(&format!("create role {role} login")).await;
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}"));
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(matches!(code, Some(2 | 3)), "{code:?}");
    assert!(log.to_lowercase().contains("grant") || log.to_lowercase().contains("replication"), "{log}");
    stage.config.index("parents", "{ table: parents, fields: { id: integer, nmae: text } }");
    let url = stage.database().url();
    stage.config.source("url", &format!("{url:?}"));
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(matches!(code, Some(2 | 3)) && log.contains("nmae"), "{code:?}\n{log}");
    assert!(!log.contains("panicked"));
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_logical_replication_is_told_with_the_mend() {
    let cluster = millstream_tests::Cluster::builder().conf("wal_level = replica").start().await;
    let mut stage = crate::words::notes_on(&cluster, "wal_level").await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(code == Some(3) && log.contains("wal_level"), "{code:?}\n{log}");
    stage.close().await;
    let cluster = millstream_tests::Cluster::builder().conf("max_replication_slots = 0").start().await;
    let mut stage = crate::words::notes_on(&cluster, "no_slots").await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(code == Some(3) && log.contains("max_replication_slots"), "{code:?}\n{log}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_column_lists_tell_less_and_say_what_they_cost() {
    let mut stage = family("column_lists").await;
    stage.run("alter table parents add unused text; alter table children alter parent_id set not null; insert into parents values (1, 'a'), (2, 'b'); insert into children values (1, 1, 'c')").await;
    stage.config.source("column_lists", "true").source("manage", "all");
    stage.start().await;
    stage.settled().await;
    let listed = "(select string_agg(tablename || ' ' || array_to_string(attnames, ','), '; ' order by tablename) from pg_publication_tables)";
    let mut sql = stage.database().connect().await;
    let version: u32 = sql.text("current_setting('server_version_num')").await.parse().unwrap();
    if version < 150_000 {
        stage.run("update parents set name = 'x'").await;
        stage.settled().await;
        return stage.close().await;
    }
    assert_eq!(sql.text(listed).await, "children id,parent_id; parents id");
    // Columns that are not told are read all the same; a row moves, changes its key, and goes.
    stage.run("update parents set name = 'x'; update children set parent_id = 2; update children set name = 'y'").await;
    stage.settled().await;
    stage.run("update children set id = 9, parent_id = 1; update parents set id = 5 where id = 2").await;
    stage.settled().await;
    let (code, found, _) = stage.ask(&["check"]).await;
    assert!(code == Some(0) && found.contains("note[column-list]"), "{found}");
    assert!(stage.log().contains("with another replica identity the server would refuse"), "it is said at the start");
    stage.run("alter table parents replica identity full").await;
    stage.until_not_live("parents").await;
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("refuses the application's updates and deletes") && said.contains("DROP TABLE"), "{said}");
    stage.run("alter table parents replica identity default; update parents set name = 'z'").await;
    stage.settled().await;
    stage.close().await;
}
