//! B: slot, log, connection.

use std::time::Duration;

use millstream_tests::http::metric;
use millstream_tests::metrics::measured;
use millstream_tests::wait::{until, until_within};
use millstream_tests::{
    Cluster, Fold, Folder, Host, HostConfig, Proxy, Stage, Stop, documents_path, free_port, until_sql,
};

use crate::words::{NOTES, NOTES_ORACLE, NOTES_SCHEMA, family, notes, notes_on};

#[tokio::test(flavor = "multi_thread")]
async fn case_b1_p8_an_idle_database_retains_no_log() {
    let cluster = Cluster::builder().conf("wal_keep_size = 0").conf("min_wal_size = 32MB").start().await;
    let mut stage = notes_on(&cluster, "b1").await;
    stage.run("insert into notes values (1, 'watched'); create table unwatched (n int, t text)").await;
    stage.start().await;
    stage.settled().await;
    let elsewhere = cluster.database("b1_elsewhere").await;
    let mut other = elsewhere.connect().await;
    other.run("create table unwatched (n int, t text)").await;
    for _ in 0..5 {
        let fill =
            "insert into unwatched select n, repeat('x', 1000) from generate_series(1, 20000) n; truncate unwatched";
        stage.run(fill).await;
        other.run(fill).await;
    }
    let position = stage.sql.text("pg_current_wal_insert_lsn()").await;
    let passed = format!("({}).confirmed_flush_lsn >= '{position}'", stage.slot());
    until_sql(&mut stage.sql, Duration::from_secs(60), &passed).await;
    // What the server keeps follows with its next look at the slots.
    other.run("checkpoint").await;
    let retained = format!("pg_wal_lsn_diff(pg_current_wal_lsn(), ({}).restart_lsn) < 48 * 1024 * 1024", stage.slot());
    until_sql(&mut stage.sql, Duration::from_secs(60), &retained).await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b2_p8_keep_alives_never_pass_what_is_in_flight() {
    let cluster = Cluster::builder().conf("wal_sender_timeout = 2s").start().await;
    let mut stage = notes_on(&cluster, "b2").await;
    let sink = stage.record();
    stage.run("create table unwatched (n int)").await;
    stage.start().await;
    stage.settled().await;
    sink.hold();
    let position = stage.write("insert into notes values (1, 'in flight')").await;
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    let replies = "(select count(*) from pg_stat_replication where reply_time > now() - interval '1 second') > 0";
    for _ in 0..6 {
        stage.run("insert into unwatched values (1)").await;
        until_sql(&mut stage.sql, Duration::from_secs(20), replies).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
        assert!(!stage.is_confirmed(&position).await, "a keep-alive moved the slot past what is in flight");
    }
    stage.kill();
    sink.release();
    assert!(!stage.is_confirmed(&position).await);
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b3_p9_a_stalled_sink_causes_no_disconnect() {
    let cluster = Cluster::builder().conf("wal_sender_timeout = 3s").start().await;
    let mut stage = Stage::on(&cluster, "b3").await.with_patience(Duration::from_secs(300));
    stage.run("create table roots (id int primary key); create table leaves (id int primary key, root_id int); create index on leaves (root_id)").await;
    stage.run("insert into roots select n from generate_series(1, 100) n; insert into leaves select n, 1 + n % 100 from generate_series(1, 1000000) n; analyze").await;
    stage.index(
        "roots",
        "{ table: roots, fields: { id: integer, leaves: { count: leaves, join: { id: root_id } } } }",
        "select r.id, json_build_object('id', r.id, 'leaves', (select count(*) from leaves l where l.root_id = r.id)) from roots r",
    );
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    let walsender = "(select pid from pg_stat_replication)";
    let before = stage.sql.number(walsender).await;
    sink.hold();
    let position = stage.write("delete from leaves").await;
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    let stalled = tokio::time::Instant::now();
    while stalled.elapsed() < Duration::from_secs(30) {
        assert_eq!(stage.sql.number(walsender).await, before, "the connection was lost");
        assert!(!stage.is_confirmed(&position).await);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    sink.release();
    stage.settled().await;
    assert_eq!(stage.sql.number(walsender).await, before, "the connection was lost");
    stage.close().await;
}

/// Lets the server give up the slot of a stage that has stopped.
async fn lose_slot(stage: &mut Stage) {
    stage.run("update notes set body = 'unseen'").await;
    let lost = format!("({}).wal_status = 'lost'", stage.slot());
    for _ in 0..20 {
        stage.run("insert into unwatched select n, repeat('x', 1000) from generate_series(1, 20000) n; truncate unwatched").await;
        stage.run("checkpoint").await;
        if stage.sql.flag(&lost).await {
            return;
        }
    }
    panic!("the test did not lose the slot");
}

async fn on_a_short_leash(test: &str) -> Stage {
    let cluster = Cluster::builder()
        .conf("max_slot_wal_keep_size = 16MB")
        .conf("wal_keep_size = 0")
        .conf("max_wal_size = 48MB")
        .conf("min_wal_size = 32MB")
        .start()
        .await;
    let mut stage = notes_on(&cluster, test).await;
    stage.run("insert into notes values (1, 'seen'); create table unwatched (n int, t text)").await;
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b5_p16_a_lost_slot_is_measured() {
    measured();
    let mut stage = on_a_short_leash("b5_measured").await;
    stage.record();
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    lose_slot(&mut stage).await;
    stage.spawn();
    let engine = format!("engine=\"{}\"", stage.database().name());
    until("the lost slot to be measured", || async {
        let lost = metric(&measured(), "millstream_slot_wal_status", &[&engine, "kind=\"lost\""]);
        (lost == Some(1.0)).then_some(())
    })
    .await;
    until("the engine to end", || std::future::ready((!stage.is_running()).then_some(()))).await;
    stage.config.source("on_gap", "backfill");
    stage.kill();
    stage.start().await;
    stage.settled().await;
    let lost = || metric(&measured(), "millstream_slot_wal_status", &[&engine, "kind=\"lost\""]);
    until("the new slot to be measured", || async { (lost() == Some(0.0)).then_some(()) }).await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b5_p16_a_lost_slot_is_named_and_answered_by_policy() {
    let mut stage = on_a_short_leash("b5").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    lose_slot(&mut stage).await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3), "it ends rather than loops");
    assert!(log.contains("lost"), "the state is named:\n{log}");
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

/// A second host with one's configuration and a file of its own, which is what tells here who wrote.
async fn second_host(stage: &Stage, slot_wait: &str) -> (Folder, Host) {
    let folder = Folder::new();
    let host = second_host_in(&folder, stage, slot_wait);
    (folder, host)
}

/// The same over any folder, such as the first one's: then both have the same files.
fn second_host_in(folder: &Folder, stage: &Stage, slot_wait: &str) -> Host {
    let mut config = HostConfig::new(stage.database().name(), &stage.database().url());
    config.source("slot_wait", slot_wait).index("notes", NOTES_SCHEMA);
    let port = free_port();
    let path = config.write(folder, port);
    Host::spawn(&path, &folder.path().join("second.log"), port)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b8_p15_a_second_host_ends_naming_the_holder() {
    let mut stage = notes("b8_ends").await;
    stage.start().await;
    stage.settled().await;
    let holder = format!("({}).active_pid", stage.slot());
    let holder = stage.sql.number(&holder).await;
    let (folder, second) = second_host(&stage, "2s").await;
    let same_files = second_host_in(stage.folder(), &stage, "2s");
    for (second, folder) in [(second, &folder), (same_files, stage.folder())] {
        assert_eq!(second.ended().await.code(), Some(4), "the slot is held");
        let log = std::fs::read_to_string(folder.path().join("second.log")).unwrap_or_default();
        assert!(log.contains(&holder.to_string()), "the holder {holder} is named:\n{log}");
    }
    assert!(!documents_path(folder.path()).exists() || Fold::read(&documents_path(folder.path())).lines() == 0);
    stage.run("insert into notes values (1, 'goes on')").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b8_p15_a_standby_takes_over_when_the_first_dies() {
    let mut stage = notes("b8_standby").await;
    stage.run("insert into notes values (1, 'first')").await;
    stage.start().await;
    stage.settled().await;
    let (folder, second) = second_host(&stage, "forever").await;
    until("the standby to be ready", || async {
        let (code, _) = millstream_tests::http::get(second.port(), "/readyz").await?;
        (code == 200).then_some(())
    })
    .await;
    stage.run("insert into notes values (2, 'first')").await;
    stage.settled().await;
    stage.kill();
    stage.run("insert into notes values (3, 'second'); delete from notes where id = 1").await;
    stage.until_confirmed().await;
    let expected = stage.expected("notes").await;
    until_within(Duration::from_secs(60), "the standby's documents to equal the oracle", || async {
        (Fold::read(&documents_path(folder.path())).documents("notes") == expected).then_some(())
    })
    .await;
    drop(second);
    stage.close().await;
}

/// What the standby goes by is what the first one left, not what there was when the standby began to wait.
#[tokio::test(flavor = "multi_thread")]
async fn case_b8_p15_a_standby_on_the_same_files_takes_over_when_the_first_dies() {
    let mut stage = notes("b8_same_files").await;
    let second = second_host_in(stage.folder(), &stage, "forever");
    // It may be the first as well: then the other waits.
    stage.config.source("slot_wait", "forever");
    until("the second to work", || async {
        let status = second.status().await?;
        (millstream_tests::index_state(&status, "notes") == Some("live")).then_some(())
    })
    .await;
    stage.spawn();
    stage.host().until_log("waits for the replication slot").await;
    until("the standby to be ready", || async {
        let (code, _) = millstream_tests::http::get(stage.host().port(), "/readyz").await?;
        (code == 200).then_some(())
    })
    .await;
    stage.run("insert into notes select n, 'by the second' from generate_series(1, 500) n").await;
    stage.until_confirmed().await;
    stage.compare().await;
    let clears = stage.fold().clears("notes");
    second.kill();
    stage.run("update notes set body = 'by the first' where id % 2 = 0; delete from notes where id = 1").await;
    stage.settled().await;
    assert_eq!(stage.fold().clears("notes"), clears, "what was filled by the one was filled again by the other");
    // And back.
    let second = second_host_in(stage.folder(), &stage, "forever");
    until("the second to wait", || async {
        let log = std::fs::read_to_string(stage.folder().path().join("second.log")).unwrap_or_default();
        log.contains("waits for the replication slot").then_some(())
    })
    .await;
    assert!(stage.stop().await);
    stage.run("insert into notes values (0, 'by the second again')").await;
    stage.until_confirmed().await;
    stage.compare().await;
    assert_eq!(second.stop().await.code(), Some(0));
    stage.close().await;
}

/// A stage whose host goes through a line that may be cut.
async fn through_proxy(mut stage: Stage) -> (Stage, Proxy) {
    let proxy = Proxy::to(stage.database().cluster().port()).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/{}?sslmode=disable", proxy.port(), stage.database().name());
    stage.config.source("url", &format!("{url:?}"));
    (stage, proxy)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b9_a_line_cut_in_the_middle_of_a_filling() {
    let (mut stage, proxy) = through_proxy(notes("b9_filling").await).await;
    stage.run("insert into notes select n, repeat('n', 100) from generate_series(1, 60000) n").await;
    stage.spawn();
    for cuts in 1..=4_u64 {
        until("some documents to be written", || async { (stage.written() > cuts * 1_000_000).then_some(()) }).await;
        proxy.cut();
        stage.run("update notes set body = 'changed' where id % 1000 = 7").await;
    }
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b9_a_line_cut_in_the_middle_of_a_transaction() {
    let (mut stage, proxy) = through_proxy(family("b9_transaction").await).await;
    stage.run("insert into parents select n from generate_series(1, 1000) n; insert into children select n, 1 + n % 1000, 'c' from generate_series(1, 60000) n").await;
    stage.start().await;
    stage.settled().await;
    for cut in 0..3 {
        let before = stage.written();
        stage
            .run(&format!("update children set name = 'changed {cut}', parent_id = 1 + (parent_id + {cut}) % 1000"))
            .await;
        until("the transaction to be on its way", || async { (stage.written() > before).then_some(()) }).await;
        proxy.cut();
    }
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b11_a_role_that_may_no_longer_log_in_is_said_clearly() {
    let mut stage = notes("b11").await;
    let role = format!("role_{}", stage.database().name());
    stage.run(&format!("create role {role} superuser login")).await;
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}"));
    stage.start().await;
    stage.settled().await;
    stage
        .run(&format!(
            "alter role {role} nologin; select pg_terminate_backend(pid) from pg_stat_activity where usename = '{role}'"
        ))
        .await;
    let said = until_within(Duration::from_secs(60), "it to say that the role may not log in", || async {
        let log = stage.log();
        log.contains("not permitted to log in").then_some(log)
    })
    .await;
    assert!(said.contains(&role), "the role is named");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b15_p14_a_table_without_a_key_is_never_put_where_its_updates_fail() {
    let mut stage = family("b15").await;
    stage.run("create table keyless (id int not null, parent_id int); insert into keyless values (1, 1); insert into parents values (1, 'p')").await;
    let schema = format!("{}  keyless: {{ count: keyless, join: {{ id: parent_id }} }}\n", crate::words::FAMILY_SCHEMA);
    stage.index("parents", &schema, "select '1', '{}'::json where false");
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert!(matches!(code, Some(2 | 3)), "exit code {code:?}");
    assert!(log.contains("keyless"), "the table is named");
    stage.run("update keyless set parent_id = 2; delete from keyless").await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_b17_p15_two_engines_in_one_process_do_not_meet() {
    measured();
    let (mut one, mut other) = (notes("b17_one").await, notes("b17_other").await);
    let (first, second) = (one.record(), other.record());
    one.start().await;
    other.start().await;
    first.hold();
    one.run("insert into notes values (1, 'held')").await;
    other.run("insert into notes values (2, 'not held')").await;
    other.settled().await;
    assert!(first.documents("notes").is_empty() && second.documents("notes").len() == 1);
    first.release();
    one.settled().await;
    assert!(one.stop().await);
    other.run("insert into notes values (3, 'the other ended'), (4, 'too')").await;
    other.settled().await;
    let text = measured();
    let captured = |stage: &Stage| {
        let engine = format!("engine=\"{}\"", stage.database().name());
        metric(&text, "millstream_changes_captured_total", &[&engine, "op=\"upsert\""])
    };
    assert_eq!((captured(&one), captured(&other)), (Some(1.0), Some(3.0)), "each engine's changes under its own name");
    one.close().await;
    other.close().await;
}

/// A server that shuts down is let go, even while nothing is durable.
#[tokio::test(flavor = "multi_thread")]
async fn case_h6_p9_a_server_may_shut_down_while_the_sink_is_away() {
    let cluster = Cluster::builder().start().await;
    let mut stage = Stage::on(&cluster, "h6").await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.fail(usize::MAX);
    stage.run("insert into notes values (1, 'not durable')").await;
    until("a write to fail", || async { (sink.failed() > 0).then_some(()) }).await;
    let took = cluster.stop(Stop::Fast).await;
    assert!(took < Duration::from_secs(20), "the server took {took:?} to stop");
    cluster.start().await;
    sink.fail(0);
    stage.reconnect().await;
    stage.settled().await;
    stage.close().await;
}
