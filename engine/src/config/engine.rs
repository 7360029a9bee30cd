use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::{Bytes, Span};

/// Values to tune. What is left out keeps its default; each is explained where the engine's settings are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct EngineSection {
    /// Builder lanes, each with a database connection of its own.
    #[serde(deserialize_with = "count")]
    pub builders: Option<NonZeroUsize>,
    /// Resolver workers, each with a database connection of its own.
    #[serde(deserialize_with = "count")]
    pub resolvers: Option<NonZeroUsize>,
    /// Change batches under way at once.
    #[serde(deserialize_with = "count")]
    pub tickets: Option<NonZeroUsize>,
    /// Change batches that wait between capture and resolvers.
    #[serde(deserialize_with = "count")]
    pub change_batches: Option<NonZeroUsize>,
    /// Rows in one change batch, at most.
    #[serde(deserialize_with = "count")]
    pub change_batch_rows: Option<NonZeroUsize>,
    /// Bytes in one change batch, at most.
    pub change_batch_bytes: Option<Bytes>,
    /// Touches that a lane holds at once.
    #[serde(deserialize_with = "count")]
    pub lane_touches: Option<NonZeroUsize>,
    /// Documents that one statement builds, at most.
    #[serde(deserialize_with = "count")]
    pub build_batch: Option<NonZeroUsize>,
    /// Document batches that wait in front of each sink.
    #[serde(deserialize_with = "count")]
    pub sink_batches: Option<NonZeroUsize>,
    /// Documents in one write to a sink, at most.
    #[serde(deserialize_with = "count")]
    pub sink_batch_documents: Option<NonZeroUsize>,
    /// Bytes in one write to a sink, at most; a single larger document goes alone.
    pub sink_batch_bytes: Option<Bytes>,
    /// How often durable work is confirmed to the source.
    pub confirm_every: Option<Span>,
    /// How long stopping waits for what is under way.
    pub drain_deadline: Option<Span>,
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroUsize>, D::Error> {
    let Some(number) = Option::<usize>::deserialize(deserializer)? else { return Ok(None) };
    NonZeroUsize::new(number).map(Some).ok_or_else(|| de::Error::custom("1 or more is expected here, not `0`"))
}
