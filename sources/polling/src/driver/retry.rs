//! Waits between attempts: drawn from nothing to a bound that doubles, so that many who failed together do not come back together.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use backon::{BackoffBuilder, Retryable};
use futures::future::BoxFuture;

use crate::{BackendError, PollingSettings};

/// The bounds of a call's waits, and where they are drawn.
#[derive(Debug)]
pub(crate) struct Patience {
    first: Duration,
    longest: Duration,
    // Held for a draw only, never across an await.
    chance: Mutex<fastrand::Rng>,
}

/// Waits by full jitter: as many as there are attempts after the first.
pub(crate) struct FullJitter {
    bound: Duration,
    longest: Duration,
    left: u32,
    chance: fastrand::Rng,
}

impl Patience {
    pub(crate) fn new(settings: &PollingSettings) -> Self {
        let chance = Mutex::new(fastrand::Rng::with_seed(settings.seed));
        Self { first: settings.retry_first, longest: settings.retry_longest, chance }
    }

    /// A draw from 0 to 1.
    pub(crate) fn draw(&self) -> f64 {
        self.chance.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    /// The waits of one call.
    pub(crate) fn waits(&self, attempts: u32) -> FullJitter {
        let chance = self.chance.lock().unwrap_or_else(PoisonError::into_inner).fork();
        FullJitter { bound: self.first, longest: self.longest, left: attempts.saturating_sub(1), chance }
    }

    /// Calls until it works, fails for good, or attempts run out. `tell` hears of each failure that is tried again.
    pub(crate) async fn call<'c, T: Send>(
        &self,
        attempts: u32,
        timeout: Duration,
        mut tell: impl FnMut(&BackendError, Duration) + Send,
        call: impl Fn() -> BoxFuture<'c, Result<T, BackendError>> + Send + Sync,
    ) -> Result<T, BackendError> {
        (|| within(timeout, call()))
            .retry(Ready(Some(self.waits(attempts))))
            .when(BackendError::is_retryable)
            .adjust(|error: &BackendError, wait: Option<Duration>| wait.map(|wait| wait.max(asked(error))))
            .notify(|error: &BackendError, wait: Duration| tell(error, wait))
            .await
    }
}

/// What the source asked for.
pub(crate) fn asked(error: &BackendError) -> Duration {
    error.retry_after().unwrap_or_default()
}

/// A call that is given up when it takes too long.
pub(crate) async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, BackendError>>,
) -> Result<T, BackendError> {
    match tokio::time::timeout(timeout, call).await {
        Ok(answer) => answer,
        Err(_) => Err(BackendError::transient(format!("the source did not answer in time (timeout={timeout:?})"))),
    }
}

impl Iterator for FullJitter {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        self.left = self.left.checked_sub(1)?;
        let wait = self.bound.mul_f64(self.chance.f64());
        self.bound = (self.bound * 2).min(self.longest);
        Some(wait)
    }
}

/// Waits that are made already.
struct Ready(Option<FullJitter>);

impl BackoffBuilder for Ready {
    type Backoff = FullJitter;

    fn build(self) -> FullJitter {
        self.0.expect("built once, of what it was made with")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;

    use super::*;

    #[test]
    fn waits_are_drawn_below_a_bound_that_doubles() {
        let settings = PollingSettings::default().with(|settings| settings.seed = 7);
        let patience = Patience::new(&settings);
        let waits: Vec<Duration> = patience.waits(12).collect();
        assert_eq!(waits.len(), 11);
        let mut bound = settings.retry_first;
        for wait in &waits {
            assert!(*wait <= bound, "{wait:?} above {bound:?}");
            bound = (bound * 2).min(settings.retry_longest);
        }
        assert!(waits.iter().any(|wait| *wait > settings.retry_first), "the bound grows");
        assert_eq!(Patience::new(&settings).waits(12).collect::<Vec<_>>(), waits, "one seed, one sequence");
    }

    #[tokio::test(start_paused = true)]
    async fn a_source_that_asks_for_patience_gets_it() {
        let patience = Patience::new(&PollingSettings::default());
        let began = tokio::time::Instant::now();
        let tries = AtomicU32::new(0);
        let call = || {
            let is_early = tries.fetch_add(1, Ordering::Relaxed) < 2;
            let slow_down = || BackendError::throttled("slow down", Some(Duration::from_secs(90)));
            async move { if is_early { Err(slow_down()) } else { Ok(7) } }.boxed()
        };
        let answer = patience.call(3, Duration::from_secs(1), |_, _| {}, call).await;
        assert_eq!((answer.unwrap(), tries.load(Ordering::Relaxed)), (7, 3));
        assert!(began.elapsed() >= Duration::from_secs(180));
    }

    #[tokio::test(start_paused = true)]
    async fn what_asking_again_can_not_mend_is_not_asked_again() {
        let patience = Patience::new(&PollingSettings::default());
        let tries = AtomicU32::new(0);
        let call = || {
            tries.fetch_add(1, Ordering::Relaxed);
            async { Err::<(), _>(BackendError::configuration("no such tag")) }.boxed()
        };
        let error = patience.call(5, Duration::from_secs(1), |_, _| {}, call).await.unwrap_err();
        assert_eq!((error.to_string().as_str(), tries.load(Ordering::Relaxed)), ("no such tag", 1));
        let hangs = || std::future::pending::<Result<(), BackendError>>().boxed();
        let error = patience.call(1, Duration::from_secs(1), |_, _| {}, hangs).await.unwrap_err();
        assert!(error.to_string().contains("did not answer in time"), "{error}");
    }
}
