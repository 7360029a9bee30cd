//! A: restart, ack, position. Whatever is killed and wherever, nothing is lost and nothing is confirmed early.

use std::time::Duration;

use millstream_sinks::{FillState, SinkErrorKind};
use millstream_tests::wait::until;
use millstream_tests::{Cluster, Folder, Recorder, Stop};

use crate::words::{NOTES, family, family_on, notes, notes_on};

#[tokio::test(flavor = "multi_thread")]
async fn case_a1_p2_only_the_order_of_commits_counts() {
    let cluster = Cluster::builder().start().await;
    let mut stage = notes_on(&cluster, "a1").await;
    stage.start().await;
    let mut first = stage.database().connect().await;
    first.run("begin; insert into notes values (1, 'begun first')").await;
    stage.run("insert into notes values (2, 'committed first')").await;
    stage.until_confirmed().await;
    assert!(stage.document("notes", "2").is_some());
    stage.kill();
    first.run("insert into notes values (3, 'committed last'); commit").await;
    stage.start().await;
    stage.settled().await;
    assert_eq!(stage.documents("notes").len(), 3);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a4_half_a_changed_key_is_not_confirmed() {
    let mut stage = notes("a4").await;
    let sink = stage.record();
    stage.run("insert into notes values (1, 'x')").await;
    stage.start().await;
    stage.settled().await;
    sink.refuse("2");
    let position = stage.write("update notes set id = 2").await;
    until("the old document to go", || async { sink.documents("notes").is_empty().then_some(()) }).await;
    assert!(!stage.is_confirmed(&position).await);
    stage.kill();
    sink.accept("2");
    stage.start().await;
    stage.settled().await;
    assert!(stage.document("notes", "1").is_none() && stage.document("notes", "2").is_some());
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a5_what_waits_is_not_confirmed() {
    let mut stage = notes("a5").await;
    let sink = stage.record();
    stage.start().await;
    stage.run("insert into notes values (1, 'durable')").await;
    stage.until_confirmed().await;
    sink.hold();
    let position = stage.write("insert into notes values (2, 'waits')").await;
    for id in 3..=6 {
        stage.run(&format!("insert into notes values ({id}, 'waits, too')")).await;
    }
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    assert!(!stage.is_confirmed(&position).await);
    stage.kill();
    sink.release();
    assert!(!stage.is_confirmed(&position).await);
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a7_a_failed_write_moves_nothing() {
    let mut stage = family("a7").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.fail(usize::MAX);
    let position = stage.write("insert into parents values (1, 'x')").await;
    until("a write to fail", || async { (sink.failed() > 0).then_some(()) }).await;
    assert!(!stage.is_confirmed(&position).await);
    stage.kill();
    assert!(!stage.is_confirmed(&position).await);
    sink.fail(0);
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a8_a_sink_that_refuses_us_for_a_while_loses_nothing() {
    let mut stage = notes("a8").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.fail_as(SinkErrorKind::Setup, usize::MAX);
    let position = stage.write("insert into notes values (1, 'x')").await;
    until("the write to be tried again", || async { (sink.failed() > 2).then_some(()) }).await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(10) {
        assert!(!stage.is_confirmed(&position).await, "what is not durable is not confirmed");
        assert!(stage.is_running(), "it does not give up");
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    let failed = sink.failed();
    until("it to be still trying", || async { (sink.failed() > failed).then_some(()) }).await;
    sink.fail(0);
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a9_p16_a_slot_made_by_hand_is_another_slot() {
    let mut stage = notes("a9").await;
    stage.run("insert into notes values (1, 'seen')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let name = stage.database().name().to_owned();
    stage.run(&format!("select pg_drop_replication_slot('{name}')")).await;
    stage.run("insert into notes select n, 'between' from generate_series(2, 4) n").await;
    stage.run(&format!("select pg_create_logical_replication_slot('{name}', 'pgoutput')")).await;
    stage.run("insert into notes select n, 'after' from generate_series(5, 7) n; delete from notes where id = 1").await;
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3));
    assert!(log.contains(&name) || log.contains("durable point"), "it says what is wrong:\n{log}");
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a9_p16_a_slot_that_is_gone_is_not_made_in_silence() {
    let mut stage = notes("a9_gone").await;
    stage.run("insert into notes values (1, 'seen')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let name = stage.database().name().to_owned();
    stage.run(&format!("select pg_drop_replication_slot('{name}'); update notes set body = 'unseen'")).await;
    stage.spawn();
    assert_eq!(stage.ended().await.0, Some(3));
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a11_p16_an_older_copy_of_the_cluster_is_recognised() {
    let cluster = Cluster::builder().start().await;
    let mut stage = notes_on(&cluster, "a11_copy").await;
    stage.run("insert into notes values (1, 'old')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let saved = Folder::new();
    cluster.stop(Stop::Fast).await;
    cluster.save_to(&saved);
    cluster.start().await;
    stage.reconnect().await;
    stage.start().await;
    stage.run("insert into notes select n, 'lost with the copy' from generate_series(2, 1000) n; update notes set body = 'new'").await;
    stage.settled().await;
    assert!(stage.stop().await);
    cluster.stop(Stop::Fast).await;
    cluster.restore_from(&saved);
    cluster.start().await;
    stage.reconnect().await;
    stage.spawn();
    assert_eq!(stage.ended().await.0, Some(3));
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    stage.settled().await;
    assert_eq!(stage.documents("notes").len(), 1);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a11_p16_another_cluster_is_recognised() {
    let (one, other) = tokio::join!(Cluster::builder().start(), Cluster::builder().fresh().start());
    let mut stage = notes_on(&one, "a11_other").await;
    stage.run("insert into notes values (1, 'one')").await;
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let name = stage.database().name().to_owned();
    other.connect("postgres").await.run(&format!("create database {name}")).await;
    let mut sql = other.connect(&name).await;
    sql.run(NOTES).await;
    sql.run("insert into notes values (2, 'other')").await;
    stage.config.source("url", &format!("{:?}", other.url("postgres", &name)));
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3));
    assert!(log.contains("another"), "it says what is wrong:\n{log}");
    stage.config.source("on_gap", "backfill");
    stage.start().await;
    until("the other's documents", || async {
        let documents = stage.documents("notes");
        (documents.len() == 1 && documents.contains_key("2")).then_some(())
    })
    .await;
    stage.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a13_a_filling_is_not_done_before_its_documents_are_durable() {
    let mut stage = notes("a13").await;
    let sink = stage.record();
    stage.run("insert into notes select n, 'n' from generate_series(1, 50) n").await;
    sink.hold();
    stage.spawn();
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    stage.kill();
    let live = sink.kept().is_some_and(|kept| kept.indexes.values().any(|index| index.state == FillState::Live));
    assert!(!live, "the filling was marked done with nothing written");
    sink.release();
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

/// Killed again and again in the middle, a filling goes on where it stopped.
#[tokio::test(flavor = "multi_thread")]
async fn case_a13_a_filling_that_is_killed_goes_on() {
    let mut stage = notes("a13_kills").await;
    stage.run("insert into notes select n, repeat('n', 200) from generate_series(1, 60000) n").await;
    for kills in 1..=5_usize {
        stage.spawn();
        let goal = kills * 8_000;
        until("some documents to be written", || async { (stage.written() > goal as u64 * 250).then_some(()) }).await;
        stage.kill();
        stage.run(&format!("delete from notes where id % 1000 = {kills}; update notes set body = 'changed' where id % 500 = {kills}")).await;
    }
    stage.start().await;
    stage.settled().await;
    let lines = stage.fold().lines();
    assert!(lines < 200_000, "each start began anew: {lines} lines");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a16_p17_a_stop_drains_what_is_in_flight() {
    let mut stage = notes("a16_drain").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.hold();
    stage.run("insert into notes select n, 'in flight' from generate_series(1, 500) n").await;
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    let releaser = sink.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        releaser.release();
    });
    assert!(stage.stop().await, "what is in flight is drained");
    assert!(sink.is_closed());
    stage.compare().await;
    // And confirmed: nothing of it is told again.
    let before = sink.writes().len();
    stage.start().await;
    stage.settled().await;
    assert_eq!(sink.writes().len(), before);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_a16_p17_a_stop_that_cannot_drain_ends_and_loses_nothing() {
    let mut stage = notes("a16_abort").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    sink.hold();
    let position = stage.write("insert into notes select n, 'in flight' from generate_series(1, 500) n").await;
    until("a write to wait", || async { (sink.stalled() > 0).then_some(()) }).await;
    let began = std::time::Instant::now();
    stage.stop_within(Duration::from_secs(1)).await;
    assert!(began.elapsed() < Duration::from_secs(10), "the deadline counts");
    assert!(!stage.is_confirmed(&position).await);
    sink.release();
    stage.start().await;
    stage.settled().await;
    stage.close().await;
}

/// The destination lost an index: it is filled again, the other is left alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_gone_from_the_destination_is_filled_again() {
    let cluster = Cluster::shared().await;
    let mut stage = family_on(&cluster, "index_gone").await;
    stage.run(NOTES).await;
    stage.index("notes", crate::words::NOTES_SCHEMA, crate::words::NOTES_ORACLE);
    stage.run("insert into parents values (1, 'p'); insert into notes values (1, 'n')").await;
    let sink: Recorder = stage.record();
    stage.start().await;
    stage.settled().await;
    assert!(stage.stop().await);
    let before = sink.writes().iter().filter(|write| write.index == "notes").count();
    sink.drop_index("parents");
    stage.start().await;
    stage.settled().await;
    assert_eq!(sink.writes().iter().filter(|write| write.index == "notes").count(), before);
    stage.close().await;
}
