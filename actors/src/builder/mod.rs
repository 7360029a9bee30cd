mod conclude;
mod outbox;
mod pages;
mod read;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use millstream_core::SourceError;
use millstream_document::{Built, DocumentBuilder};
use millstream_model::{IndexName, RowKey, Version};
use tokio::time::Instant;

use crate::claims::Claimed;
use crate::pending::{Pending, Wanted};
use crate::retry::{FENCE_WAIT_FIRST, Waits};
use crate::sink::wait_until;
use crate::{
    Claims, DeadLetterDesk, DocumentBatch, Failure, Faults, Gates, IndexDesk, Lanes, Mailbox, Meters, Opening, Page,
    Settings, Signals, Ticket, TouchBatch, TroubleSource, Versions,
};

/// How often a lane that is busy with live touches takes a part of a backfill's page, too: every so many builds.
const BACKFILL_SHARE: u32 = 4;

/// Everything that a lane is made of.
pub struct BuilderParts {
    /// The lane's number.
    pub lane: usize,
    /// Builds documents.
    pub documents: Arc<dyn DocumentBuilder>,
    /// Touches to build.
    pub mailbox: Mailbox,
    /// The ways to the sinks, by their numbers.
    pub sinks: Vec<flume::Sender<DocumentBatch>>,
    /// The live ways to all lanes: for documents whose key has another spelling, and those that a page must leave to them.
    pub lanes: Lanes,
    /// Which documents are being built.
    pub claims: Claims,
    /// Where documents that can't be built go.
    pub dead_letters: DeadLetterDesk,
    /// Who keeps each index's state, and whether a document that can't be built stops it.
    pub indexes: BTreeMap<IndexName, (IndexDesk, bool)>,
    /// Each index's gate.
    pub gates: Gates,
    /// Hands out versions.
    pub versions: Versions,
}

/// Owns one lane: it builds a document once at a time, after all touches of it that it holds. A touch that arrives during
/// a build starts another after it. It settles exactly the touches that a read covers. Between them it builds whole pages of
/// backfills, whose documents are of any lane; claims keep two lanes from building one document at once. It knows nothing of
/// how changes are captured.
pub struct BuilderActor {
    parts: BuilderParts,
    meters: Meters,
    settings: Settings,
    signals: Signals,
    faults: Faults,
    pending: BTreeMap<IndexName, Pending>,
    sizes: BTreeMap<IndexName, usize>,
    troubled: BTreeMap<IndexName, (Instant, Waits)>,
    stopping: BTreeSet<(IndexName, String)>,
    pages: VecDeque<Page>,
    outbox: Vec<(usize, TouchBatch)>,
    refused: bool,
    last_built: Option<IndexName>,
    builds: u32,
    waits: Waits,
}

/// Where a build's documents come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// From the lane's own touches.
    Lane,
    /// From a backfill's page: neighbours by their keys, each of some lane.
    Page,
}

/// What a lane does next.
enum Work {
    Batch(IndexName),
    Page(Page),
}

/// What became of one document of a build.
enum Verdict {
    Built(Built),
    Impossible(SourceError),
}

impl BuilderActor {
    /// An actor for one lane.
    pub fn new(parts: BuilderParts, meters: Meters, settings: Settings, signals: Signals, faults: Faults) -> Self {
        let waits = Waits::new(&settings, parts.lane as u64);
        Self {
            parts,
            meters,
            settings,
            signals,
            faults,
            pending: BTreeMap::new(),
            sizes: BTreeMap::new(),
            troubled: BTreeMap::new(),
            stopping: BTreeSet::new(),
            pages: VecDeque::new(),
            outbox: Vec::new(),
            refused: false,
            last_built: None,
            builds: 0,
            waits,
        }
    }

    /// Builds until nobody can touch any more and nothing is held.
    ///
    /// # Errors
    /// None of its own: what fails is tried again, held with its index, or written to the dead letters.
    pub async fn run(mut self) -> Result<(), Failure> {
        let abort = self.signals.abort.clone();
        loop {
            self.take_waiting();
            self.settle_shut();
            self.wake();
            if let Some(work) = self.next_work() {
                let work = async {
                    match work {
                        Work::Batch(index) => self.build(index).await,
                        Work::Page(page) => self.build_page(page).await,
                    }
                };
                if abort.run_until_cancelled(work).await.is_none() {
                    return Ok(());
                }
                continue;
            }
            let Mailbox { live, pages } = self.parts.mailbox.clone();
            let (claims, lane) = (self.parts.claims.clone(), self.parts.lane);
            // The lane holds a way to itself, for other lanes' documents: it ends when the resolvers' and the backfills' ways are gone.
            let (room, idle) = (self.has_room(), self.is_idle());
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(()),
                () = self.signals.finish.cancelled(), if idle && live.is_empty() && pages.is_empty() => return Ok(()),
                Ok(batch) = live.recv_async(), if room => self.add(batch),
                () = claims.released(lane), if self.refused => self.wake_refused(),
                Ok(page) = pages.recv_async(), if self.outbox.is_empty() => self.add_page(page),
                () = wait_until(self.next_due()) => {}
            }
        }
    }

    fn touches(&self) -> usize {
        self.pending.values().map(Pending::touches).sum()
    }

    fn has_room(&self) -> bool {
        self.touches() < self.settings.lane_touches
    }

    fn is_idle(&self) -> bool {
        self.touches() == 0 && self.outbox.is_empty() && self.pages.is_empty()
    }

    /// What to do next: live touches before a page, but for a backfill's share.
    fn next_work(&mut self) -> Option<Work> {
        let batch = self.next_index();
        if (batch.is_none() || self.share_is_due())
            && let Some(page) = self.next_page()
        {
            return Some(Work::Page(page));
        }
        batch.map(Work::Batch)
    }

    fn add(&mut self, batch: TouchBatch) {
        self.meters.of_index(&batch.index).touches.increment(batch.touches.len() as u64);
        self.pending.entry(batch.index.clone()).or_default().add(batch);
    }

    /// Takes the live touches that wait, as far as there is room.
    fn take_waiting(&mut self) {
        self.send_outbox();
        while self.has_room()
            && let Ok(batch) = self.parts.mailbox.live.try_recv()
        {
            self.add(batch);
        }
    }

    /// An index that was saved as to be filled again needs none of its touches.
    fn settle_shut(&mut self) {
        for (index, pending) in &mut self.pending {
            if pending.touches() > 0 && self.parts.gates.of(index).opening == Opening::Shut {
                pending.take_all().into_iter().flat_map(Wanted::into_tickets).for_each(Ticket::settle);
            }
        }
        for at in (0..self.pages.len()).rev() {
            if self.parts.gates.of(&self.pages[at].index).opening == Opening::Shut
                && let Some(page) = self.pages.remove(at)
            {
                page.ticket.settle();
            }
        }
        if !self.troubled.is_empty() || !self.stopping.is_empty() {
            let gates = &self.parts.gates;
            self.troubled.retain(|index, _| gates.of(index).opening != Opening::Shut);
            self.stopping.retain(|(index, _)| gates.of(index).opening != Opening::Shut);
        }
    }

    fn wake(&mut self) {
        let now = Instant::now();
        self.pending.values_mut().for_each(|pending| pending.wake(now));
        // A lane that is never idle looks here.
        if self.refused && self.parts.claims.released(self.parts.lane).now_or_never().is_some() {
            self.wake_refused();
        }
    }

    /// When the next waiting touch or the next try of a held index is due. A gate may shut at any time: looked at every second.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.pending.values().filter_map(Pending::due);
        let second = Instant::now() + Duration::from_secs(1);
        let troubled = self.troubled.iter().map(|(index, (due, _))| {
            let waits = self.pending.get(index).is_some_and(Pending::is_ready)
                || self.pages.iter().any(|page| page.index == *index);
            if waits { (*due).min(second) } else { second }
        });
        let outbox = (!self.outbox.is_empty()).then(|| Instant::now() + FENCE_WAIT_FIRST);
        waiting.chain(troubled).chain(outbox).min()
    }

    /// The next index with something to build, in turn.
    fn next_index(&self) -> Option<IndexName> {
        let now = Instant::now();
        let can = |(index, pending): &(&IndexName, &Pending)| {
            pending.is_ready() && self.troubled.get(*index).is_none_or(|(due, _)| *due <= now)
        };
        let after = self.pending.iter().filter(|(index, _)| self.last_built.as_ref().is_none_or(|last| *index > last));
        let found = after.chain(self.pending.iter()).find(can);
        found.map(|(index, _)| index.clone())
    }

    /// Builds the next batch of an index's live touches.
    async fn build(&mut self, index: IndexName) {
        let limit = self.documents_at_once(&index, self.settings.build_batch);
        let taken = self.pending.get_mut(&index).map(|pending| pending.take(limit)).unwrap_or_default();
        self.last_built = Some(index.clone());
        if let Err((error, taken)) = self.build_claimed(&index, taken, Origin::Lane).await {
            let pending = self.pending.entry(index.clone()).or_default();
            for (key, wanted) in taken {
                pending.put_back(key, wanted, Instant::now());
            }
            self.trouble(&index, &error);
        }
    }

    /// Claims documents, reads them and hands them on; then gives them back.
    ///
    /// # Errors
    /// What holds the whole index, with the documents that were claimed.
    async fn build_claimed(
        &mut self,
        index: &IndexName,
        taken: Vec<(RowKey, Wanted)>,
        origin: Origin,
    ) -> std::result::Result<(), (SourceError, Vec<(RowKey, Wanted)>)> {
        self.builds = self.builds.wrapping_add(1);
        let (Claimed { claim, keys, .. }, taken) = self.claim(index, taken, origin);
        if keys.is_empty() {
            return Ok(());
        }
        // Taken before the read starts, so that a later read of the same document always has a higher one.
        let versions: Vec<Version> = keys.iter().map(|_| self.parts.versions.next()).collect();
        let started = Instant::now();
        let read = self.read(index, &keys, origin).await;
        self.meters.build_seconds.record(started.elapsed());
        let (verdicts, sight) = match read {
            Ok(read) => read,
            Err(error) => return Err((error, taken)),
        };
        self.meters.build_documents.record(keys.len() as f64);
        self.meters.of_index(index).builds.increment(keys.len() as u64);
        self.learn_size(index, &verdicts);
        let documents = taken.into_iter().zip(versions).zip(verdicts);
        let documents = documents.map(|(((key, wanted), version), verdict)| (key, wanted, version, verdict));
        self.conclude(index, origin, documents, &*sight).await;
        // In the sinks' channels, what someone else builds of them comes after.
        drop(claim);
        self.recovered(index);
        Ok(())
    }

    /// Claims documents. Of those that someone else is building, live ones wait here until they are given back, and a page's
    /// go to their own lanes.
    fn claim(
        &mut self,
        index: &IndexName,
        taken: Vec<(RowKey, Wanted)>,
        origin: Origin,
    ) -> (Claimed, Vec<(RowKey, Wanted)>) {
        let keys = taken.iter().map(|(key, _)| key.clone()).collect();
        let claimed = match origin {
            Origin::Lane => self.parts.claims.batch(self.parts.lane, index, keys),
            Origin::Page => self.parts.claims.page(self.parts.lane, index, keys),
        };
        if claimed.refused.is_empty() {
            return (claimed, taken);
        }
        let (mut own, mut refused) = (Vec::with_capacity(claimed.keys.len()), Vec::new());
        let mut next = claimed.refused.iter().peekable();
        for (at, document) in taken.into_iter().enumerate() {
            if next.next_if_eq(&&at).is_some() { refused.push(document) } else { own.push(document) }
        }
        match origin {
            Origin::Page => self.hand_over_all(index, refused),
            Origin::Lane => {
                self.refused = true;
                let pending = self.pending.entry(index.clone()).or_default();
                refused.into_iter().for_each(|(key, wanted)| pending.refuse(key, wanted));
            }
        }
        (claimed, own)
    }

    /// Makes ready what had been refused.
    fn wake_refused(&mut self) {
        self.refused = false;
        self.pending.values_mut().for_each(Pending::wake_refused);
    }

    fn learn_size(&mut self, index: &IndexName, verdicts: &[Verdict]) {
        let sizes = verdicts.iter().filter_map(|verdict| match verdict {
            Verdict::Built(Built::Document(text)) => Some(text.len()),
            _ => None,
        });
        let (count, total) = sizes.fold((0, 0), |(count, total), size| (count + 1, total + size));
        if let Some(average) = total.checked_div(count) {
            let known = self.sizes.entry(index.clone()).or_insert(average);
            *known = (*known + average).div_ceil(2);
        }
    }

    pub(super) fn stops_on_error(&self, index: &IndexName) -> bool {
        self.parts.indexes.get(index).is_some_and(|(_, stops)| *stops)
    }

    /// The index can't be built: its touches stay, and it is tried again later. Too many of them, and it must be given up.
    fn trouble(&mut self, index: &IndexName, error: &SourceError) {
        self.meters.error("build", error.kind().as_str());
        let first = self.settings.retry_first;
        let longest = self.settings.retry_longest.min(Duration::from_secs(2)).max(first);
        let lane = self.parts.lane as u64;
        let (due, waits) = match self.troubled.entry(index.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert((Instant::now(), Waits::between(first, longest, lane))),
        };
        *due = Instant::now() + waits.longer();
        let Some((desk, _)) = self.parts.indexes.get(index) else { return };
        let source = TroubleSource::Lane(self.parts.lane);
        desk.trouble(source, error.to_string());
        let held = self.pending.get(index).map_or(0, Pending::touches);
        if held > self.settings.lane_touches / 2 {
            desk.pressure();
        }
    }

    /// The index was read, and no document stops it any more. Told again as long as its gate says that it is held.
    fn recovered(&mut self, index: &IndexName) {
        let is_held = || self.parts.gates.of(index).opening == Opening::Held;
        if self.stopping.iter().any(|(stopped, _)| stopped == index) {
            return;
        }
        if (self.troubled.remove(index).is_some() || is_held())
            && let Some((desk, _)) = self.parts.indexes.get(index)
        {
            desk.recovered(TroubleSource::Lane(self.parts.lane));
        }
    }
}
