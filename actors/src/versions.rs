use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millstream_model::{Epoch, Version};

/// Hands out versions: one before each read, ascending within the process.
///
/// When an epoch's 2³² numbers are used up, versions run into the next epoch's; the progress actor saves epochs ahead of use.
#[derive(Clone, Debug)]
pub struct Versions(Arc<AtomicU64>);

impl Versions {
    /// Starts at the beginning of an epoch that was saved durably.
    pub fn new(epoch: Epoch) -> Self {
        Self(Arc::new(AtomicU64::new(Version::new(epoch, 0).0)))
    }

    /// The next version, higher than all before it.
    pub fn next(&self) -> Version {
        Version(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The last version that was handed out.
    pub fn last(&self) -> Version {
        Version(self.0.load(Ordering::Relaxed))
    }
}
