use std::sync::atomic::{AtomicU64, Ordering};

use millstream_model::Position;

use crate::Confirm;

/// Positions that the pump and the engine share. Never moves backwards.
#[derive(Debug, Default)]
pub(crate) struct Mark(AtomicU64);

impl Mark {
    pub(crate) fn raise(&self, position: Position) {
        self.0.fetch_max(position.0, Ordering::AcqRel);
    }

    pub(crate) fn get(&self) -> Position {
        Position(self.0.load(Ordering::Acquire))
    }
}

/// The durable point of one stream, as the engine confirmed it: what the server is told, and nothing beyond it.
impl Confirm for Mark {
    fn confirm(&self, position: Position) {
        self.raise(position);
    }
}
