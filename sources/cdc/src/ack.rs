use std::fmt;

use millstream_model::Position;

/// The capture's end of an [`Ack`].
pub trait Confirm: Send + Sync + 'static {
    /// All changes up to and including this one, of the line that this confirms, are durable. Positions of one line come in the
    /// order in which they were streamed.
    /// Must not wait.
    fn confirm(&self, position: Position);
}

/// Changes that are confirmed in order among themselves, apart from those of other lines.
///
/// A source with one log has one line, the default. One whose streams know nothing of each other has a line for each: what is
/// not yet durable in one of them holds no other back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Line(pub u64);

/// Confirms that the changes up to here are durable.
///
/// Dropping it confirms nothing: the changes come again after a restart. The engine confirms acks in the order in which
/// their batches were streamed, and only when that batch and all before it *of its [`Line`]* are durable.
#[must_use = "an ack that is dropped confirms nothing"]
pub struct Ack {
    line: Line,
    position: Option<Position>,
    confirm: std::sync::Arc<dyn Confirm>,
}

impl Ack {
    /// An ack for a batch that ends a transaction at `position`.
    pub fn at(position: Position, confirm: std::sync::Arc<dyn Confirm>) -> Self {
        Self { line: Line::default(), position: Some(position), confirm }
    }

    /// An ack for a batch in the middle of a transaction: confirming it moves nothing.
    pub fn within(confirm: std::sync::Arc<dyn Confirm>) -> Self {
        Self { line: Line::default(), position: None, confirm }
    }

    /// The same in another line than the default one.
    pub fn on(self, line: Line) -> Self {
        Self { line, ..self }
    }

    /// The line that it belongs to.
    pub fn line(&self) -> Line {
        self.line
    }

    /// Where capture would start again once this is confirmed; `None` in the middle of a transaction.
    pub fn position(&self) -> Option<Position> {
        self.position
    }

    /// Says that the batch and all before it of its line are durable.
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
