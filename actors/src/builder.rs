use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Result, SourceError, SourceErrorKind};
use millstream_document::{Built, DocumentBuilder, Reading};
use millstream_model::{Body, Document, Fence, IndexName, RowKey, Sight, Version};
use millstream_sinks::{DeadLetter, DeadLetterState};
use smallvec::SmallVec;
use tokio::time::Instant;

use crate::pending::{Pending, Wanted};
use crate::retry::{FENCE_WAIT_FIRST, Waits, fence_wait};
use crate::sink::wait_until;
use crate::{
    DeadLetterDesk, DocumentBatch, Failure, Faults, Gates, IndexDesk, Lanes, Mailbox, Meters, Opening, Outgoing,
    Settings, Signals, SinkSet, Ticket, Touch, TouchBatch, TroubleSource, Versions,
};

/// How often a lane that is busy with live touches takes a batch of a backfill, too: every so many builds.
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
    /// The live ways to all lanes: for documents whose key has another spelling.
    pub lanes: Lanes,
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
/// a build starts another after it. It settles exactly the touches that a read covers. It knows nothing of how changes are
/// captured.
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
    respelled: Vec<TouchBatch>,
    last_built: Option<IndexName>,
    builds: u32,
    waits: Waits,
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
            respelled: Vec::new(),
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
            if let Some(index) = self.next_index() {
                let build = async { self.build(index).await };
                if abort.run_until_cancelled(build).await.is_none() {
                    return Ok(());
                }
                continue;
            }
            let (live, backfill) = (self.parts.mailbox.live.clone(), self.parts.mailbox.backfill.clone());
            // The lane holds a way to itself, for other spellings: it ends when the resolvers' and the backfills' ways are gone.
            let room = self.held() < self.settings.lane_touches;
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(()),
                () = self.signals.finish.cancelled(), if self.held() == 0 && live.is_empty() && backfill.is_empty() => return Ok(()),
                Ok(batch) = live.recv_async(), if room => self.add(batch),
                Ok(batch) = backfill.recv_async(), if room => self.add(batch),
                () = wait_until(self.next_due()) => {}
            }
        }
    }

    fn held(&self) -> usize {
        self.pending.values().map(Pending::touches).sum::<usize>() + self.respelled.len()
    }

    fn add(&mut self, batch: TouchBatch) {
        self.meters.of_index(&batch.index).touches.increment(batch.touches.len() as u64);
        self.pending.entry(batch.index.clone()).or_default().add(batch);
    }

    /// Takes what waits in the mailboxes: live first, a backfill's only while live leaves room or its share is due.
    fn take_waiting(&mut self) {
        self.send_respelled();
        let mut took_live = false;
        while self.held() < self.settings.lane_touches
            && let Ok(batch) = self.parts.mailbox.live.try_recv()
        {
            took_live = true;
            self.add(batch);
        }
        let share_is_due = self.builds.is_multiple_of(BACKFILL_SHARE);
        if (!took_live || share_is_due)
            && self.held() < self.settings.lane_touches
            && let Ok(batch) = self.parts.mailbox.backfill.try_recv()
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
        if !self.troubled.is_empty() || !self.stopping.is_empty() {
            let gates = &self.parts.gates;
            self.troubled.retain(|index, _| gates.of(index).opening != Opening::Shut);
            self.stopping.retain(|(index, _)| gates.of(index).opening != Opening::Shut);
        }
    }

    fn wake(&mut self) {
        let now = Instant::now();
        self.pending.values_mut().for_each(|pending| pending.wake(now));
    }

    /// When the next waiting touch or the next try of a held index is due. A gate may shut at any time: looked at every second.
    fn next_due(&self) -> Option<Instant> {
        let waiting = self.pending.values().filter_map(Pending::due);
        let second = Instant::now() + Duration::from_secs(1);
        let troubled = self.troubled.iter().map(|(index, (due, _))| {
            let waits = self.pending.get(index).is_some_and(Pending::is_ready);
            if waits { (*due).min(second) } else { second }
        });
        let respelled = (!self.respelled.is_empty()).then(|| Instant::now() + FENCE_WAIT_FIRST);
        waiting.chain(troubled).chain(respelled).min()
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

    async fn build(&mut self, index: IndexName) {
        self.builds = self.builds.wrapping_add(1);
        self.last_built = Some(index.clone());
        let size = self.sizes.get(&index).copied().unwrap_or(16 * 1024).max(1);
        let limit = (self.settings.build_bytes / size).clamp(1, self.settings.build_batch);
        let taken = self.pending.get_mut(&index).map(|pending| pending.take(limit)).unwrap_or_default();
        if taken.is_empty() {
            return;
        }
        let keys: Vec<RowKey> = taken.iter().map(|(key, _)| key.clone()).collect();
        // Taken before the read starts, so that a later read of the same document always has a higher one.
        let versions: Vec<Version> = keys.iter().map(|_| self.parts.versions.next()).collect();
        let started = Instant::now();
        let read = self.read(&index, &keys).await;
        self.meters.build_seconds.record(started.elapsed());
        match read {
            Ok((verdicts, sight)) => {
                self.meters.build_documents.record(keys.len() as f64);
                self.meters.of_index(&index).builds.increment(keys.len() as u64);
                self.learn_size(&index, &verdicts);
                let documents = taken.into_iter().zip(versions).zip(verdicts);
                self.conclude(
                    &index,
                    documents.map(|(((key, wanted), version), verdict)| (key, wanted, version, verdict)),
                    &*sight,
                )
                .await;
                self.recovered(&index);
            }
            Err(error) => {
                let pending = self.pending.entry(index.clone()).or_default();
                for (key, wanted) in taken {
                    pending.put_back(key, wanted, Instant::now());
                }
                self.trouble(&index, &error);
            }
        }
    }

    /// Reads all keys, bisecting a batch that fails on its data down to the documents that do. Transient faults are tried again
    /// in place.
    ///
    /// # Errors
    /// What holds the whole index.
    async fn read(&mut self, index: &IndexName, keys: &[RowKey]) -> Result<(Vec<Verdict>, Arc<dyn Sight>)> {
        let mut verdicts: Vec<Option<Verdict>> = (0..keys.len()).map(|_| None).collect();
        let mut sights: Vec<(std::ops::Range<usize>, Arc<dyn Sight>)> = Vec::new();
        let mut ranges = Vec::from([std::ops::Range { start: 0, end: keys.len() }]);
        while let Some(range) = ranges.pop() {
            // What a single read that fails could see is asked before it: a later read sees no less.
            let before =
                if range.len() == 1 && keys.len() > 1 { Some(self.read_once(index, &[]).await?.sight) } else { None };
            match self.read_once(index, &keys[range.clone()]).await {
                Ok(reading) => {
                    if reading.built.len() != range.len() {
                        return Err(SourceError::decode("the builder gave a wrong number of documents"));
                    }
                    verdicts[range.clone()]
                        .iter_mut()
                        .zip(reading.built)
                        .for_each(|(slot, built)| *slot = Some(Verdict::Built(built)));
                    sights.push((range, reading.sight));
                }
                Err(error) if error.kind() == SourceErrorKind::Query && range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    ranges.push(middle..range.end);
                    ranges.push(range.start..middle);
                }
                Err(error) if error.kind() == SourceErrorKind::Query => {
                    let sight = match before {
                        Some(sight) => sight,
                        None => {
                            // Asked alone from the start: see first, then read again.
                            let sight = self.read_once(index, &[]).await?.sight;
                            match self.read_once(index, &keys[range.clone()]).await {
                                Ok(reading) => {
                                    sights.push((range.clone(), reading.sight));
                                    verdicts[range.start] = reading.built.into_iter().next().map(Verdict::Built);
                                    continue;
                                }
                                Err(error) if error.kind() == SourceErrorKind::Query => sight,
                                Err(error) => return Err(error),
                            }
                        }
                    };
                    verdicts[range.start] = Some(Verdict::Impossible(error));
                    sights.push((range, sight));
                }
                Err(error) => return Err(error),
            }
        }
        let verdicts = verdicts
            .into_iter()
            .map(|verdict| verdict.expect("every key is in exactly one range that ended"))
            .collect();
        Ok((verdicts, all_of(sights)))
    }

    /// One statement; a lost connection is tried again until it answers.
    async fn read_once(&mut self, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        loop {
            match self.parts.documents.build_many(index, keys).await {
                Err(error) if error.kind().is_transient() => {
                    let wait = self.waits.longer();
                    self.meters.retry("build");
                    tracing::warn!(%index, %error, wait_ms = wait.as_millis() as u64, "a build failed; trying again");
                    tokio::time::sleep(wait).await;
                }
                result => {
                    self.waits.reset();
                    return result;
                }
            }
        }
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

    async fn conclude(
        &mut self,
        index: &IndexName,
        documents: impl Iterator<Item = (RowKey, Wanted, Version, Verdict)>,
        sight: &dyn Sight,
    ) {
        let gate_fence = self.parts.gates.of(index).fence;
        let (now, mut letters, mut letter_tickets) = (Instant::now(), Vec::new(), Vec::new());
        let mut outgoing: Vec<(SinkSet, bool, Document, Vec<Ticket>)> = Vec::new();
        let (mut built, mut waits) = (0, 0);
        for (key, mut wanted, version, verdict) in documents {
            let sees_all = self.faults.no_fence || gate_fence.is_none_or(|fence| sight.covers(&fence));
            let tickets = match (self.faults.no_fence, sees_all) {
                (true, _) => wanted.covered(&millstream_model::Everything),
                (false, true) => wanted.covered(sight),
                (false, false) => Vec::new(),
            };
            let (sinks, fill) = (wanted.sinks, wanted.fill);
            if !wanted.is_done() {
                waits += 1;
                let pending = self.pending.entry(index.clone()).or_default();
                let wait = fence_wait(wanted.waits());
                pending.put_back(key.clone(), wanted, now + wait);
            }
            if tickets.is_empty() {
                continue;
            }
            if matches!(verdict, Verdict::Built(_)) && !self.stopping.is_empty() {
                self.stopping.remove(&(index.clone(), key.to_id()));
            }
            let body = match verdict {
                Verdict::Built(Built::Document(text)) => {
                    built += 1;
                    Body::Upsert(text)
                }
                Verdict::Built(Built::Absent) => Body::Tombstone,
                Verdict::Built(Built::Respelled(other)) => {
                    self.touch_respelled(index, other, sinks, fill, tickets[0].split());
                    Body::Tombstone
                }
                Verdict::Impossible(error) if self.stops_on_error(index) => {
                    let again = Wanted::seen(sinks, fill, tickets);
                    self.stopping.insert((index.clone(), key.to_id()));
                    self.pending.entry(index.clone()).or_default().put_back(key, again, now);
                    self.trouble(index, &error);
                    continue;
                }
                Verdict::Impossible(error) => {
                    letters.push(letter(index, key, version, &error));
                    letter_tickets.extend(tickets);
                    continue;
                }
            };
            outgoing.push((sinks, fill, Document { key, version, body }, tickets));
        }
        self.meters.of_index(index).built.increment(built);
        self.meters.fence_waits.increment(waits);
        self.bury(index, letters, letter_tickets).await;
        self.send(index, outgoing).await;
    }

    /// Writes what can't be built to the dead letters, then settles it: the sinks keep what they had.
    async fn bury(&mut self, index: &IndexName, letters: Vec<DeadLetter>, tickets: Vec<Ticket>) {
        if letters.is_empty() {
            return;
        }
        let (count, meters) = (letters.len() as u64, self.meters.of_index(index).clone());
        meters.rejected.increment(count);
        if self.parts.dead_letters.write(letters).await {
            meters.dead_lettered.increment(count);
            tickets.into_iter().for_each(Ticket::settle);
        }
    }

    /// Hands each sink its part. Documents that only a backfill asks for travel apart from those that are live.
    async fn send(&mut self, index: &IndexName, outgoing: Vec<(SinkSet, bool, Document, Vec<Ticket>)>) {
        let mut parts: BTreeMap<(usize, bool), Vec<Outgoing>> = BTreeMap::new();
        for (sinks, fill, document, tickets) in outgoing {
            let tickets = if self.faults.ack_on_build {
                tickets.into_iter().for_each(Ticket::settle);
                Vec::new()
            } else {
                tickets
            };
            let mut targets = sinks.iter().filter(|sink| *sink < self.parts.sinks.len()).peekable();
            let (mut document, mut tickets) = (Some(document), Some(tickets));
            while let Some(sink) = targets.next() {
                let last = targets.peek().is_none();
                let document = if last { document.take() } else { document.clone() };
                let tickets = if last {
                    tickets.take()
                } else {
                    tickets.as_ref().map(|all| all.iter().map(Ticket::split).collect())
                };
                let (Some(document), Some(tickets)) = (document, tickets) else { break };
                parts
                    .entry((sink, fill))
                    .or_default()
                    .push(Outgoing { document, tickets: SmallVec::from_vec(tickets) });
            }
            // No sink wants it.
            tickets.into_iter().flatten().for_each(Ticket::settle);
        }
        for ((sink, fill), mut documents) in parts {
            if self.faults.drop_a_document && self.builds % 7 == 3 {
                documents.drain(..).flat_map(|outgoing| outgoing.tickets).for_each(Ticket::settle);
            }
            let since = Instant::now();
            // A sink that is gone has ended the run; its part is dropped with the run.
            let _ = self.parts.sinks[sink].send_async(DocumentBatch { index: index.clone(), documents, fill }).await;
            self.meters.build_blocked.record(since.elapsed());
        }
    }

    /// The row is there under another spelling of its key: a touch for that one, in its own lane.
    fn touch_respelled(&mut self, index: &IndexName, key: RowKey, sinks: SinkSet, fill: bool, ticket: Ticket) {
        let touch = Touch { key, fences: SmallVec::from_elem(Fence::NONE, 1), ticket };
        self.respelled.push(TouchBatch { index: index.clone(), touches: vec![touch], sinks, fill });
    }

    /// Between lanes nothing waits, or two full ones could wait for each other.
    fn send_respelled(&mut self) {
        for batch in std::mem::take(&mut self.respelled) {
            let lane = self.parts.lanes.lane(&batch.index, &batch.touches[0].key);
            if lane == self.parts.lane {
                self.add(batch);
            } else if let Err(error) = self.parts.lanes.sender(lane).try_send(batch) {
                self.respelled.push(error.into_inner());
            }
        }
    }

    fn stops_on_error(&self, index: &IndexName) -> bool {
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

fn letter(index: &IndexName, key: RowKey, version: Version, error: &SourceError) -> DeadLetter {
    DeadLetter {
        index: index.clone(),
        key,
        kind: "build".to_owned(),
        reason: error.to_string(),
        sink: None,
        attempts: 1,
        version,
        state: DeadLetterState::Open,
    }
}

/// Several reads of one batch count as what all of them could see.
#[derive(Debug)]
struct All(Vec<Arc<dyn Sight>>);

impl Sight for All {
    fn covers(&self, fence: &Fence) -> bool {
        self.0.iter().all(|sight| sight.covers(fence))
    }
}

fn all_of(mut sights: Vec<(std::ops::Range<usize>, Arc<dyn Sight>)>) -> Arc<dyn Sight> {
    match (sights.len(), sights.pop()) {
        (1, Some((_, only))) => only,
        (_, last) => Arc::new(All(sights.into_iter().chain(last).map(|(_, sight)| sight).collect())),
    }
}
