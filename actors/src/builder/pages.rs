//! A lane's work for backfills: whole pages, part by part.

use millstream_model::IndexName;
use tokio::time::Instant;

use super::{BACKFILL_SHARE, BuilderActor, Origin};
use crate::pending::Wanted;
use crate::{Opening, Page, Ticket};

impl BuilderActor {
    /// True when it is a backfill's turn although live touches are ready.
    pub(super) fn share_is_due(&self) -> bool {
        self.builds.is_multiple_of(BACKFILL_SHARE)
    }

    /// A page to go on with: one in hand, or the next that waits.
    ///
    /// While the lane still has something to hand to another lane, there is none: what it holds for others stays bounded.
    pub(super) fn next_page(&mut self) -> Option<Page> {
        if !self.outbox.is_empty() {
            return None;
        }
        let now = Instant::now();
        loop {
            let can = |page: &Page| self.troubled.get(&page.index).is_none_or(|(due, _)| *due <= now);
            if let Some(at) = self.pages.iter().position(can) {
                return self.pages.remove(at);
            }
            let page = self.parts.mailbox.pages.try_recv().ok()?;
            self.add_page(page);
        }
    }

    pub(super) fn add_page(&mut self, page: Page) {
        self.meters.of_index(&page.index).touches.increment(page.keys.len() as u64);
        if self.parts.gates.of(&page.index).opening == Opening::Shut {
            return page.ticket.settle();
        }
        self.pages.push_back(page);
    }

    /// Builds the next part of a page; the rest of it stays in hand.
    pub(super) async fn build_page(&mut self, mut page: Page) {
        let index = page.index.clone();
        let part = page.take(self.documents_at_once(&index, self.settings.backfill_page));
        let wanted = |key| (key, Wanted::seen(page.sinks, true, vec![page.ticket.split()]));
        let taken = part.into_iter().map(wanted).collect();
        if let Err((error, taken)) = self.build_claimed(&index, taken, Origin::Page).await {
            let keys = taken.into_iter().map(|(key, wanted)| {
                // The page's own part of the ticket stays open.
                wanted.into_tickets().for_each(Ticket::settle);
                key
            });
            page.put_back(keys.collect::<Vec<_>>().into_iter());
            self.trouble(&index, &error);
        }
        if page.keys.is_empty() { page.ticket.settle() } else { self.pages.push_front(page) }
    }

    /// How many documents of an index to ask for at once: so many that their text should fit into `build_bytes`.
    pub(super) fn documents_at_once(&self, index: &IndexName, most: usize) -> usize {
        let size = self.sizes.get(index).copied().unwrap_or(16 * 1024).max(1);
        (self.settings.build_bytes / size).clamp(1, most)
    }
}
