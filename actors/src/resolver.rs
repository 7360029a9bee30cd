use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::FixedState;
use futures::StreamExt;
use indexmap::IndexMap;
use millstream_core::{SourceError, SourceSpec};
use millstream_document::{DocumentBuilder, ResolvedPage};
use millstream_model::{ChangedRow, Fence, IndexName, QualifiedTable, RowKey};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::retry::{Waits, fence_wait};
use crate::sink::wait_until;
use crate::{
    Failure, Faults, Gates, IndexDesk, Lanes, Meters, Opening, Settings, Signals, SinkSet, Ticket, TicketedBatch,
    Touch, TouchBatch, TroubleSource,
};

/// Rows that one resolver keeps for later, at most, before it takes no more.
const DEFERRED_ROWS_MAX: usize = 8192;

/// Everything that a resolver is made of.
pub struct ResolverParts {
    /// The resolver's number.
    pub number: usize,
    /// Finds documents.
    pub documents: Arc<dyn DocumentBuilder>,
    /// Changes to resolve, shared with the other resolvers.
    pub changes: flume::Receiver<TicketedBatch>,
    /// The live ways to the builders.
    pub lanes: Lanes,
    /// Every sink: live documents go to all.
    pub sinks: SinkSet,
    /// Which indexes read which table.
    pub spec: Arc<SourceSpec>,
    /// Who keeps each index's state.
    pub indexes: BTreeMap<IndexName, IndexDesk>,
    /// Each index's gate.
    pub gates: Gates,
}

/// Maps changed rows to touches: one of a few workers on one channel. Order does not matter here: touches carry their
/// fences, and a lane builds a document after all it knows of.
///
/// What can't be resolved yet is kept for later, with its ticket, and holds nothing else up.
pub struct ResolverActor {
    parts: ResolverParts,
    readers: BTreeMap<QualifiedTable, Vec<IndexName>>,
    meters: Meters,
    settings: Settings,
    signals: Signals,
    faults: Faults,
    deferred: Vec<Deferred>,
    troubled: BTreeMap<IndexName, Waits>,
    waits: Waits,
}

struct Deferred {
    index: IndexName,
    rows: Vec<ChangedRow>,
    ticket: Ticket,
    due: Instant,
    tries: u32,
}

impl ResolverActor {
    /// An actor for one resolver.
    pub fn new(parts: ResolverParts, meters: Meters, settings: Settings, signals: Signals, faults: Faults) -> Self {
        let tables = parts.spec.all_tables().into_iter();
        let readers = tables
            .map(|table| {
                let indexes = parts.spec.indexes_of(&table).into_iter().map(|index| index.name.clone()).collect();
                (table, indexes)
            })
            .collect();
        let waits = Waits::new(&settings, parts.number as u64);
        Self {
            parts,
            readers,
            meters,
            settings,
            signals,
            faults,
            deferred: Vec::new(),
            troubled: BTreeMap::new(),
            waits,
        }
    }

    /// Resolves until the capture is gone and nothing is kept for later.
    ///
    /// # Errors
    /// None of its own: what fails is tried again or held with its index.
    pub async fn run(mut self) -> Result<(), Failure> {
        let abort = self.signals.abort.clone();
        abort.run_until_cancelled(self.serve()).await;
        Ok(())
    }

    async fn serve(&mut self) {
        let changes = self.parts.changes.clone();
        loop {
            let gone = changes.is_disconnected() && changes.is_empty();
            if gone && self.deferred.is_empty() {
                return;
            }
            let due = self.deferred.iter().map(|deferred| deferred.due).min();
            let room = self.deferred.iter().map(|deferred| deferred.rows.len()).sum::<usize>() < DEFERRED_ROWS_MAX;
            tokio::select! {
                biased;
                () = wait_until(due) => self.retry_due().await,
                batch = changes.recv_async(), if room && !gone => if let Ok(batch) = batch {
                    self.resolve_batch(batch).await;
                },
            }
        }
    }

    async fn resolve_batch(&mut self, batch: TicketedBatch) {
        let TicketedBatch { mut rows, ticket } = batch;
        if self.faults.only_new_links {
            rows.iter_mut().for_each(|row| row.before = None);
        }
        let mut by_index: BTreeMap<&IndexName, Vec<&ChangedRow>> = BTreeMap::new();
        let mut unread = 0;
        for row in &rows {
            match self.readers.get(&row.table) {
                Some(indexes) => indexes.iter().for_each(|index| by_index.entry(index).or_default().push(row)),
                None => unread += 1,
            }
        }
        let work: Vec<(IndexName, Vec<&ChangedRow>)> =
            by_index.into_iter().map(|(index, rows)| (index.clone(), rows)).collect();
        let mut found = false;
        for (index, rows) in work {
            found |= self.resolve(&index, &rows, &ticket, 0).await;
        }
        self.meters.resolved.increment(rows.len() as u64 - unread);
        self.meters.without_document.increment(if found { unread } else { rows.len() as u64 });
        ticket.settle();
    }

    async fn retry_due(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.deferred).into_iter().partition(|deferred| deferred.due <= now);
        self.deferred = later;
        let due: Vec<Deferred> = due;
        for Deferred { index, rows, ticket, tries, .. } in due {
            let rows: Vec<&ChangedRow> = rows.iter().collect();
            self.resolve(&index, &rows, &ticket, tries + 1).await;
            ticket.settle();
        }
    }

    /// Touches the documents of one index that rows affect. True when there was any.
    async fn resolve(&mut self, index: &IndexName, rows: &[&ChangedRow], ticket: &Ticket, tries: u32) -> bool {
        if self.parts.gates.of(index).opening == Opening::Shut {
            self.troubled.remove(index);
            return true;
        }
        let started = Instant::now();
        let documents = self.parts.documents.clone();
        let mut not_yet: Vec<usize> = Vec::new();
        let mut touched = false;
        let mut pages = documents.resolve(index, rows);
        let error = loop {
            match pages.next().await {
                None => break None,
                Some(Ok(page)) => {
                    not_yet.extend(&page.not_yet);
                    touched |= !page.touches.is_empty();
                    self.send(index, rows, page, ticket).await;
                }
                Some(Err(error)) => break Some(error),
            }
        };
        drop(pages);
        self.meters.resolve_seconds.record(started.elapsed());
        if let Some(error) = error {
            self.failed(index, rows, ticket, tries, error);
            return true;
        }
        self.recovered(index);
        if !not_yet.is_empty() && !self.faults.no_fence {
            not_yet.sort_unstable();
            not_yet.dedup();
            self.meters.fence_waits.increment(not_yet.len() as u64);
            let rows = not_yet.into_iter().filter_map(|row| rows.get(row)).map(|row| (*row).clone()).collect();
            let wait = fence_wait(tries);
            self.defer(index, rows, ticket, tries, wait);
            return true;
        }
        touched
    }

    /// One touch a document and page, with the fences of all rows that touch it.
    async fn send(&self, index: &IndexName, rows: &[&ChangedRow], page: ResolvedPage, ticket: &Ticket) {
        if page.touches.is_empty() {
            return;
        }
        let mut touches: IndexMap<RowKey, SmallVec<[Fence; 1]>, FixedState> = IndexMap::default();
        for (row, key) in page.touches {
            let Some(row) = rows.get(row) else { continue };
            let fences = touches.entry(key).or_default();
            if !fences.contains(&row.fence) {
                fences.push(row.fence);
            }
        }
        let touches = touches.into_iter().map(|(key, fences)| Touch { key, fences, ticket: ticket.split() }).collect();
        let since = Instant::now();
        self.parts.lanes.send(TouchBatch { index: index.clone(), touches, sinks: self.parts.sinks, fill: false }).await;
        self.meters.resolve_blocked.record(since.elapsed());
    }

    fn defer(&mut self, index: &IndexName, rows: Vec<ChangedRow>, ticket: &Ticket, tries: u32, wait: Duration) {
        let due = Instant::now() + wait;
        self.deferred.push(Deferred { index: index.clone(), rows, ticket: ticket.split(), due, tries });
    }

    /// A lost connection is tried again; anything else holds the index.
    fn failed(&mut self, index: &IndexName, rows: &[&ChangedRow], ticket: &Ticket, tries: u32, error: SourceError) {
        self.meters.error("resolve", error.kind().as_str());
        let rows = rows.iter().map(|row| (*row).clone()).collect();
        if error.kind().is_transient() {
            self.meters.retry("resolve");
            let wait = self.waits.longer();
            tracing::warn!(%index, %error, wait_ms = wait.as_millis() as u64, "resolving failed; trying again");
            return self.defer(index, rows, ticket, tries, wait);
        }
        let first = self.settings.retry_first;
        let longest = self.settings.retry_longest.min(Duration::from_secs(1)).max(first);
        let number = self.parts.number as u64;
        let wait =
            self.troubled.entry(index.clone()).or_insert_with(|| Waits::between(first, longest, number)).longer();
        self.defer(index, rows, ticket, tries, wait);
        let Some(desk) = self.parts.indexes.get(index) else { return };
        desk.trouble(TroubleSource::Resolver(self.parts.number), error.to_string());
        let held = self.deferred.iter().filter(|deferred| deferred.index == *index).map(|deferred| deferred.rows.len());
        if held.sum::<usize>() > DEFERRED_ROWS_MAX / 2 {
            desk.pressure();
        }
    }

    fn recovered(&mut self, index: &IndexName) {
        self.waits.reset();
        let is_held = || self.parts.gates.of(index).opening == Opening::Held;
        if (self.troubled.remove(index).is_some() || is_held())
            && let Some(desk) = self.parts.indexes.get(index)
        {
            desk.recovered(TroubleSource::Resolver(self.parts.number));
        }
    }
}
