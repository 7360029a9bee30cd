//! Shows what Millstream does, on a machine with nothing but a Postgres: its own server, a small shop, and documents that
//! follow the rows while they change. Leaves nothing behind.

mod polling;
mod tail;

use std::time::Duration;

use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use millstream_tests::shop::{INDEXES, TABLES, Tally, Writer, fill};
use millstream_tests::{Cluster, Json, Random, Stage, documents_path};
use tokio::time::{Instant, sleep};

use crate::tail::{Tail, short};

/// Starts a Postgres of its own, fills a small shop, runs millstream over it and changes rows.
#[derive(Debug, Parser)]
struct Options {
    /// What the documents are made of.
    #[arg(value_enum, default_value_t = Source::Postgres)]
    source: Source,
    /// End by itself after so many seconds; without it, on Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
    /// How many users the shop has.
    #[arg(long, default_value_t = 20_000)]
    users: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Source {
    /// Rows of a Postgres server of its own.
    Postgres,
    /// A folder of CSV files; no server at all.
    Polling,
}

/// What is shown, one after the other: what it is, and the statement.
const CHANGES: [(&str, &str); 5] = [
    ("an update", "update products set price = price + 1 where id = 8"),
    ("a child moved between parents", "update orders set user_id = 1 + user_id % 100 where id = 42"),
    ("a delete, with all that hangs on it", "delete from users where id = 11"),
    ("a changed key", "update users set id = 1000001 where id = 12"),
    ("many rows at once", "update companies set country = 'SE' where country is null and id < 20"),
];

#[tokio::main]
async fn main() {
    let options = Options::parse();
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => println!("\nCtrl-C: cleaning up"),
        () = show(&options) => {}
    }
    // Dropping it all has ended the host and the server and removed every file.
}

async fn show(options: &Options) {
    let end = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    match options.source {
        Source::Postgres => show_postgres(options, end).await,
        Source::Polling => polling::show(end).await,
    }
}

async fn show_postgres(options: &Options, end: Option<Instant>) {
    println!("Starting a Postgres server of our own ...");
    let cluster = Cluster::builder().start().await;
    let mut stage = Stage::on(&cluster, "shop").await.with_patience(Duration::from_secs(600));
    println!("Filling a shop: {} users, {} orders, products, tags, companies ...", options.users, options.users * 2);
    stage.run(TABLES).await;
    stage.run(&fill(options.users)).await;
    stage.run("analyze").await;
    for index in INDEXES {
        stage.index(index.name, index.schema, index.oracle);
    }

    println!("Running millstream over it; configuration and schemas are in {}\n", stage.folder().path().display());
    stage.spawn();
    fill_with_bar(&mut stage).await;

    let mut tail = Tail::at_end(documents_path(stage.folder().path()));
    for (what, statement) in CHANGES {
        println!("\n--- {what}: {statement}");
        let began = Instant::now();
        stage.run(statement).await;
        let mut lines = tail.wait().await;
        let first = began.elapsed();
        stage.until_confirmed().await;
        lines.extend(tail.lines());
        // What the statement names first, then what hangs on it.
        lines.sort_by_key(|line| (!line.contains("\"op\":\"delete\""), !line.contains("\"index\":\"users\"")));
        println!("    the first document after {} ms; all {} confirmed to the server", first.as_millis(), lines.len());
        lines.iter().take(3).for_each(|line| println!("    {}", short(line, 150)));
    }
    stage.compare().await;
    println!("\nEvery document equals what plain SQL says.");
    explain(&stage);
    keep_changing(&mut stage, options, &mut tail, end).await;
    stage.stop().await;
    stage.close().await;
}

/// A progress bar over all indexes, fed by `/status`.
async fn fill_with_bar(stage: &mut Stage) {
    let style = "{msg:>10} [{bar:40}] {human_pos}/{human_len} rows, {per_sec}";
    let bar = ProgressBar::new(1);
    bar.set_style(ProgressStyle::with_template(style).expect("the template is right").progress_chars("=> "));
    bar.set_message("filling");
    loop {
        assert!(stage.is_running(), "millstream ended by itself; its log:\n{}", stage.log());
        let status = stage.status().await;
        let (mut done, mut expected, mut live) = (0, 0, 0);
        for index in INDEXES {
            let index = status.get("indexes").and_then(|indexes| indexes.get(index.name));
            done += number(index, "rows_done");
            expected += number(index, "rows_expected");
            live += usize::from(index.and_then(|index| index.get("state")?.as_text()) == Some("live"));
        }
        bar.set_length(expected.max(done).max(1));
        bar.set_position(done);
        if live == INDEXES.len() {
            break;
        }
        sleep(Duration::from_millis(100)).await;
    }
    bar.finish();
    println!("Every index is live.");
}

fn number(index: Option<&Json>, name: &str) -> u64 {
    match index.and_then(|index| index.get(name)) {
        Some(Json::Number(digits)) => digits.parse().unwrap_or(0),
        _ => 0,
    }
}

fn explain(stage: &Stage) {
    let port = stage.host().port();
    let database = stage.database();
    println!("\nNow try, in another terminal:");
    println!("  curl http://127.0.0.1:{port}/metrics     what it counts and times, for Prometheus");
    println!("  curl http://127.0.0.1:{port}/status      what it is doing");
    println!("  tail -f {}", documents_path(stage.folder().path()).display());
    println!("  psql -h 127.0.0.1 -p {} -U postgres {}", database.cluster().port(), database.name());
    println!("  ... and change a row: update users set name = 'You' where id = 1;\n");
}

/// Changes rows at random and shows a document now and then, until the end.
async fn keep_changing(stage: &mut Stage, options: &Options, tail: &mut Tail, end: Option<Instant>) {
    match end {
        Some(_) => println!("Meanwhile rows change at random:"),
        None => println!("Meanwhile rows change at random, until Ctrl-C:"),
    }
    let (writer, mut random, mut tally) = (Writer::new(options.users), Random::new(1), Tally::default());
    let mut sql = stage.database().connect().await;
    let mut shown = Instant::now();
    let mut written = 0;
    while end.is_none_or(|end| Instant::now() < end) {
        assert!(stage.is_running(), "millstream ended by itself; its log:\n{}", stage.log());
        if writer.transaction(&mut sql, &mut random, &mut tally).await.is_err() {
            sql = stage.database().connect().await;
        }
        sleep(Duration::from_millis(20)).await;
        if shown.elapsed() > Duration::from_secs(1) {
            let lines = tail.lines();
            written += lines.len();
            if let Some(line) = lines.last() {
                println!("  {:>6} documents: {}", written, short(line, 130));
            }
            shown = Instant::now();
        }
    }
    stage.settled().await;
    println!("\nCommitted: {tally}.\nEvery document equals what plain SQL says. Cleaning up.");
}
