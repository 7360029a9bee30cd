//! What a lane has for other lanes.

use millstream_model::{IndexName, RowKey};
use smallvec::SmallVec;

use super::BuilderActor;
use crate::pending::Wanted;
use crate::{SinkSet, Ticket, Touch, TouchBatch};

impl BuilderActor {
    /// The row is there under another spelling of its key: a touch for that one, in its own lane.
    pub(super) fn touch_respelled(
        &mut self,
        index: &IndexName,
        key: RowKey,
        sinks: SinkSet,
        fill: bool,
        ticket: Ticket,
    ) {
        let touch = Touch { key, fences: SmallVec::new(), ticket };
        self.hand_over(TouchBatch { index: index.clone(), touches: vec![touch], sinks, fill });
    }

    /// Documents of one page, for their own lanes to build.
    pub(super) fn hand_over_all(&mut self, index: &IndexName, documents: Vec<(RowKey, Wanted)>) {
        let Some((_, first)) = documents.first() else { return };
        let (sinks, fill) = (first.sinks, first.fill);
        let touch = |(key, wanted): (RowKey, Wanted)| {
            wanted.into_tickets().map(move |ticket| Touch { key: key.clone(), fences: SmallVec::new(), ticket })
        };
        let touches = documents.into_iter().flat_map(touch).collect();
        self.hand_over(TouchBatch { index: index.clone(), touches, sinks, fill });
    }

    /// Touches for their documents' own lanes.
    fn hand_over(&mut self, batch: TouchBatch) {
        self.outbox.extend(self.parts.lanes.sort(batch));
    }

    /// Between lanes nothing waits, or two full ones could wait for each other.
    pub(super) fn send_outbox(&mut self) {
        for (lane, batch) in std::mem::take(&mut self.outbox) {
            if lane == self.parts.lane {
                self.add(batch);
            } else if let Err(error) = self.parts.lanes.sender(lane).try_send(batch) {
                self.outbox.push((lane, error.into_inner()));
            }
        }
    }
}
