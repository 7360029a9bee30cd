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
    /// Touches that a lane holds at once.
    #[serde(deserialize_with = "count")]
    pub lane_touches: Option<NonZeroUsize>,
    /// Touch batches that wait in each of a lane's mailboxes.
    #[serde(deserialize_with = "count")]
    pub lane_batches: Option<NonZeroUsize>,
    /// Documents that one statement builds, at most.
    #[serde(deserialize_with = "count")]
    pub build_batch: Option<NonZeroUsize>,
    /// Bytes of documents that one statement should build, judged by those before it.
    pub build_bytes: Option<Bytes>,
    /// Document batches that wait in front of each sink.
    #[serde(deserialize_with = "count")]
    pub sink_batches: Option<NonZeroUsize>,
    /// Bytes of documents that wait inside each sink's actor, at most.
    pub sink_bytes: Option<Bytes>,
    /// How often durable work is confirmed to the source.
    pub confirm_every: Option<Span>,
    /// Keys in one page of a backfill.
    #[serde(deserialize_with = "count")]
    pub backfill_page: Option<NonZeroUsize>,
    /// Pages of a backfill under way at once, for each index.
    #[serde(deserialize_with = "count")]
    pub backfill_pages: Option<NonZeroUsize>,
    /// Indexes filled at once.
    #[serde(deserialize_with = "count")]
    pub backfills: Option<NonZeroUsize>,
    /// How often coverage, and an index that was given up, are looked at again.
    pub inspect_every: Option<Span>,
    /// The first wait of a retry.
    pub retry_first: Option<Span>,
    /// The longest wait of a retry.
    pub retry_longest: Option<Span>,
    /// How long stopping waits for what is under way. Default: `20s`.
    pub drain_deadline: Option<Span>,
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroUsize>, D::Error> {
    let Some(number) = Option::<usize>::deserialize(deserializer)? else { return Ok(None) };
    NonZeroUsize::new(number).map(Some).ok_or_else(|| de::Error::custom("1 or more is expected here, not `0`"))
}
