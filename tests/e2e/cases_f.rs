//! E and F: operation. Sinks that go away, large transactions in little memory, rights that are lost, secrets.

use std::process::Command;
use std::time::Duration;

use millstream_tests::wait::{until, until_within};
use millstream_tests::{Cluster, Stage, Stop, host_bin};

use crate::words::{NOTES, NOTES_ORACLE, NOTES_SCHEMA, family, notes};

/// Rows of the one transaction; a fewer number serves a hurried run.
fn large() -> u64 {
    std::env::var("MILLSTREAM_F1_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(2_000_000)
}

/// Under `RLIMIT_DATA` of 256 MiB (`ulimit -d`): heap and stacks; the program's own text is not counted.
#[tokio::test(flavor = "multi_thread")]
async fn case_f1_p10_a_transaction_of_two_million_rows_in_256_mib() {
    let rows = large();
    let cluster = Cluster::builder().conf("logical_decoding_work_mem = 64MB").start().await;
    let mut stage = Stage::on(&cluster, "f1").await.with_patience(Duration::from_secs(500));
    stage.run("create table roots (id int primary key, name text); create table leaves (id int primary key, root_id int, name text); create index on leaves (root_id)").await;
    stage.run(&format!("insert into roots select n, 'r' from generate_series(1, 1000) n; insert into leaves select n, 1 + n % 1000, 'l' from generate_series(1, {rows}) n; analyze")).await;
    stage.index(
        "roots",
        "{ table: roots, fields: { id: integer, name: text, leaves: { count: leaves, join: { id: root_id } } } }",
        "select r.id, json_build_object('id', r.id, 'name', r.name, 'leaves', c.n) from roots r, lateral (select count(*) n from leaves l where l.root_id = r.id) c",
    );
    stage.spawn_command(|config| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -d 262144; exec \"$@\"", "limited"])
            .arg(host_bin())
            .args(["run", "--config"])
            .arg(config);
        command
    });
    stage.settled().await;
    let pid = stage.host().pid();
    stage.run("update leaves set name = 'changed', root_id = 1 + (root_id + id) % 1000").await;
    stage.settled().await;
    let peak = peak_memory(pid);
    eprintln!("case F1: {rows} rows in one transaction, RLIMIT_DATA 256 MiB, peak resident {} MiB", peak / 1024);
    assert!(peak > 0 && peak < 256 * 1024, "peak resident memory of {peak} KiB");
    stage.close().await;
}

/// A transaction that touches as many documents as it has rows.
#[tokio::test(flavor = "multi_thread")]
async fn case_f1_p10_a_transaction_over_as_many_documents() {
    let rows = large() / 10;
    let mut stage = notes("f1_documents").await.with_patience(Duration::from_secs(300));
    stage.run(&format!("insert into notes select n, 'n' from generate_series(1, {rows}) n")).await;
    stage.spawn_command(|config| {
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -d 262144; exec \"$@\"", "limited"])
            .arg(host_bin())
            .args(["run", "--config"])
            .arg(config);
        command
    });
    stage.settled().await;
    let pid = stage.host().pid();
    stage.run("update notes set body = repeat('changed', 20)").await;
    stage.settled().await;
    let peak = peak_memory(pid);
    eprintln!("case F1: {rows} documents in one transaction, RLIMIT_DATA 256 MiB, peak resident {} MiB", peak / 1024);
    assert!(peak > 0 && peak < 256 * 1024, "peak resident memory of {peak} KiB");
    stage.close().await;
}

/// The most that a process ever held in memory, in KiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_f4_p18_rows_that_a_policy_hides_are_never_taken_for_none() {
    let mut stage = family("f4").await;
    let role = format!("reader_{}", stage.database().name());
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage.run("alter table children replica identity full; insert into parents values (1, 'p'); insert into children values (1, 1, 'c'), (2, 1, 'c')").await;
    stage.run(&format!("create role {role} login replication; grant select on all tables in schema public to {role}; create publication {} for table parents, children, notes", stage.database().name())).await;
    let url = stage.database().url_as(&role);
    stage.config.source("url", &format!("{url:?}")).source("manage", "[slot]").source("hold", "1s");
    stage.start().await;
    stage.settled().await;
    stage.run("alter table children enable row level security; create policy odd on children using (id % 2 = 1)").await;
    stage
        .run("update children set name = 'x'; update parents set name = 'x'; insert into notes values (1, 'goes on')")
        .await;
    stage.until_not_live("parents").await;
    let parent = stage.document("parents", "1").expect("the document is still there");
    let children = parent.get("children").map(ToString::to_string).unwrap_or_default();
    assert!(children.matches("id").count() == 2, "hidden rows were taken for none: {children}");
    let said = format!("{}{}", stage.status().await, stage.log());
    assert!(said.contains("children"), "the table is named");
    stage.until_confirmed().await;
    stage.compare_index("notes").await;
    stage.run("alter table children disable row level security").await;
    stage.settled().await;
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_f9_p19_a_password_is_shown_nowhere() {
    const PASSWORD: &str = "hunter2-S3cr3t";
    let cluster = Cluster::builder().start().await;
    let mut stage = Stage::on(&cluster, "f9").await;
    stage.run(NOTES).await;
    stage.index("notes", NOTES_SCHEMA, NOTES_ORACLE);
    stage
        .run(&format!(
            "set password_encryption = 'scram-sha-256'; create role app superuser login password '{PASSWORD}'"
        ))
        .await;
    cluster.authenticate("host all app 127.0.0.1/32 scram-sha-256");
    cluster.reload().await;
    let with = |password: &str| {
        format!(
            "\"postgres://app:{password}@127.0.0.1:{}/{}?sslmode=disable\"",
            cluster.port(),
            stage.database().name()
        )
    };
    let (right, wrong) = (with(PASSWORD), with("wrong-hunter2"));
    stage.config.source("url", &wrong);
    stage.spawn();
    let (code, log) = stage.ended().await;
    assert_eq!(code, Some(3), "a refused password is a permanent error");
    assert!(log.contains("app"), "the role is named");
    stage.config.source("url", &right);
    stage.start().await;
    stage.run("insert into notes values (1, 'with a password')").await;
    stage.settled().await;
    cluster.restart(Stop::Immediate).await;
    stage.reconnect().await;
    stage.run("insert into notes values (2, 'after a lost connection')").await;
    stage.settled().await;
    let pages = [stage.log(), stage.status().await.to_string(), stage.host().metrics().await];
    for page in pages {
        assert!(!page.contains("hunter2"), "a password is shown");
    }
    stage.close().await;
}

/// `run --until-idle` ends by itself once all is filled and the log as of the start is passed.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_until_idle_ends_once_it_has_caught_up() {
    let mut stage = family("until_idle").await;
    stage.run("insert into parents select n, 'p' from generate_series(1, 3000) n; insert into children select n, n, 'c' from generate_series(1, 3000) n").await;
    for round in 0..3 {
        stage.spawn_with(&["--until-idle"]);
        assert_eq!(stage.ended().await.0, Some(0));
        stage.compare().await;
        stage.run(&format!("update children set name = 'round {round}', parent_id = 1 + (parent_id + 7) % 3000")).await;
    }
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_change_is_there_in_a_moment() {
    let mut stage = notes("latency").await;
    stage.start().await;
    stage.settled().await;
    let mut taken = Vec::new();
    for id in 1..=20 {
        let began = std::time::Instant::now();
        stage.run(&format!("insert into notes values ({id}, 'n')")).await;
        until_within(Duration::from_secs(10), "the document", || async {
            stage.document("notes", &id.to_string()).map(|_| ())
        })
        .await;
        taken.push(began.elapsed());
    }
    taken.sort();
    eprintln!("one change when idle: median {:?}, slowest {:?} (looked at every 25 ms)", taken[10], taken[19]);
    assert!(taken[10] < Duration::from_secs(2), "{taken:?}");
    stage.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_may_pause_and_resume_and_fill_again() {
    let mut stage = notes("pause").await;
    let sink = stage.record();
    stage.run("insert into notes values (1, 'n')").await;
    stage.start().await;
    stage.settled().await;
    stage.engine().pause();
    let position = stage.write("insert into notes values (2, 'while paused')").await;
    until("the pause", || async {
        let status = stage.status().await;
        (status.get("state").and_then(|state| state.as_text()) == Some("paused")).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!stage.is_confirmed(&position).await && sink.documents("notes").len() == 1);
    stage.engine().resume();
    stage.settled().await;
    let before = sink.stored("1");
    stage.engine().backfill("notes").await;
    until("the document to be written again", || async { (sink.stored("1") > before).then_some(()) }).await;
    stage.settled().await;
    stage.close().await;
}
