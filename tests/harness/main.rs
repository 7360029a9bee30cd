//! Does the harness itself do what tests lean on? (Its pure parts are tested beside their code.)

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millstream_tests::wait::{until, until_within};
use millstream_tests::{Cluster, Documents, Folder, Json, Stop, differences, oracle, until_sql};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_starts_from_the_template_and_leaves_nothing() {
    let shared = Cluster::shared().await;
    let began = Instant::now();
    let cluster = Cluster::builder().conf("work_mem = 5MB").start().await;
    eprintln!("a cluster from the template: {:?}", began.elapsed());
    let mut sql = cluster.connect("postgres").await;
    assert_eq!(sql.text("current_setting('wal_level')").await, "logical");
    assert_eq!(sql.text("current_setting('work_mem')").await, "5MB");
    assert_ne!(cluster.port(), shared.port());
    let data = cluster.data();
    drop(sql);
    drop(cluster);
    assert!(!data.exists(), "a dropped cluster leaves nothing behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_one_cluster_do_not_meet() {
    let cluster = Cluster::shared().await;
    let (one, other) = (cluster.database("twin").await, cluster.database("twin").await);
    assert_ne!(one.name(), other.name());
    one.connect().await.run("create table t (id int primary key)").await;
    assert!(other.connect().await.flag("to_regclass('t') is null").await);
    let mut sql = one.connect().await;
    sql.rows(&format!("select slot_name::text from pg_create_logical_replication_slot('{}', 'pgoutput')", one.name()))
        .await;
    let name = one.name().to_owned();
    one.remove().await;
    let mut sql = cluster.connect("postgres").await;
    assert!(sql.flag(&format!("not exists (select from pg_replication_slots where slot_name = '{name}')")).await);
    other.remove().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_survives_every_way_to_stop() {
    let cluster = Cluster::builder().start().await;
    cluster.connect("postgres").await.run("create table t (id int)").await;
    for how in [Stop::Fast, Stop::Immediate, Stop::Kill] {
        cluster.connect("postgres").await.run("insert into t values (1)").await;
        cluster.restart(how).await;
    }
    assert_eq!(cluster.connect("postgres").await.number("select count(*) from t").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_can_go_back_in_time() {
    let cluster = Cluster::builder().start().await;
    cluster.connect("postgres").await.run("create table t (id int)").await;
    let saved = Folder::new();
    cluster.stop(Stop::Fast).await;
    cluster.save_to(&saved);
    cluster.start().await;
    cluster.connect("postgres").await.run("insert into t values (1)").await;
    cluster.stop(Stop::Fast).await;
    cluster.restore_from(&saved);
    cluster.start().await;
    assert_eq!(cluster.connect("postgres").await.number("select count(*) from t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_epoch_is_moved_before_the_first_start() {
    if !Cluster::has_resetwal() {
        return;
    }
    let cluster = Cluster::builder().resetwal(&["-e", "3"]).start().await;
    let mut sql = cluster.connect("postgres").await;
    assert!(sql.flag("pg_snapshot_xmax(pg_current_snapshot())::text::bigint > (3::bigint << 32)").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_lags_as_told() {
    let cluster = Cluster::builder().start().await;
    let mut sql = cluster.connect("postgres").await;
    sql.run("create table t (id int)").await;
    let standby = cluster.standby("recovery_min_apply_delay = 1500ms").await;
    let mut sql = cluster.connect("postgres").await;
    let mut copy = standby.connect("postgres").await;
    assert!(copy.flag("pg_is_in_recovery()").await);
    let began = Instant::now();
    sql.run("insert into t values (1)").await;
    until_sql(&mut copy, Duration::from_secs(30), "(select count(*) from t) = 1").await;
    assert!(began.elapsed() >= Duration::from_millis(1400), "it came after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_planted_difference_to_the_oracle_is_found() {
    let database = Cluster::shared().await.database("planted").await;
    let mut sql = database.connect().await;
    sql.run(
        "create table t (id bigint primary key, n numeric); insert into t values (9007199254740993, 1.10), (2, null)",
    )
    .await;
    let expected = oracle(&mut sql, "select id, json_build_object('id', id, 'n', n) from t").await;
    let found = Documents::from([
        ("2".to_owned(), Json::parse(r#"{"id":2,"n":null}"#).unwrap()),
        ("9007199254740993".to_owned(), Json::parse(r#"{"id":9007199254740993,"n":1.1}"#).unwrap()),
    ]);
    assert_eq!(differences("t", &expected, &found), ["t/9007199254740993.n: expected 1.10, found 1.1"]);
    database.remove().await;
}

/// The whole point of the guard: whoever is killed with -9 still leaves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_process_leaves_no_server_behind() {
    if std::env::var_os("MILLSTREAM_HARNESS_VICTIM").is_some() {
        let cluster = Cluster::builder().start().await;
        println!("victim {}", cluster.data().display());
        std::future::pending::<()>().await;
    }
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_leaves_no_server_behind", "--nocapture"])
        .env("MILLSTREAM_HARNESS_VICTIM", "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(victim.stdout.take().unwrap()));
    let data = loop {
        let line = lines.next().expect("the victim says where its data is").unwrap();
        if let Some((_, data)) = line.split_once("victim ") {
            break std::path::PathBuf::from(data.trim());
        }
    };
    let text = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
    let pid = text.lines().next().unwrap().to_owned();
    victim.kill().unwrap();
    victim.wait().unwrap();
    until("the folder to go", || async { (!data.exists()).then_some(()) }).await;
    until_within(Duration::from_secs(10), "the server to end", || async {
        (!std::path::Path::new("/proc").join(&pid).exists()).then_some(())
    })
    .await;
}

/// The shop's tables, its filling and its oracles go together, and random writers keep them so.
#[tokio::test(flavor = "multi_thread")]
async fn the_shop_can_be_written_at_random() {
    use millstream_tests::shop::{INDEXES, TABLES, Tally, Writer, fill};
    let database = Cluster::shared().await.database("shop").await;
    let mut sql = database.connect().await;
    sql.run(TABLES).await;
    sql.run(&fill(100)).await;
    let (mut random, mut tally) = (millstream_tests::Random::new(1), Tally::default());
    for _ in 0..60 {
        Writer::new(100).with_truncates().transaction(&mut sql, &mut random, &mut tally).await.unwrap();
    }
    eprintln!("{tally}");
    for kind in ["commits", "inserts", "updates", "moves", "changed keys", "deletes", "rollbacks"] {
        assert!(tally.0.get(kind).is_some_and(|count| *count > 0), "no {kind} in {tally}");
    }
    for index in INDEXES {
        assert!(!oracle(&mut sql, index.oracle).await.is_empty(), "{} has documents", index.name);
    }
    database.remove().await;
}
