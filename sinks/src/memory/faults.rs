use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use crate::{Outcome, SinkErrorKind};

/// What an engine asks of a sink and its progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
#[allow(missing_docs)] // The trait's methods, by name.
pub enum Call {
    Prepare,
    Write,
    Clear,
    BeginGeneration,
    FinishGeneration,
    Close,
    Load,
    Save,
}

impl Call {
    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Write => "write",
            Self::Clear => "clear",
            Self::BeginGeneration => "begin_generation",
            Self::FinishGeneration => "finish_generation",
            Self::Close => "close",
            Self::Load => "load",
            Self::Save => "save",
        }
    }
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Nothing: for a place in a script.
    None,
    /// An error; nothing was done.
    Reject(SinkErrorKind),
    /// All was done, and yet there is an error.
    DoThenFail(SinkErrorKind),
    /// Nothing happens until [`release`](super::MemorySink::release); then it is done.
    Hold,
    /// It is done after so long, by tokio's clock.
    Slow(Duration),
}

/// What a call may do after it met its fault.
pub(super) enum Verdict {
    Go,
    Reject(SinkErrorKind),
    DoThenFail(SinkErrorKind),
}

/// The script of a sink.
pub(super) struct Faults {
    // Held for a few lines only, never across an await.
    script: Mutex<Script>,
    gate: watch::Sender<Gate>,
}

#[derive(Default)]
struct Script {
    next: BTreeMap<Call, VecDeque<Fault>>,
    always: BTreeMap<Call, Fault>,
    outcomes: BTreeMap<String, VecDeque<(Outcome, u64)>>,
}

/// Who is held.
#[derive(Default)]
struct Gate {
    /// How often each kind of call was released: a held call waits for the next time.
    releases: BTreeMap<Call, u64>,
    held: BTreeMap<Call, usize>,
}

impl Default for Faults {
    fn default() -> Self {
        Self { script: Mutex::default(), gate: watch::Sender::new(Gate::default()) }
    }
}

impl Faults {
    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn script(&self, call: Call, faults: impl IntoIterator<Item = Fault>) {
        self.lock().next.entry(call).or_default().extend(faults);
    }

    pub(super) fn always(&self, call: Call, fault: Option<Fault>) {
        let mut script = self.lock();
        match fault {
            Some(fault) => script.always.insert(call, fault),
            None => script.always.remove(&call),
        };
    }

    pub(super) fn outcome(&self, id: String, outcome: Outcome, times: u64) {
        self.lock().outcomes.entry(id).or_default().push_back((outcome, times));
    }

    /// The outcome scripted for a document this time.
    pub(super) fn take_outcome(&self, id: &str) -> Option<Outcome> {
        let mut script = self.lock();
        let queue = script.outcomes.get_mut(id)?;
        while let Some((outcome, times)) = queue.front_mut() {
            if *times > 0 {
                *times -= 1;
                return Some(outcome.clone());
            }
            queue.pop_front();
        }
        None
    }

    pub(super) fn release(&self, call: Call) {
        {
            let mut script = self.lock();
            if script.always.get(&call) == Some(&Fault::Hold) {
                script.always.remove(&call);
            }
        }
        self.gate.send_modify(|gate| *gate.releases.entry(call).or_default() += 1);
    }

    pub(super) async fn held(&self, call: Call, count: usize) {
        let mut gate = self.gate.subscribe();
        let enough = gate.wait_for(|gate| gate.held.get(&call).copied().unwrap_or(0) >= count).await;
        enough.expect("the sender is ours");
    }

    /// Waits as long as the call's fault makes it wait, and says what it may do then.
    pub(super) async fn meet(&self, call: Call) -> Verdict {
        match self.take(call) {
            Fault::None => Verdict::Go,
            Fault::Reject(kind) => Verdict::Reject(kind),
            Fault::DoThenFail(kind) => Verdict::DoThenFail(kind),
            Fault::Slow(time) => {
                tokio::time::sleep(time).await;
                Verdict::Go
            }
            Fault::Hold => {
                self.wait_for_release(call).await;
                Verdict::Go
            }
        }
    }

    fn take(&self, call: Call) -> Fault {
        let mut script = self.lock();
        let next = script.next.get_mut(&call).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&call).copied()).unwrap_or(Fault::None)
    }

    async fn wait_for_release(&self, call: Call) {
        let mut gate = self.gate.subscribe();
        let before = gate.borrow_and_update().releases.get(&call).copied().unwrap_or(0);
        let _held = Held::new(self, call);
        let released = gate.wait_for(|gate| gate.releases.get(&call).copied().unwrap_or(0) > before).await;
        released.expect("the sender is ours");
    }
}

/// Counts a held call for as long as it is held, also when its future is dropped.
struct Held<'a> {
    faults: &'a Faults,
    call: Call,
}

impl<'a> Held<'a> {
    fn new(faults: &'a Faults, call: Call) -> Self {
        faults.gate.send_modify(|gate| *gate.held.entry(call).or_default() += 1);
        Self { faults, call }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.faults.gate.send_modify(|gate| *gate.held.entry(self.call).or_default() -= 1);
    }
}
