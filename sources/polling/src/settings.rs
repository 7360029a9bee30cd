use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Result, SourceError};

use crate::model::Timestamp;

/// The system's clock, or a test's.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The values that an operator of a polled source tunes.
#[derive(Clone)]
#[non_exhaustive]
pub struct PollingSettings {
    /// Labels the metrics as `engine`. Default: empty; best the engine's own name.
    pub engine: String,
    /// Time from the end of a cycle to the begin of the next. Default 30 s, at least `floor`. Longer: less load on the source;
    /// shorter: changes are seen sooner.
    pub every: Duration,
    /// The least that `every` may be. Default 30 s; zero in tests. It keeps a slip of the pen from hammering a source.
    pub floor: Duration,
    /// Part of `every` that is added by chance. Default 0.1, 0 to 1. More: many drivers of one source spread better; less: steadier.
    pub jitter: f64,
    /// Rows in one append batch. Default 1000, at least 1. More: fewer transactions; fewer: a failing batch defers less.
    pub batch_rows: usize,
    /// Time that one call of the backend may take. Default 5 min. Longer: slow sources get through; shorter: a hanging one is
    /// noticed sooner.
    pub call_timeout: Duration,
    /// Attempts of a call that fails for the moment, in one cycle. Default 5, at least 1. More: rides out longer outages; fewer:
    /// the cycle ends sooner.
    pub attempts: u32,
    /// The bound of the first wait between attempts. Default 500 ms. Waits are drawn from nothing to the bound, which doubles.
    pub retry_first: Duration,
    /// The highest bound of a wait. Default 30 s. A source that asks for more patience gets it.
    pub retry_longest: Duration,
    /// Time between cycles while the source can't be reached: each asks once. Default 5 min, at least `every`. Longer: less load on
    /// what is down; shorter: it is back sooner.
    pub probe_every: Duration,
    /// How old an instant may be. Default 10 years. Older ones are skipped, counted and named.
    pub age_max: Duration,
    /// How far ahead of the clock an instant may be. Default 1 day. Those further ahead are skipped, counted and named.
    pub ahead_max: Duration,
    /// Pages of one stream in one cycle. Default 10 000, at least 1. A bound for a backend that never ends; the rest comes in the
    /// next cycle.
    pub pages_max: usize,
    /// Rows in one change batch. Default 1000, at least 1. More: fewer tickets; fewer: smaller pieces.
    pub change_rows: usize,
    /// Change batches of one stream that are told and not acked. Default 32, at least 1. More: throughput; fewer: a stream that is
    /// blocked at a sink takes fewer tickets from the others.
    pub batches_in_flight: usize,
    /// Commands of the backend's own that run at once. Default 8, at least 1. More are refused.
    pub commands_at_once: usize,
    /// How long a driver waits for a store that another one has. Default 60 s. Longer: a restart gets in although the server has
    /// not yet noticed that the process before it is dead; shorter: a second driver fails sooner.
    pub hold_wait: Duration,
    /// Seeds the draws of waits.
    pub seed: u64,
    /// Tells what time it is, to judge instants and to date reports.
    pub clock: Clock,
}

const DAY: Duration = Duration::from_secs(86_400);

impl Default for PollingSettings {
    fn default() -> Self {
        Self {
            engine: String::new(),
            every: Duration::from_secs(30),
            floor: Duration::from_secs(30),
            jitter: 0.1,
            batch_rows: 1000,
            call_timeout: Duration::from_secs(300),
            attempts: 5,
            retry_first: Duration::from_millis(500),
            retry_longest: Duration::from_secs(30),
            probe_every: Duration::from_secs(300),
            age_max: DAY * 3653,
            ahead_max: DAY,
            pages_max: 10_000,
            change_rows: 1000,
            batches_in_flight: 32,
            commands_at_once: 8,
            hold_wait: Duration::from_secs(60),
            seed: 0,
            clock: Arc::new(Timestamp::now),
        }
    }
}

impl PollingSettings {
    /// The engine's name, which labels the metrics.
    #[must_use]
    pub fn with_engine(mut self, name: impl Into<String>) -> Self {
        self.engine = name.into();
        self
    }

    /// How often a source is asked.
    #[must_use]
    pub fn with_every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }

    /// The least that `every` may be; zero: anything goes.
    #[must_use]
    pub fn with_floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    /// Another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Changes any of them.
    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Sees that an interval is not below the floor.
    ///
    /// # Errors
    /// `Setup`, naming both.
    pub fn check_every(&self, every: Duration) -> Result<Duration> {
        if every < self.floor {
            let (every, floor) = (every.as_secs_f64(), self.floor.as_secs_f64());
            return Err(SourceError::setup(format!(
                "the interval is below the floor (every={every}s, floor={floor}s)"
            ))
            .with_remedy("ask less often, or turn the floor off if the source is yours"));
        }
        Ok(every)
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }
}

impl std::fmt::Debug for PollingSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PollingSettings")
            .field("every", &self.every)
            .field("floor", &self.floor)
            .finish_non_exhaustive()
    }
}
