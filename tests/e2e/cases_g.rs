//! G: no read is stale. Postgres streams a commit before other sessions can see it.
//!
//! Each is run twice (G6): as it is, and on a cluster whose transaction ids are past the first four billion. With
//! `MILLSTREAM_E2E_NO_FENCE=1` the engine counts every read, and G1, G2 and G5 must fail.

use std::sync::Arc;
use std::time::Duration;

use millstream_tests::wait::until;
use millstream_tests::{Cluster, ClusterBuilder, Json, Recorder, Stage, until_sql};

use crate::words::{NOTES, NOTES_ORACLE, NOTES_SCHEMA, family_on, notes, notes_on};

fn plain() -> ClusterBuilder {
    Cluster::builder()
}

/// `None` where the server comes without the program that it takes.
async fn far_epoch() -> Option<Arc<Cluster>> {
    if !Cluster::has_resetwal() {
        eprintln!("skipped: this server comes without pg_resetwal");
        return None;
    }
    Some(Cluster::builder().resetwal(&["-e", "3"]).start().await)
}

/// From now on commits hang although the log streams them; `false` lets them go.
async fn ghost(stage: &mut Stage, hang: bool) {
    let value = if hang { "ghost" } else { "" };
    stage.run("set synchronous_commit = local").await;
    stage.run(&format!("alter system set synchronous_standby_names = '{value}'")).await;
    stage.run("select pg_reload_conf()").await;
    until_sql(
        &mut stage.sql,
        Duration::from_secs(20),
        &format!("current_setting('synchronous_standby_names') = '{value}'"),
    )
    .await;
}

const HANG: &str = "(select count(*) from pg_stat_activity where wait_event = 'SyncRep')";

/// Runs statements whose commit hangs, in a session of their own.
async fn hanging(stage: &mut Stage, sql: &'static str) -> tokio::task::JoinHandle<()> {
    // The server's processes hear of the setting one after the other: a commit that hangs tells that all did.
    while stage.sql.number(HANG).await == 0 {
        let mut probe = stage.database().connect().await;
        tokio::spawn(async move { probe.try_run("select pg_logical_emit_message(true, 'probe', '')").await });
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let before = stage.sql.number(HANG).await;
    let mut session = stage.database().connect().await;
    let task = tokio::spawn(async move { session.run(sql).await });
    until_sql(&mut stage.sql, Duration::from_secs(20), &format!("{HANG} > {before}")).await;
    task
}

async fn g1(cluster: Arc<Cluster>) {
    let mut stage = family_on(&cluster, "g1").await;
    let sink = stage.record();
    stage.run("insert into parents values (1, 'old'), (2, 'old'); insert into children values (1, 1, 'old')").await;
    stage.start().await;
    stage.settled().await;
    let before = stage.sql.text("pg_current_wal_insert_lsn()").await;
    ghost(&mut stage, true).await;
    let one =
        hanging(&mut stage, "update parents set name = 'new' where id = 1; insert into parents values (3, 'new')")
            .await;
    let other = hanging(&mut stage, "update children set parent_id = 2, name = 'new'").await;
    let position = stage.sql.text("pg_current_wal_insert_lsn()").await;
    // The change is on its way to us: the server has sent beyond it.
    let sent = format!("exists (select from pg_stat_replication where sent_lsn >= '{position}')");
    until_sql(&mut stage.sql, Duration::from_secs(30), &sent).await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(3) {
        assert!(!stage.is_confirmed(&position).await, "a change was confirmed that no reader could see yet");
        let fed = "exists (select from pg_stat_replication where reply_time > now() - interval '12 seconds')";
        assert!(stage.sql.flag(fed).await, "the feedback stopped");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(sink.documents("parents").len(), 2, "a document of a row that nobody can see");
    assert!(stage.sql.flag(&format!("'{before}'::pg_lsn < '{position}'")).await);
    ghost(&mut stage, false).await;
    one.await.expect("the commit goes through");
    other.await.expect("the commit goes through");
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g1_p3_a_commit_that_hangs_is_waited_for() {
    g1(plain().start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g6_p3_g1_past_four_billion_transactions() {
    if let Some(cluster) = far_epoch().await {
        g1(cluster).await;
    }
}

/// A stage that reads from a standby with these settings.
async fn reading_from_standby(cluster: &Arc<Cluster>, test: &str, conf: &str) -> (Stage, Arc<Cluster>) {
    let mut stage = notes_on(cluster, test).await;
    stage.run("insert into notes select n, 'old' from generate_series(1, 20) n").await;
    let standby = cluster.standby(conf).await;
    stage.reconnect().await;
    let url = standby.url("postgres", stage.database().name());
    stage.config.source("read_url", &format!("{url:?}"));
    (stage, standby)
}

async fn g2(cluster: Arc<Cluster>) {
    let (mut stage, _standby) = reading_from_standby(&cluster, "g2", "recovery_min_apply_delay = 2s").await;
    stage.record();
    stage.start().await;
    stage.settled().await;
    for round in 0..3 {
        stage.run(&format!("update notes set body = 'round {round}' where id % 3 = {round}; insert into notes values (100 + {round}, 'new'); delete from notes where id = 1 + {round}")).await;
        stage.settled().await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g2_p3_a_standby_that_lags_is_waited_for() {
    g2(plain().start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g6_p3_g2_past_four_billion_transactions() {
    if let Some(cluster) = far_epoch().await {
        g2(cluster).await;
    }
}

async fn g5(cluster: Arc<Cluster>) {
    let (mut stage, standby) = reading_from_standby(&cluster, "g5", "").await;
    let sink = stage.record();
    stage.start().await;
    stage.settled().await;
    let mut older = stage.database().connect().await;
    older.run("begin; update notes set body = 'older' where id = 1").await;
    stage.run("update notes set body = 'newer' where id = 2").await;
    stage.until_confirmed().await;
    let mut replay = standby.connect("postgres").await;
    replay.run("select pg_wal_replay_pause()").await;
    until_sql(&mut replay, Duration::from_secs(20), "pg_is_wal_replay_paused()").await;
    older.run("commit").await;
    let position = stage.sql.text("pg_current_wal_insert_lsn()").await;
    let sent = format!(
        "exists (select from pg_stat_replication where application_name <> 'walreceiver' and sent_lsn >= '{position}')"
    );
    until_sql(&mut stage.sql, Duration::from_secs(30), &sent).await;
    let began = tokio::time::Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        assert!(!stage.is_confirmed(&position).await, "a change was confirmed that the standby had not replayed");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    replay.run("select pg_wal_replay_resume()").await;
    stage.settled().await;
    assert_eq!(sink.documents("notes"), stage.expected("notes").await);
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g5_p3_on_a_standby_an_older_transaction_is_waited_for() {
    g5(plain().start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g6_p3_g5_past_four_billion_transactions() {
    if let Some(cluster) = far_epoch().await {
        g5(cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g4_p4_a_burst_of_one_row_is_few_builds() {
    let mut stage = notes("g4").await;
    let sink = stage.record();
    stage.run("insert into notes values (1, 'old')").await;
    stage.start().await;
    stage.settled().await;
    let before = sink.stored("1");
    stage.run("do $$ begin for n in 1..100 loop update notes set body = 'state ' || n; commit; end loop; end $$").await;
    stage.settled().await;
    let builds = sink.stored("1") - before;
    assert!(builds < 50, "{builds} builds of a hundred changes");
    stage.close().await;
}

/// While a commit hangs, another change makes the document be read in its old state: the new state is not "the same version".
async fn g7(cluster: Arc<Cluster>) {
    let mut stage = family_on(&cluster, "g7").await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    let sink = stage.record_in(Recorder::new().with_versions());
    stage.run("insert into parents values (1, 'old'); insert into children values (1, 1, 'old')").await;
    stage.start().await;
    stage.settled().await;
    ghost(&mut stage, true).await;
    let hangs = hanging(&mut stage, "update parents set name = 'new'").await;
    // Taken in one batch with what follows, it would be one touch with that, and hold it back: nothing would be written.
    let is_taken = |status: &Json| matches!(status.get("tickets_open"), Some(Json::Number(open)) if open != "0");
    until("the change that hangs to be taken", || async { is_taken(&stage.status().await).then_some(()) }).await;
    let before = sink.stored("1");
    stage.run("update children set name = 'newer'").await;
    until("the old state to be written", || async { (sink.stored("1") > before).then_some(()) }).await;
    ghost(&mut stage, false).await;
    hangs.await.expect("the commit goes through");
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g7_p3_a_new_state_is_not_refused_as_the_same_version() {
    g7(plain().start().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_g6_p3_g7_past_four_billion_transactions() {
    if let Some(cluster) = far_epoch().await {
        g7(cluster).await;
    }
}

/// The filling reads the old state while a commit hangs.
#[tokio::test(flavor = "multi_thread")]
async fn case_g7_p3_a_filling_that_reads_the_old_state_loses_nothing() {
    let cluster = plain().start().await;
    let mut stage = notes_on(&cluster, "g7_filling").await;
    stage.record_in(Recorder::new().with_versions());
    stage.run("insert into notes select n, 'old' from generate_series(1, 2000) n").await;
    stage.start().await;
    stage.settled().await;
    ghost(&mut stage, true).await;
    let hangs =
        hanging(&mut stage, "update notes set body = 'new' where id % 2 = 0; delete from notes where id = 3").await;
    stage.engine().backfill("notes").await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    ghost(&mut stage, false).await;
    hangs.await.expect("the commit goes through");
    stage.settled().await;
    stage.close().await;
}
