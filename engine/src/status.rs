use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use millstream_actors::{IndexStatus, StageDepth};
use millstream_cdc::Lag;
use millstream_model::IndexName;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::parts::Parts;

/// How often the supervisor shows that it is alive.
const TICK_EVERY: Duration = Duration::from_secs(1);

/// What an engine is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EngineState {
    /// It prepares the source and the sinks, or waits for another engine to give up the source.
    #[default]
    Starting,
    /// It is at work.
    Running,
    /// It takes no changes until it is resumed.
    Paused,
    /// A run has failed; the next one begins after a wait.
    Restarting,
    /// It finishes what is under way.
    Draining,
    /// It has ended for good.
    Ended,
}

/// A snapshot of an engine, for people and scripts.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct EngineStatus {
    /// The engine's name.
    pub name: String,
    /// What it is doing.
    pub state: EngineState,
    /// What it waits for, in a sentence: another process to give up the slot, open transactions to end.
    pub detail: Option<String>,
    /// Runs that have failed and been started again.
    pub restarts: u64,
    /// True when a sink fails at present.
    pub degraded: bool,
    /// The stage that the others wait for: `capture`, `resolve`, `build` or `sink NAME`; `None` when idle.
    pub limiting_stage: Option<String>,
    /// Each index.
    pub indexes: BTreeMap<IndexName, IndexStatus>,
    /// The channels of the current run.
    pub channels: Vec<StageDepth>,
    /// The sinks that fail at present.
    pub sinks_failing: Vec<String>,
    /// Change batches under way.
    pub tickets_open: usize,
    /// Seconds since the oldest of them was admitted.
    pub oldest_ticket_seconds: Option<f64>,
    /// Seconds since the last confirmation.
    pub last_ack_seconds: Option<f64>,
    /// The last position that was confirmed, as the source writes it.
    pub confirmed: Option<String>,
    /// The last position that was confirmed, as a number that can be compared.
    pub confirmed_position: Option<u64>,
    /// Bytes between the source's head and the resume point.
    pub lag_bytes: Option<u64>,
    /// Seconds that the last heartbeat took from the source to us.
    pub heartbeat_seconds: Option<f64>,
    /// Documents in the dead letters that still fail.
    pub dead_letters_open: usize,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// Seconds since then: an error long past is most likely mended.
    pub last_error_seconds: Option<f64>,
}

/// Puts the snapshot together from what the parts tell.
pub(crate) struct StatusBook {
    watch: watch::Sender<EngineStatus>,
    run: Mutex<RunStatus>,
    ticked: Mutex<Instant>,
}

/// What the current run tells.
#[derive(Default)]
pub(crate) struct RunStatus {
    pub state: EngineState,
    pub restarts: u64,
    pub lag: Option<Lag>,
    pub heartbeat: Option<Duration>,
    pub depths: Option<Box<dyn Fn() -> Vec<StageDepth> + Send>>,
    pub dead_letters_open: Option<Box<dyn Fn() -> usize + Send>>,
}

impl StatusBook {
    pub fn new() -> Self {
        Self { watch: watch::Sender::default(), run: Mutex::default(), ticked: Mutex::new(Instant::now()) }
    }

    /// Shows that the task that polls it is alive, for as long as it is.
    pub async fn tick(&self) -> Infallible {
        let mut ticks = tokio::time::interval(TICK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let now = ticks.tick().await;
            *self.ticked.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
    }

    /// How long ago it did.
    pub fn last_tick(&self) -> Duration {
        self.ticked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// Changes what the run tells and publishes it.
    pub fn update(&self, parts: &Parts, change: impl FnOnce(&mut RunStatus)) {
        change(&mut self.run.lock().unwrap_or_else(PoisonError::into_inner));
        self.publish(parts);
    }

    /// Publishes a new snapshot.
    pub fn publish(&self, parts: &Parts) {
        self.watch.send_replace(self.snapshot(parts));
    }

    /// The snapshot as of now.
    pub fn snapshot(&self, parts: &Parts) -> EngineStatus {
        let run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let board = &parts.board;
        let failing = board.sinks_failing();
        let names = parts.sinks.iter().enumerate().filter(|(number, _)| failing.contains(*number));
        let channels = run.depths.as_ref().map(|depths| depths()).unwrap_or_default();
        let (last_error, last_error_age) = board.last_error().unzip();
        EngineStatus {
            name: parts.name.to_string(),
            state: run.state,
            detail: parts.capture.waits_for(),
            restarts: run.restarts,
            degraded: !failing.is_empty(),
            limiting_stage: limiting_stage(&channels),
            indexes: board.indexes(),
            sinks_failing: names.map(|(_, sink)| sink.name.to_string()).collect(),
            tickets_open: board.tickets_open.load(std::sync::atomic::Ordering::Relaxed),
            oldest_ticket_seconds: board.oldest_ticket_age().map(|age| age.as_secs_f64()),
            last_ack_seconds: board.last_ack_age().map(|age| age.as_secs_f64()),
            confirmed: board.confirmed_position().map(|position| position.to_string()),
            confirmed_position: board.confirmed_position().map(|position| position.0),
            lag_bytes: run.lag.as_ref().and_then(|lag| lag.confirmed_bytes),
            heartbeat_seconds: run.heartbeat.map(|age| age.as_secs_f64()),
            dead_letters_open: run.dead_letters_open.as_ref().map_or(0, |open| open()),
            last_error,
            last_error_seconds: last_error_age.map(|age| age.as_secs_f64()),
            channels,
        }
    }

    /// Follows the snapshots.
    pub fn watch(&self) -> watch::Receiver<EngineStatus> {
        self.watch.subscribe()
    }
}

/// The stage behind the last channel that is at least half full: those before it only wait.
fn limiting_stage(channels: &[StageDepth]) -> Option<String> {
    let full = channels.iter().rev().find(|channel| channel.depth * 2 >= channel.capacity);
    let busy = || channels.iter().any(|channel| channel.depth > 0).then(|| "capture".to_owned());
    full.map(|channel| channel.channel.clone()).or_else(busy)
}
