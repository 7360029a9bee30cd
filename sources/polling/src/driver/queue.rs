//! What is asked of the next cycle: coalesced, so that ten orders in a row are one cycle.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::model::{FetchReason, StreamKey};

/// What a cycle is to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Everything of every stream.
    pub full: bool,
    /// Everything of these.
    pub resync: BTreeSet<StreamKey>,
    /// Compare only.
    pub audit: bool,
    /// The commands that wait for it.
    pub ids: Vec<String>,
}

impl Plan {
    /// The kind as reports spell it.
    pub(crate) fn kind(&self) -> &'static str {
        match (self.audit, self.full, self.resync.is_empty()) {
            (true, ..) => "audit",
            (_, true, _) => "full",
            (_, _, false) => "resync",
            _ => "incremental",
        }
    }

    /// Why a stream is asked.
    pub(crate) fn reason(&self, stream: &StreamKey) -> FetchReason {
        if self.audit {
            FetchReason::Audit
        } else if self.full || self.resync.contains(stream) {
            FetchReason::Resync
        } else {
            FetchReason::Cycle
        }
    }

    /// Both in one: a full sync absorbs the rest.
    fn absorb(&mut self, other: Self) {
        self.full |= other.full;
        self.resync.extend(other.resync);
        if self.full {
            self.resync.clear();
        }
        self.ids.extend(other.ids);
    }
}

/// Orders that wait behind the running cycle.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    // Held for a change only, never across an await.
    waiting: Mutex<Waiting>,
    woken: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    sync: Option<Plan>,
    audit: Option<Plan>,
}

impl Queue {
    pub(crate) fn push(&self, plan: Plan) {
        {
            let mut waiting = self.waiting();
            let place = if plan.audit { &mut waiting.audit } else { &mut waiting.sync };
            match place {
                Some(before) => before.absorb(plan),
                None => *place = Some(plan),
            }
        }
        self.woken.notify_one();
    }

    /// The next plan, if one waits.
    pub(crate) fn take(&self) -> Option<Plan> {
        let mut waiting = self.waiting();
        waiting.sync.take().or_else(|| waiting.audit.take())
    }

    /// The next plan, once one waits. Dropping the future is safe.
    pub(crate) async fn next(&self) -> Plan {
        loop {
            if let Some(plan) = self.take() {
                return plan;
            }
            self.woken.notified().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_coalesced_and_a_full_sync_absorbs_the_rest() {
        let queue = Queue::default();
        let order = |id: &str| Plan { ids: vec![id.to_owned()], ..Plan::default() };
        queue.push(order("a"));
        queue.push(Plan { resync: ["s".into()].into(), ..order("b") });
        queue.push(Plan { audit: true, ..order("c") });
        queue.push(Plan { full: true, ..order("d") });
        queue.push(Plan { resync: ["t".into()].into(), ..order("e") });
        let plan = queue.take().unwrap();
        assert_eq!((plan.kind(), plan.resync.len(), plan.ids.len()), ("full", 0, 4));
        assert_eq!(queue.take().unwrap().kind(), "audit");
        assert_eq!(queue.take(), None);
    }
}
