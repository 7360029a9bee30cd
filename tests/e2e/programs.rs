//! Whole programs, run as a person would: torture, the demo, and a service that embeds the engine.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;

use millstream_tests::Cluster;
use millstream_tests::http::get;
use millstream_tests::wait::until;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// A program that was built beside this test.
fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its program");
    let path = test.parent().and_then(|deps| deps.parent()).expect("tests are built into deps").join(name);
    assert!(path.is_file(), "{} is not built: `cargo x test` builds everything first", path.display());
    path
}

/// Runs one to its end, which must be a success within so long.
async fn run(name: &str, arguments: &[&str], within: Duration) -> String {
    let mut command = Command::new(program(name));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(within, command.output()).await;
    let Output { status, stdout, stderr } =
        ended.unwrap_or_else(|_| panic!("{name} did not end")).expect("it can be run");
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{name} failed:\n{said}");
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn torture_of_one_minute_ends_equal_to_the_oracle() {
    let said = run("torture", &["--minutes", "1", "--seed", "1"], Duration::from_secs(500)).await;
    println!("{said}");
    assert!(said.contains("passed, seed 1"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_documents_and_ends_by_itself() {
    let said = run("demo", &["--seconds", "15"], Duration::from_secs(200)).await;
    assert!(said.contains("/metrics"), "it tells where the metrics are:\n{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_over_files_needs_no_server_and_ends_by_itself() {
    let said = run("demo", &["polling", "--seconds", "15"], Duration::from_secs(200)).await;
    assert!(said.contains("the brake is on") && said.contains("release_brake is done"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_embeds_the_engine() {
    let cluster = Cluster::shared().await;
    let database = cluster.database("embedding").await;
    let mut sql = database.connect().await;
    sql.run("create table greetings (id bigint primary key, greeting text not null); insert into greetings values (1, 'hello')")
        .await;
    let mut service = Command::new(program("examples/embed"))
        .env("DATABASE_URL", database.url())
        .env("EMBED_LISTEN", "127.0.0.1:0")
        .env("EMBED_SECONDS", "60")
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("it says where it listens");
    let port: u16 = line.rsplit(':').next().unwrap().parse().unwrap();
    let shows = async |text: &'static str| {
        until("the greeting", || async move { get(port, "/greetings").await?.1.contains(text).then_some(()) }).await;
    };
    shows("hello").await;
    sql.run("update greetings set greeting = 'good day'").await;
    shows("good day").await;
    let (_, metrics) = get(port, "/metrics").await.unwrap();
    assert!(metrics.contains("millstream_documents_written_total{engine=\"embed\""), "{metrics}");
    // As Ctrl-C.
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(service.id().unwrap() as i32), nix::sys::signal::Signal::SIGINT)
        .unwrap();
    assert_eq!(lines.next_line().await.unwrap().as_deref(), Some("shut down, drained"));
    assert!(service.wait().await.unwrap().success());
    // The slot is free once the service has ended: nobody has to wait for the server to notice.
    sql.run("select pg_drop_replication_slot('embed')").await;
}
