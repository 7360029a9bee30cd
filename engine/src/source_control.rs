use async_trait::async_trait;
use millstream_core::Result;
use serde::Serialize;
use serde_json::Value;

/// Orders to a source that takes some, and what it says of itself. A source with a log has none.
#[async_trait]
pub trait SourceControl: Send + Sync {
    /// Gives an order and waits until it has ended. One whose id came before is not run again: it answers what came of it.
    ///
    /// Dropping the future is safe: the order goes on, and giving it again tells of it.
    ///
    /// # Errors
    /// When the source can't note it, or takes none now.
    async fn order(&self, order: SourceOrder) -> Result<OrderOutcome>;

    /// What the source says of itself: an object, for people and scripts.
    ///
    /// # Errors
    /// When it can't be asked.
    async fn describe(&self) -> Result<Value>;
}

/// An order to a source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceOrder {
    /// Names it.
    pub id: String,
    /// What to do.
    pub name: String,
    /// With what; null when the order needs nothing.
    pub payload: Value,
}

/// How far an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum OrderState {
    /// Taken, not yet done.
    Running,
    /// Done.
    Done,
    /// It failed; it is not run again.
    Failed,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OrderOutcome {
    /// How far it is.
    pub state: OrderState,
    /// Its result, or `{"error": "…"}`.
    pub result: Value,
}
