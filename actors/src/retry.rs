use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::Settings;

pub(crate) const FENCE_WAIT_FIRST: Duration = Duration::from_millis(2);
const FENCE_WAIT_LONGEST: Duration = Duration::from_millis(500);

/// Growing waits between tries of one thing, with jitter, for ever, capped.
#[derive(Debug)]
pub struct Waits {
    builder: ExponentialBuilder,
    current: ExponentialBackoff,
    longest: Duration,
}

impl Waits {
    /// Waits as the settings say. `seed` makes the jitter replay.
    pub fn new(settings: &Settings, seed: u64) -> Self {
        Self::between(settings.retry_first, settings.retry_longest, seed)
    }

    /// Waits from `first` up to `longest`.
    pub fn between(first: Duration, longest: Duration, seed: u64) -> Self {
        let longest = longest.max(first);
        let builder = ExponentialBuilder::default()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .with_jitter_seed(seed);
        Self { builder, current: builder.build(), longest }
    }

    /// The next wait, longer than the last.
    pub fn longer(&mut self) -> Duration {
        // Jitter may lift a wait above the cap.
        self.current.next().unwrap_or(self.longest).min(self.longest)
    }

    /// After a success: the next wait is short again.
    pub fn reset(&mut self) {
        self.current = self.builder.build();
    }
}

/// How long to wait before what a read could not see is read again: short, growing with the tries, capped.
pub(crate) fn fence_wait(tries: u32) -> Duration {
    FENCE_WAIT_FIRST.saturating_mul(1 << tries.min(10)).min(FENCE_WAIT_LONGEST)
}
