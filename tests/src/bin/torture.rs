//! Writes a shop at random while the host is killed with -9 and Postgres is restarted, and judges the end by plain SQL.
//!
//! Exits 0 when every index equals its oracle, else fails with the first differences. The seed replays what was chosen
//! (not how the machine interleaved it).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Parser;
use millstream_tests::shop::{INDEXES, TABLES, Tally, Writer, fill};
use millstream_tests::{Cluster, Database, Random, Stage, Stop, connect};
use tokio::time::{Instant, sleep, sleep_until};

/// Everything that happens to a host in a bad year, in a few minutes.
#[derive(Debug, Parser)]
struct Options {
    /// How long to write, in minutes.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// What chance begins with; printed, so that a failed run can be told again.
    #[arg(long)]
    seed: Option<u64>,
    /// How often the host is killed; without it, eleven times a minute.
    #[arg(long)]
    kills: Option<u64>,
    /// How often Postgres is restarted; without it, once a minute and twice more.
    #[arg(long)]
    restarts: Option<u64>,
    /// Sessions that write at once.
    #[arg(long, default_value_t = 4)]
    writers: u64,
    /// About how many users the shop has.
    #[arg(long, default_value_t = 300)]
    users: u64,
}

/// What happens to the host or the server.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Blow {
    KillHost,
    Restart(Stop),
}

#[tokio::main]
async fn main() {
    let options = Options::parse();
    let seed = options.seed.unwrap_or_else(|| u64::from(std::process::id()));
    println!("torture: seed {seed}, {} minutes, {} writers, {} users", options.minutes, options.writers, options.users);
    let mut random = Random::new(seed);

    // Writers that run into each other's locks are told soon.
    let cluster = Cluster::builder().conf("deadlock_timeout = 100ms").start().await;
    let mut stage = Stage::on(&cluster, "torture").await.with_patience(Duration::from_secs(300));
    stage.run(TABLES).await;
    stage.run(&fill(options.users)).await;
    for index in INDEXES {
        stage.index(index.name, index.schema, index.oracle);
    }

    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..options.writers)
        .map(|_| tokio::spawn(write(stage.database().clone(), options.users, random.fork(), over.clone())))
        .collect();
    // The first filling is under fire like all the rest.
    stage.spawn();
    let (kills, restarts) = strike(&mut stage, &options, &mut random).await;

    over.store(true, Ordering::Relaxed);
    let mut tally = Tally::default();
    for writer in writers {
        tally.add(&writer.await.expect("a writer does not panic"));
    }
    println!("torture: {tally}");
    println!("torture: {kills} kills of the host, {restarts} restarts of Postgres; now quiet");
    stage.reconnect().await;
    let began = Instant::now();
    stage.settled().await;
    println!("torture: caught up in {:.1} s", began.elapsed().as_secs_f64());
    for index in INDEXES {
        let documents = stage.fold().documents(index.name).len();
        println!("torture: {} equals the oracle ({documents} documents)", index.name);
    }
    println!("torture: {} lines written", stage.fold().lines());
    assert!(stage.stop().await, "the host did not drain");
    stage.close().await;
    println!("torture: passed, seed {seed}");
}

/// Deals the blows, spread at random over the time; returns how many of each were dealt.
async fn strike(stage: &mut Stage, options: &Options, random: &mut Random) -> (u64, u64) {
    let begin = Instant::now();
    let length = Duration::from_secs_f64(options.minutes * 60.0);
    let (mut kills, mut restarts) = (0, 0);
    for (at, blow) in plan(options, length, random) {
        sleep_until(begin + at).await;
        assert!(stage.is_running(), "the host ended by itself");
        match blow {
            Blow::KillHost => {
                stage.kill();
                stage.spawn();
                kills += 1;
            }
            Blow::Restart(how) => {
                let cluster = stage.database().cluster().clone();
                let took = cluster.stop(how).await;
                sleep(Duration::from_millis(random.below(1500))).await;
                cluster.start().await;
                restarts += 1;
                println!("torture: {:>5.1} s: {how:?} stop of Postgres took {took:?}", begin.elapsed().as_secs_f64());
            }
        }
    }
    sleep_until(begin + length).await;
    (kills, restarts)
}

/// When each blow falls, in order.
fn plan(options: &Options, length: Duration, random: &mut Random) -> Vec<(Duration, Blow)> {
    let kills = options.kills.unwrap_or((options.minutes * 11.0).ceil() as u64);
    let restarts = options.restarts.unwrap_or(options.minutes.ceil() as u64 + 2);
    let ways = [Stop::Fast, Stop::Immediate, Stop::Kill];
    let blows = (0..kills).map(|_| Blow::KillHost);
    let blows = blows.chain((0..restarts).map(|at| Blow::Restart(ways[at as usize % ways.len()])));
    let mut plan: Vec<_> = blows.map(|blow| (length.mul_f64(random.below(1_000_000) as f64 / 1e6), blow)).collect();
    plan.sort_by_key(|(at, _)| *at);
    plan
}

/// Writes until it is over, through every restart of the server; returns what was committed for certain.
async fn write(database: Database, users: u64, mut random: Random, over: Arc<AtomicBool>) -> Tally {
    let writer = Writer::new(users).with_truncates();
    let mut tally = Tally::default();
    let mut session = None;
    while !over.load(Ordering::Relaxed) {
        if session.is_none() {
            session = connect(&database.url()).await.ok();
        }
        let Some(sql) = &mut session else {
            sleep(Duration::from_millis(50)).await;
            continue;
        };
        if writer.transaction(sql, &mut random, &mut tally).await.is_err() {
            // A deadlock leaves an open transaction behind, a restart no session at all: begin anew either way.
            session = None;
        }
        sleep(Duration::from_millis(random.below(30))).await;
    }
    tally
}
