use std::fmt;

use millstream_model::Position;

/// The capture's end of an [`Ack`].
pub trait Confirm: Send + Sync + 'static {
    /// All changes up to and including this one are durable. Positions come in the order in which they were streamed.
    /// Must not wait.
    fn confirm(&self, position: Position);
}

/// Confirms that the changes up to here are durable.
///
/// Dropping it confirms nothing: the changes come again after a restart. The engine confirms acks in the order in which
/// their batches were streamed, and only when that batch and all before it are durable.
#[must_use = "an ack that is dropped confirms nothing"]
pub struct Ack {
    position: Option<Position>,
    confirm: std::sync::Arc<dyn Confirm>,
}

impl Ack {
    /// An ack for a batch that ends a transaction at `position`.
    pub fn at(position: Position, confirm: std::sync::Arc<dyn Confirm>) -> Self {
        Self { position: Some(position), confirm }
    }

    /// An ack for a batch in the middle of a transaction: confirming it moves nothing.
    pub fn within(confirm: std::sync::Arc<dyn Confirm>) -> Self {
        Self { position: None, confirm }
    }

    /// Where capture would start again once this is confirmed; `None` in the middle of a transaction.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Says that the batch and all before it are durable.
    pub fn confirm(self) {
        if let Some(position) = self.position {
            self.confirm.confirm(position);
        }
    }
}

impl fmt::Debug for Ack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ack").field(&self.position).finish()
    }
}
