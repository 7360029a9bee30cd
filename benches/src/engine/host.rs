use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use clap::Args;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use millstream::config::Config;
use millstream::sinks::{FileProgress, JsonlSink, NullSink};
use millstream::{EngineBuilder, EngineState, Handle};
use tokio::sync::mpsc;

use super::nothing::CaptureOnly;
use super::tap::Tap;
use super::{Event, Sample};
use crate::Result;
use crate::clock::now_ns;

/// How often it looks whether an asked position is confirmed.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Events written out together at most.
const TOGETHER: usize = 1_000;

/// What the engine's process is told at its start.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// The configuration file; its sinks are not used.
    #[arg(long)]
    config: PathBuf,
    /// `null`, or a file of JSON Lines.
    #[arg(long)]
    sink: PathBuf,
    /// The folder of the null sink's progress.
    #[arg(long)]
    progress: PathBuf,
    /// Touch nothing: capture, tickets and acks alone.
    #[arg(long)]
    capture_only: bool,
    /// Tell of every document that is written.
    #[arg(long)]
    each: bool,
    /// Milliseconds between two samples.
    #[arg(long, default_value_t = 200)]
    sample_ms: u64,
}

/// Runs an engine and tells on standard output what happens to it, until standard input says `stop` or closes.
///
/// # Errors
/// When the configuration can't be used or the engine does not start.
pub async fn host(args: HostArgs) -> Result {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(std::io::stderr).init();
    let builder = millstream::metrics::configure(PrometheusBuilder::new()).map_err(|error| error.to_string())?;
    let metrics = builder.install_recorder().map_err(|error| error.to_string())?;
    let (told, events) = channel();
    let handle_slot = Arc::new(std::sync::OnceLock::new());
    let every = Arc::new(AtomicU64::new(args.sample_ms));
    let (period, writer_slot) = (every.clone(), handle_slot.clone());
    let writer = std::thread::spawn(move || write_out(&events, &period, &metrics, &writer_slot));
    let last_write = Arc::new(AtomicU64::new(0));
    let engine = builder_of(&args, &told, &last_write)?.build().map_err(|error| error.to_string())?;
    let handle = engine.start().await.map_err(|error| error.to_string())?;
    let _ = handle_slot.set(handle.clone());
    let watching = tokio::spawn(tell_running(handle.clone(), told.clone()));
    let reason = tokio::select! {
        reason = handle.wait() => format!("{reason:?}"),
        () = obey(&handle, &told, &last_write, &every) => format!("{:?}", handle.shutdown(Duration::from_secs(20)).await),
    };
    watching.abort();
    let _ = told.send(Event::Ended(reason));
    drop(told);
    // The writer ends with the event of the end.
    writer.join().map_err(|_| "the writer of events panicked".to_owned())
}

fn builder_of(args: &HostArgs, told: &Sender<Event>, last_write: &Arc<AtomicU64>) -> Result<EngineBuilder> {
    let config = Config::load(&args.config).map_err(|error| error.to_string())?;
    let builder = config.builder_without_sinks().map_err(|error| error.to_string())?;
    let builder = if args.capture_only {
        builder.source(CaptureOnly(config.postgres_source().map_err(|error| error.to_string())?))
    } else {
        builder
    };
    let (told, last_write, each) = (told.clone(), last_write.clone(), args.each);
    Ok(if args.sink.as_os_str() == "null" {
        let tap = Tap { inner: NullSink::new(), told, last_write, each };
        builder.sink_with_progress("out", tap, FileProgress::new(&args.progress, "out"))
    } else {
        builder.sink("out", Tap { inner: JsonlSink::file(&args.sink), told, last_write, each })
    })
}

async fn tell_running(handle: Handle, told: Sender<Event>) {
    let mut status = handle.status_watch();
    let mut was = EngineState::Starting;
    loop {
        let state = status.borrow_and_update().state;
        if state == EngineState::Running && was != state {
            let _ = told.send(Event::Running(now_ns()));
        }
        was = state;
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Does what standard input says, until it says `stop` or closes.
async fn obey(handle: &Handle, told: &Sender<Event>, last_write: &Arc<AtomicU64>, every: &AtomicU64) {
    let (tx, mut lines) = mpsc::channel(16);
    // A thread of its own, which ends with the process: reading standard input can't be cancelled.
    std::thread::spawn(move || {
        for line in std::io::stdin().lines() {
            let Ok(line) = line else { return };
            if tx.blocking_send(line).is_err() {
                return;
            }
        }
    });
    while let Some(line) = lines.recv().await {
        match line.split_once(' ').unwrap_or((&line, "")) {
            ("until", position) => {
                let Ok(position) = position.parse() else { continue };
                tokio::spawn(tell_reached(handle.clone(), told.clone(), last_write.clone(), position));
            }
            ("backfill", index) => {
                // A run's keepers are there a moment after it says that it runs.
                while !handle.backfill(index).await {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            ("sample", ms) => every.store(ms.parse().unwrap_or(200), Ordering::Relaxed),
            ("stop", _) => return,
            _ => {}
        }
    }
}

async fn tell_reached(handle: Handle, told: Sender<Event>, last_write: Arc<AtomicU64>, position: u64) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        if handle.status().confirmed_position.is_some_and(|confirmed| confirmed >= position) {
            let _ = told.send(Event::Reached { at: now_ns(), last_write: last_write.load(Ordering::Relaxed) });
            return;
        }
    }
}

/// Writes events out, and a sample now and then, on a thread of its own: the engine never waits for the pipe.
fn write_out(
    events: &Receiver<Event>,
    every: &AtomicU64,
    metrics: &PrometheusHandle,
    handle: &std::sync::OnceLock<Handle>,
) {
    let mut out = BufWriter::with_capacity(64 * 1024, std::io::stdout());
    let mut next_sample = Instant::now();
    loop {
        if next_sample <= Instant::now() {
            next_sample = Instant::now() + Duration::from_millis(every.load(Ordering::Relaxed).max(1));
            write_sample(&mut out, metrics, handle);
        }
        let mut waiting = match events.recv_timeout(next_sample.saturating_duration_since(Instant::now())) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // What comes alone goes at once; of what comes together so much goes together.
        for _ in 0..TOGETHER {
            let Some(event) = waiting.take() else { break };
            let is_last = matches!(event, Event::Ended(_));
            if is_last {
                write_sample(&mut out, metrics, handle);
            }
            if writeln!(out, "{event}").is_err() || is_last {
                let _ = out.flush();
                return;
            }
            waiting = events.try_recv().ok();
        }
        // Nobody reads any more: the bench has gone.
        if out.flush().is_err() {
            return;
        }
    }
}

fn write_sample(out: &mut impl Write, metrics: &PrometheusHandle, handle: &std::sync::OnceLock<Handle>) {
    let Some(handle) = handle.get() else { return };
    metrics.run_upkeep();
    let text = metrics.render();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{")).collect();
    let status = serde_json::to_string(&handle.status()).unwrap_or_default();
    // A pipe that is gone shows at the next flush.
    let _ = writeln!(out, "sample {} {}", now_ns(), lines.len());
    let _ = writeln!(out, "{status}");
    for line in lines {
        let _ = writeln!(out, "{line}");
    }
}

impl Sample {
    /// Reads what [`write_sample`] writes, without its first line.
    pub(super) fn parse(at: u64, status: &str, metrics: &str) -> Self {
        Self {
            at,
            status: serde_json::from_str(status).unwrap_or_default(),
            metrics: crate::meters::Metrics::parse(metrics),
        }
    }
}
