//! A backend whose answers a test writes: for the driver's own tests and for integrators.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::model::{
    ColumnAssignment, CurveMapping, DataStream, StandardCurve, StatusEvent, StreamDescriptor, StreamFetch,
    StreamFetchRequest, StreamKey,
};
use crate::{BackendError, SourceBackend};

/// What a scripted source was asked, in order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Asked {
    /// [`SourceBackend::discover_streams`].
    Streams,
    /// [`SourceBackend::discover_standard_curves`].
    Curves,
    /// [`SourceBackend::apply_curve_mappings`].
    Mappings(Vec<CurveMapping>),
    /// [`SourceBackend::apply_replicate_assignments`].
    Pins(StreamKey, Vec<ColumnAssignment>),
    /// [`SourceBackend::fetch_readings`].
    Readings(Vec<StreamFetchRequest>),
    /// [`SourceBackend::fetch_status_events`].
    Status(Vec<StreamKey>),
    /// [`SourceBackend::handle_command`].
    Command(String),
}

/// Answers a request for one stream.
pub type Answer = dyn Fn(&StreamFetchRequest) -> StreamFetch + Send + Sync;

#[derive(Default)]
struct State {
    streams: Vec<StreamDescriptor>,
    curves: Vec<StandardCurve>,
    answers: BTreeMap<StreamKey, Arc<Answer>>,
    /// Added to the next answer.
    strays: Vec<StreamFetch>,
    failures: BTreeMap<&'static str, VecDeque<BackendError>>,
    status: Vec<StatusEvent>,
    held: bool,
    reconciled: bool,
    rediscovers: bool,
    asked: Vec<Asked>,
}

/// A source that answers what its [`SourceScript`] says, and notes what it was asked.
#[derive(Clone)]
pub struct ScriptedSource {
    shared: Arc<Shared>,
}

/// The test's end of a [`ScriptedSource`]. Cheap to clone.
#[derive(Clone)]
pub struct SourceScript {
    shared: Arc<Shared>,
}

struct Shared {
    // Held for a look or a change only, never across an await.
    state: Mutex<State>,
    calls: watch::Sender<usize>,
    let_go: Notify,
}

impl ScriptedSource {
    /// A source without streams, and the hand that writes what it answers.
    pub fn new() -> (Self, SourceScript) {
        let shared = Arc::new(Shared {
            state: Mutex::new(State::default()),
            calls: watch::Sender::new(0),
            let_go: Notify::new(),
        });
        (Self { shared: shared.clone() }, SourceScript { shared })
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, hook: &'static str, asked: Asked) -> Result<(), BackendError> {
        let mut state = self.state();
        state.asked.push(asked);
        let failure = state.failures.get_mut(hook).and_then(VecDeque::pop_front);
        let count = state.asked.len();
        drop(state);
        self.calls.send_replace(count);
        failure.map_or(Ok(()), Err)
    }
}

impl SourceScript {
    /// The streams that are discovered from now on.
    pub fn streams(&self, streams: impl IntoIterator<Item = StreamDescriptor>) {
        self.shared.state().streams = streams.into_iter().collect();
    }

    /// The curves that are discovered from now on.
    pub fn curves(&self, curves: impl IntoIterator<Item = StandardCurve>) {
        self.shared.state().curves = curves.into_iter().collect();
    }

    /// How a stream answers from now on. One without an answer is left out of each fetch.
    pub fn answers(&self, stream: &str, answer: impl Fn(&StreamFetchRequest) -> StreamFetch + Send + Sync + 'static) {
        self.shared.state().answers.insert(stream.into(), Arc::new(answer));
    }

    /// A stream answers nothing from now on.
    pub fn is_silent(&self, stream: &str) {
        self.shared.state().answers.remove(&StreamKey::new(stream));
    }

    /// Adds an answer that nobody asked for to the next fetch.
    pub fn stray(&self, fetch: StreamFetch) {
        self.shared.state().strays.push(fetch);
    }

    /// The status events that are fetched from now on.
    pub fn status(&self, events: impl IntoIterator<Item = StatusEvent>) {
        self.shared.state().status = events.into_iter().collect();
    }

    /// Fails the next call of a hook, named as in the trait; several pile up.
    pub fn fail(&self, hook: &'static str, error: BackendError) {
        self.shared.state().failures.entry(hook).or_default().push_back(error);
    }

    /// What [`SourceBackend::reconciled`] says.
    pub fn set_reconciled(&self, reconciled: bool) {
        self.shared.state().reconciled = reconciled;
    }

    /// What [`SourceBackend::rediscover_every_cycle`] says.
    pub fn set_rediscovers(&self, rediscovers: bool) {
        self.shared.state().rediscovers = rediscovers;
    }

    /// Commands are held from now on until they are let go.
    pub fn hold_commands(&self) {
        self.shared.state().held = true;
    }

    /// Lets held commands go on.
    pub fn let_go(&self) {
        self.shared.state().held = false;
        self.shared.let_go.notify_waiters();
    }

    /// What it was asked so far, in order.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.state().asked.clone()
    }

    /// Forgets what it was asked.
    pub fn forget(&self) {
        self.shared.state().asked.clear();
    }

    /// Waits until what was asked satisfies a test. Dropping the future is safe.
    pub async fn asked_until(&self, test: impl Fn(&[Asked]) -> bool) {
        let mut calls = self.shared.calls.subscribe();
        loop {
            calls.mark_unchanged();
            if test(&self.asked()) {
                return;
            }
            // The sender lives in `self`.
            let _ = calls.changed().await;
        }
    }
}

#[async_trait]
impl SourceBackend for ScriptedSource {
    fn source_system(&self) -> &str {
        "scripted"
    }

    fn reconciled(&self) -> bool {
        self.shared.state().reconciled
    }

    fn rediscover_every_cycle(&self) -> bool {
        self.shared.state().rediscovers
    }

    async fn discover_streams(&self) -> Result<Vec<StreamDescriptor>, BackendError> {
        self.shared.ask("discover_streams", Asked::Streams)?;
        Ok(self.shared.state().streams.clone())
    }

    async fn discover_standard_curves(&self) -> Result<Vec<StandardCurve>, BackendError> {
        self.shared.ask("discover_standard_curves", Asked::Curves)?;
        Ok(self.shared.state().curves.clone())
    }

    async fn apply_curve_mappings(&self, mappings: &[CurveMapping]) -> Result<(), BackendError> {
        self.shared.ask("apply_curve_mappings", Asked::Mappings(mappings.to_vec()))
    }

    async fn apply_replicate_assignments(
        &self,
        key: &StreamKey,
        assignments: &[ColumnAssignment],
    ) -> Result<(), BackendError> {
        self.shared.ask("apply_replicate_assignments", Asked::Pins(key.clone(), assignments.to_vec()))
    }

    async fn fetch_readings(&self, requests: &[StreamFetchRequest]) -> Result<Vec<StreamFetch>, BackendError> {
        self.shared.ask("fetch_readings", Asked::Readings(requests.to_vec()))?;
        let (answers, strays) = {
            let mut state = self.shared.state();
            (state.answers.clone(), std::mem::take(&mut state.strays))
        };
        let asked = requests.iter().filter_map(|request| Some(answers.get(request.key())?(request)));
        Ok(asked.chain(strays).collect())
    }

    async fn fetch_status_events(&self, streams: &[DataStream]) -> Result<Vec<StatusEvent>, BackendError> {
        let keys = streams.iter().map(|stream| stream.key().clone()).collect();
        self.shared.ask("fetch_status_events", Asked::Status(keys))?;
        Ok(self.shared.state().status.clone())
    }

    async fn handle_command(&self, name: &str, payload: Value) -> Result<Value, BackendError> {
        self.shared.ask("handle_command", Asked::Command(name.to_owned()))?;
        let let_go = self.shared.let_go.notified();
        if self.shared.state().held {
            let_go.await;
        }
        Ok(payload)
    }
}
