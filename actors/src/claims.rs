use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::FixedState;
use millstream_model::{IndexName, RowKey};
use tokio::sync::Notify;

use crate::Faults;

/// Which documents are being built just now, by which lane: one registry a run, so that no two lanes build one document at once.
///
/// A batch of a lane's own documents can meet only a page: lanes have different documents. A page can meet both. Nobody waits
/// for a claim while holding one. Cheap where nothing is filled: one short lock a batch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Claims(Arc<Registry>);

#[derive(Debug)]
struct Registry {
    // Held for a look or a change only, never across an await.
    held: Mutex<Vec<Option<Held>>>,
    released: Vec<Notify>,
    off: bool,
}

/// What one lane is building.
#[derive(Debug)]
struct Held {
    index: IndexName,
    keys: Keys,
    waiters: Vec<usize>,
}

#[derive(Debug)]
enum Keys {
    Batch(Arc<[RowKey]>),
    Page(HashSet<RowKey, FixedState>),
}

/// What a lane got of what it asked for.
pub(crate) struct Claimed {
    /// Given back when it is dropped: keep it until the documents are in the sinks' channels.
    pub claim: Claim,
    /// The keys that are its own now, in order.
    pub keys: Arc<[RowKey]>,
    /// Places in what was asked for, ascending, of keys that someone else is building.
    pub refused: Vec<usize>,
}

/// A lane's hold on the documents that it is building.
pub(crate) struct Claim {
    claims: Claims,
    lane: usize,
}

impl Claims {
    /// A registry for so many lanes. With the deliberate fault `no_claims` nothing is ever refused.
    pub fn new(lanes: usize, faults: Faults) -> Self {
        let held = Mutex::new((0..lanes).map(|_| None).collect());
        let released = (0..lanes).map(|_| Notify::new()).collect();
        Self(Arc::new(Registry { held, released, off: faults.no_claims }))
    }

    /// Claims documents of the lane's own. When those that are refused are given back, [`released`](Self::released) says so.
    pub(crate) fn batch(&self, lane: usize, index: &IndexName, keys: Vec<RowKey>) -> Claimed {
        let mut held = self.lock();
        let mut refused = Vec::new();
        for page in held.iter_mut().flatten().filter(|held| held.index == *index && !self.0.off) {
            let Keys::Page(page_keys) = &page.keys else { continue };
            let before = refused.len();
            refused.extend((0..keys.len()).filter(|at| page_keys.contains(&keys[*at])));
            if refused.len() > before && !page.waiters.contains(&lane) {
                page.waiters.push(lane);
            }
        }
        let (keys, refused) = without(keys, refused);
        let own = Held { index: index.clone(), keys: Keys::Batch(keys.clone()), waiters: Vec::new() };
        self.hold(&mut held, lane, own);
        Claimed { claim: Claim { claims: self.clone(), lane }, keys, refused }
    }

    /// Claims a page's documents. Of those that are refused nothing more is told: they go to their own lanes.
    pub(crate) fn page(&self, lane: usize, index: &IndexName, keys: Vec<RowKey>) -> Claimed {
        let mut set: HashSet<RowKey, FixedState> = keys.iter().cloned().collect();
        let mut held = self.lock();
        let mut taken = HashSet::<RowKey, FixedState>::default();
        for other in held.iter().flatten().filter(|held| held.index == *index && !self.0.off) {
            match &other.keys {
                Keys::Batch(keys) => taken.extend(keys.iter().filter(|key| set.contains(*key)).cloned()),
                Keys::Page(keys) => taken.extend(set.iter().filter(|key| keys.contains(*key)).cloned()),
            }
        }
        set.retain(|key| !taken.contains(key));
        let refused = if taken.is_empty() {
            Vec::new()
        } else {
            (0..keys.len()).filter(|at| taken.contains(&keys[*at])).collect()
        };
        let (keys, refused) = without(keys, refused);
        let own = Held { index: index.clone(), keys: Keys::Page(set), waiters: Vec::new() };
        self.hold(&mut held, lane, own);
        Claimed { claim: Claim { claims: self.clone(), lane }, keys, refused }
    }

    /// Waits until something that was refused to this lane has been given back since the last time. Cancel safe.
    pub(crate) async fn released(&self, lane: usize) {
        self.0.released[lane].notified().await;
    }

    fn hold(&self, held: &mut [Option<Held>], lane: usize, own: Held) {
        debug_assert!(held[lane].is_none(), "a lane builds one thing at a time");
        held[lane] = Some(own);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Held>>> {
        self.0.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let held = self.claims.lock()[self.lane].take();
        for lane in held.into_iter().flat_map(|held| held.waiters) {
            self.claims.0.released[lane].notify_one();
        }
    }
}

/// Splits keys from those at the refused places.
fn without(keys: Vec<RowKey>, mut refused: Vec<usize>) -> (Arc<[RowKey]>, Vec<usize>) {
    if refused.is_empty() {
        return (keys.into(), refused);
    }
    refused.sort_unstable();
    let mut next = refused.iter().peekable();
    let kept = keys.into_iter().enumerate().filter(|(at, _)| next.next_if_eq(&at).is_none()).map(|(_, key)| key);
    (kept.collect(), refused)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use millstream_model::{KeyColumns, Text};

    use super::*;

    fn keys(ids: impl IntoIterator<Item = u32>) -> Vec<RowKey> {
        let columns: KeyColumns = vec![Text::from("id")].into();
        ids.into_iter().map(|id| RowKey::new(columns.clone(), [Text::from(id.to_string())])).collect()
    }

    #[test]
    fn p4_a_live_build_is_refused_what_a_page_has_and_told_when_it_is_given_back() {
        let (claims, index) = (Claims::new(2, Faults::default()), IndexName::new("users"));
        let page = claims.page(0, &index, keys(1..=10));
        assert!(page.refused.is_empty() && page.keys.len() == 10);
        let batch = claims.batch(1, &index, keys([3, 11, 4]));
        assert_eq!((batch.refused, &*batch.keys), (vec![0, 2], keys([11]).as_slice()));
        assert!(claims.released(1).now_or_never().is_none());
        drop(page.claim);
        assert!(claims.released(1).now_or_never().is_some());
        assert!(claims.released(1).now_or_never().is_none(), "told once");
        drop(batch.claim);
        assert!(claims.batch(1, &index, keys([3])).refused.is_empty());
    }

    #[test]
    fn p4_a_page_leaves_out_what_lanes_and_other_pages_are_building() {
        let (claims, index) = (Claims::new(3, Faults::default()), IndexName::new("users"));
        let batch = claims.batch(1, &index, keys([2, 20]));
        let first = claims.page(0, &index, keys(1..=4));
        assert_eq!((first.refused, &*first.keys), (vec![1], keys([1, 3, 4]).as_slice()));
        let second = claims.page(2, &index, keys(2..=6));
        assert_eq!(second.refused, [0, 1, 2]);
        assert!(claims.released(0).now_or_never().is_none(), "a page waits for nobody");
        drop((batch.claim, first.claim, second.claim));
    }

    #[test]
    fn another_indexs_documents_are_others() {
        let claims = Claims::new(2, Faults::default());
        let page = claims.page(0, &IndexName::new("users"), keys(1..=4));
        assert!(claims.batch(1, &IndexName::new("orders"), keys(1..=4)).refused.is_empty());
        drop(page.claim);
    }
}
