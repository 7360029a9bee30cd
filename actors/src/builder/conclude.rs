//! What becomes of documents that were read.

use std::collections::BTreeMap;

use millstream_core::SourceError;
use millstream_document::Built;
use millstream_model::{Body, Document, IndexName, RowKey, Sight, Version};
use millstream_sinks::{DeadLetter, DeadLetterState};
use smallvec::SmallVec;
use tokio::time::Instant;

use super::{BuilderActor, Origin, Verdict};
use crate::pending::Wanted;
use crate::retry::fence_wait;
use crate::{DocumentBatch, Outgoing, SinkSet, Ticket};

impl BuilderActor {
    /// Settles what the read covers, hands the documents on, and keeps the rest to be read again.
    pub(super) async fn conclude(
        &mut self,
        index: &IndexName,
        origin: Origin,
        documents: impl Iterator<Item = (RowKey, Wanted, Version, Verdict)>,
        sight: &dyn Sight,
    ) {
        let gate_fence = self.parts.gates.of(index).fence;
        let (now, mut letters, mut letter_tickets) = (Instant::now(), Vec::new(), Vec::new());
        let mut outgoing: Vec<(SinkSet, bool, Document, Vec<Ticket>)> = Vec::new();
        let (mut built, mut waits, mut again) = (0, 0, Vec::new());
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
                again.push((key.clone(), wanted));
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
                    let wanted = Wanted::seen(sinks, fill, tickets);
                    match origin {
                        // Its own lane meets the same error, and stops the index.
                        Origin::Page => again.push((key, wanted)),
                        Origin::Lane => {
                            self.stopping.insert((index.clone(), key.to_id()));
                            self.pending.entry(index.clone()).or_default().put_back(key, wanted, now);
                            self.trouble(index, &error);
                        }
                    }
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
        self.read_again(index, origin, again);
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

    /// Documents of which not every touch was seen: after a while, and always by their own lane.
    fn read_again(&mut self, index: &IndexName, origin: Origin, again: Vec<(RowKey, Wanted)>) {
        match origin {
            Origin::Page => self.hand_over_all(index, again),
            Origin::Lane => {
                let now = Instant::now();
                for (key, wanted) in again {
                    let wait = fence_wait(wanted.waits());
                    self.pending.entry(index.clone()).or_default().put_back(key, wanted, now + wait);
                }
            }
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
