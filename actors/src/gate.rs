use std::collections::BTreeMap;

use millstream_model::{Fence, IndexName};
use tokio::sync::watch;

/// Whether an index's touches are built.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Opening {
    /// They are.
    #[default]
    Open,
    /// They can't be just now: kept, with their tickets, and tried again.
    Held,
    /// They are settled unbuilt: the index was saved as to be filled again.
    Shut,
}

/// What every part must know of an index before it works for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gate {
    /// Whether its touches are built.
    pub opening: Opening,
    /// What every build must see, whatever touched it: the last truncate of the root.
    pub fence: Option<Fence>,
}

/// The gates of all indexes, to look at.
#[derive(Clone, Debug, Default)]
pub struct Gates(BTreeMap<IndexName, watch::Receiver<Gate>>);

impl Gates {
    /// Makes a gate for an index; the keeper sets it.
    pub fn add(&mut self, index: &IndexName) -> GateKeeper {
        let (tx, rx) = watch::channel(Gate::default());
        self.0.insert(index.clone(), rx);
        GateKeeper(tx)
    }

    /// One index's gate as it is now; an unknown index is shut.
    pub fn of(&self, index: &IndexName) -> Gate {
        self.0.get(index).map_or(Gate { opening: Opening::Shut, fence: None }, |gate| *gate.borrow())
    }
}

/// Sets one index's gate.
#[derive(Debug)]
pub struct GateKeeper(watch::Sender<Gate>);

impl GateKeeper {
    /// Opens, holds or shuts it.
    pub fn set(&self, opening: Opening) {
        self.0.send_modify(|gate| gate.opening = opening);
    }

    /// From now on every build must see this.
    pub fn fence(&self, fence: Fence) {
        self.0.send_modify(|gate| gate.fence = Some(fence));
    }

    /// As it is now.
    pub fn get(&self) -> Gate {
        *self.0.borrow()
    }
}
