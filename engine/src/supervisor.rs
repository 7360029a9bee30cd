use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use millstream_actors::{Ended, Failure, IndexDesk, Meters, Waits};
use millstream_core::{SourceError, SourceErrorKind};
use millstream_model::IndexName;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::builder::OnGap;
use crate::error::{Drained, EndReason, StartError};
use crate::observer;
use crate::parts::Parts;
use crate::start::{self, Begun};
use crate::status::{EngineState, StatusBook};
use crate::topology::{self, Run, RunInputs};

/// A run that lasted so long, or that confirmed anything, counts as a success: the next failure is waited for briefly again.
const LONG_RUN: Duration = Duration::from_secs(60);

/// How long actors get to end by themselves once a run has failed.
const ABORT_AFTER: Duration = Duration::from_secs(5);

/// How a host talks to the supervisor.
#[derive(Clone)]
pub(crate) struct Control {
    pub shutdown: CancellationToken,
    pub abort: CancellationToken,
    pub paused: watch::Receiver<bool>,
}

/// The keepers of the current run's indexes; empty between runs.
#[derive(Clone, Default)]
pub(crate) struct Desks(Arc<Mutex<BTreeMap<IndexName, IndexDesk>>>);

impl Desks {
    pub fn get(&self, index: &IndexName) -> Option<IndexDesk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }

    fn set(&self, desks: BTreeMap<IndexName, IndexDesk>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = desks;
    }
}

/// Owns the engine's life: it begins a run, ends it when any actor fails or a ticket is lost, and begins the next from the
/// last ack after a growing wait. A new run begins only when every task of the old one has ended.
pub(crate) struct Supervisor {
    parts: Arc<Parts>,
    meters: Meters,
    book: Arc<StatusBook>,
    control: Control,
    desks: Desks,
    waits: Waits,
    failures: u32,
    restarts: u64,
}

/// How one run ended.
enum RunEnd {
    Drained(Drained),
    Failed(Failure),
    Invalid(Vec<millstream_core::Diagnostic>),
}

fn is_gap(failure: &Failure) -> bool {
    matches!(failure, Failure::Source(error) if error.kind() == SourceErrorKind::Gap)
}

impl From<StartError> for RunEnd {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Invalid(diagnostics) => Self::Invalid(diagnostics),
            StartError::Source(error) => Self::Failed(error.into()),
            StartError::Sink { name, error } => Self::Failed(Failure::Sink { name, error }),
            StartError::Build(error) => Self::Failed(SourceError::setup(error.to_string()).into()),
        }
    }
}

impl Supervisor {
    pub fn new(
        parts: Arc<Parts>,
        meters: Meters,
        book: Arc<StatusBook>,
        control: Control,
        desks: Desks,
        waits: Waits,
    ) -> Self {
        Self { parts, meters, book, control, desks, waits, failures: 0, restarts: 0 }
    }

    /// Runs until the host asks to stop or a new run can't help.
    pub async fn run(mut self) -> EndReason {
        let reason = loop {
            let (started, confirmed) = (Instant::now(), self.parts.board.confirmed_position());
            let failure = match self.run_once().await {
                RunEnd::Drained(drained) => break EndReason::Shutdown(drained),
                RunEnd::Invalid(diagnostics) => break EndReason::Invalid(diagnostics),
                RunEnd::Failed(failure) => failure,
            };
            self.meters.error("run", failure.kind());
            if is_gap(&failure)
                && let Ok(Some(lag)) = self.parts.capture.lag().await
            {
                // No run is left to ask: what the server says of a lost slot is shown all the same.
                observer::measure(&self.meters, &lag);
            }
            self.parts.board.set_error(&failure);
            let got_on = started.elapsed() >= LONG_RUN || self.parts.board.confirmed_position() != confirmed;
            self.failures = if got_on { 1 } else { self.failures + 1 };
            // By policy, the next run answers a gap by filling again.
            let is_answered = self.parts.on_gap == OnGap::Backfill && is_gap(&failure);
            if (failure.is_permanent() && !is_answered)
                || self.parts.settings.restarts_max.is_some_and(|most| self.failures > most)
            {
                // The host is told why, and says so once.
                tracing::debug!(error = %failure, "the engine has ended");
                break EndReason::Failed(failure);
            }
            if got_on {
                self.waits.reset();
            }
            let wait = self.waits.longer();
            tracing::warn!(error = %failure, wait_ms = wait.as_millis() as u64, "the run has ended; the next begins from the last ack");
            self.set_state(EngineState::Restarting);
            if self.control.shutdown.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                break EndReason::Shutdown(Drained::Aborted);
            }
            self.restarts += 1;
            self.book.update(&self.parts, |run| run.restarts += 1);
        };
        self.set_state(EngineState::Ended);
        reason
    }

    fn set_state(&self, state: EngineState) {
        self.book.update(&self.parts, |run| run.state = state);
    }

    async fn run_once(&mut self) -> RunEnd {
        self.set_state(EngineState::Starting);
        let begun = self.begin();
        let begun = match self.control.shutdown.run_until_cancelled(begun).await {
            Some(begun) => begun.map_err(RunEnd::from),
            None => Err(RunEnd::Drained(Drained::Clean)),
        };
        let begun = match begun {
            Ok(begun) => begun,
            Err(end) => {
                // What is not in use is free for others.
                self.parts.capture.close().await;
                self.close_sinks().await;
                return end;
            }
        };
        let paused = *self.control.paused.borrow();
        self.set_state(if paused { EngineState::Paused } else { EngineState::Running });
        match self.restarts {
            0 => tracing::info!(paused, "at work"),
            restarts => tracing::info!(paused, restarts, "at work again"),
        }
        let mut run = topology::wire(&self.parts, begun);
        self.desks.set(run.desks.clone());
        let end = self.watch(&mut run).await;
        self.desks.set(BTreeMap::new());
        run.signals.abort.cancel();
        run.actors.abort().await;
        self.parts.capture.close().await;
        self.close_sinks().await;
        end
    }

    async fn close_sinks(&self) {
        for part in &self.parts.sinks {
            // Also waits for a blocking write that an abort left behind: no run begins beside it.
            if let Err(error) = part.sink.close().await {
                tracing::warn!(sink = %part.name, %error, "the sink was not closed cleanly");
            }
        }
        self.parts.dead_letters.close().await;
    }

    /// Waits for its turn first: what the sinks keep, and their files, are the holder's until then.
    async fn begin(&self) -> Result<RunInputs, StartError> {
        let (begun, stream) = loop {
            self.parts.capture.wait_for_turn().await?;
            let begun: Begun = start::begin(&self.parts).await?;
            match self.parts.capture.live().await {
                Err(error) if error.kind() == SourceErrorKind::Held => {
                    tracing::warn!(%error, "another was faster; waits for the next turn");
                    self.close_sinks().await;
                }
                stream => break (begun, stream?),
            }
        };
        let open_letters = match self.parts.dead_letters.open().await {
            Ok(open) => open,
            Err(error) => return Err(StartError::Sink { name: "dead letters".to_owned(), error }),
        };
        let (paused, meters, book) = (self.control.paused.clone(), self.meters.clone(), self.book.clone());
        Ok(RunInputs { begun, stream, open_letters, paused, meters, book })
    }

    /// Waits until the run ends by itself or is drained.
    async fn watch(&self, run: &mut Run) -> RunEnd {
        let failure = tokio::select! {
            biased;
            () = self.control.shutdown.cancelled() => None,
            ended = run.actors.next() => Some(self.cause(run, ended).await),
            () = run.signals.alarm.raised() => Some(self.cause(run, None).await),
        };
        match failure {
            Some(failure) => RunEnd::Failed(failure),
            None => self.drain(run).await,
        }
    }

    /// Why a run ended by itself. A lost ticket is often only the sign of an actor that failed: then that one is named.
    async fn cause(&self, run: &mut Run, first: Option<Ended>) -> Failure {
        run.signals.abort.cancel();
        let mut ended = first;
        let mut early = None;
        loop {
            match ended {
                Some(Ended { result: Err(failure), .. }) => return failure,
                Some(Ended { actor, .. }) => early = early.or(Some(actor)),
                None => {}
            }
            // What can't end by itself, an abort ends.
            let next = tokio::time::timeout(ABORT_AFTER, run.actors.next()).await;
            let Ok(next) = next else {
                run.actors.abort().await;
                return early.map_or(Failure::TicketDropped("actors"), Failure::EndedEarly);
            };
            ended = match next {
                Some(next) => Some(next),
                None if run.signals.alarm.is_raised() => return Failure::TicketDropped("actors"),
                None => {
                    return early.map_or_else(|| SourceError::connection("the run ended").into(), Failure::EndedEarly);
                }
            };
        }
    }

    /// Capture and the indexes finish first: then nothing new can come, and the others end when they hold nothing.
    async fn drain(&self, run: &mut Run) -> RunEnd {
        self.set_state(EngineState::Draining);
        run.signals.drain.cancel();
        let mut producers = 1 + run.desks.len();
        loop {
            let ended = tokio::select! {
                biased;
                () = self.control.abort.cancelled() => return RunEnd::Drained(Drained::Aborted),
                () = run.signals.alarm.raised() => return RunEnd::Drained(Drained::Aborted),
                ended = run.actors.next() => ended,
            };
            match ended {
                None => return RunEnd::Drained(Drained::Clean),
                Some(Ended { result: Err(failure), actor }) => {
                    tracing::warn!(actor, error = %failure, "an actor failed while draining");
                    return RunEnd::Drained(Drained::Aborted);
                }
                Some(Ended { actor, .. }) if actor == "capture" || actor.starts_with("index ") => {
                    producers -= 1;
                    if producers == 0 {
                        run.desks.clear();
                        self.desks.set(BTreeMap::new());
                        run.signals.finish.cancel();
                    }
                }
                Some(_) => {}
            }
        }
    }
}
