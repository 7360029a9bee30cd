use std::time::Duration;

/// The values that an operator tunes.
///
/// The defaults suit a machine of a few cores and a database near by. Set them with the `with_…` methods; a value below its
/// lower bound is raised to it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Settings {
    /// Builder lanes, each with a connection. Default 4, at least 1. More: higher throughput while the database keeps up;
    /// fewer: fewer connections.
    pub builders: usize,
    /// Resolvers, each with a connection. Default 2, at least 1. More: changes of related rows find their documents sooner;
    /// fewer: fewer connections.
    pub resolvers: usize,
    /// Change batches that may be under way at once (tickets). Default 256, at least 1. More: a slow document holds fewer
    /// others up; fewer: less memory.
    pub tickets: usize,
    /// Change batches in the channel to the resolvers. Default 16, at least 1. More: bursts are smoothed; fewer: less memory.
    pub change_batches: usize,
    /// Touches that one lane holds, at most, beside one batch. Default 4096, at least 1. More: more changes of one document share
    /// a build; fewer: less memory, lower latency under load.
    pub lane_touches: usize,
    /// Touch batches in each of a lane's mailboxes. Default 4, at least 1. More: bursts are smoothed; fewer: less memory.
    pub lane_batches: usize,
    /// Documents in one build query. Default 500, at least 1. More: fewer round trips; fewer: less memory, lower latency.
    pub build_batch: usize,
    /// Bytes of documents that one build query should return, judged by those before it. Default 2 MiB, at least 1. More: fewer
    /// round trips with large documents; fewer: less memory.
    pub build_bytes: usize,
    /// Document batches in the channel to each sink. Default 8, at least 1. More: bursts are smoothed; fewer: less memory.
    pub sink_batches: usize,
    /// Bytes of documents that a sink's actor holds, at most, beside one batch. Default 8 MiB, at least 1. More: larger writes
    /// after a stall; fewer: less memory.
    pub sink_bytes: usize,
    /// Time between two confirmations to the source. Default 1 s, at least 1 ms. Longer: fewer saves of progress; shorter: less is
    /// told again after a crash, and the server may drop its log sooner.
    pub confirm_every: Duration,
    /// Keys in one page of a backfill. Default 1000, at least 1. More: fewer round trips; fewer: live changes pass sooner.
    pub backfill_page: usize,
    /// Pages of a backfill under way at once, for each index. Default 8, at least 1. More: throughput; fewer: less memory.
    pub backfill_pages: usize,
    /// Indexes filled at once. Default 1, at least 1. More: several finish together; fewer: the first is done sooner.
    pub backfills: usize,
    /// How long an index that can't be built is held with its changes before it is given up until mended. Default 15 min.
    /// Longer: a late mend needs no refill; shorter: the source may drop its log sooner.
    pub hold: Duration,
    /// Time between two looks at whether an index that was given up, or held since the start, is mended. Default 10 s, at
    /// least 10 ms. Longer: fewer queries; shorter: the refill begins sooner.
    pub inspect_every: Duration,
    /// The first wait of a retry, of any kind. Default 50 ms, at least 1 ms. Longer: less load on what is failing; shorter:
    /// quicker after a blink.
    pub retry_first: Duration,
    /// The longest wait of a retry. Default 10 s, at least `retry_first`. Longer: less load; shorter: quicker after an outage.
    pub retry_longest: Duration,
    /// Runs that may fail in a row before the engine gives up; `None` (the default): never. Higher: rides out longer outages;
    /// lower: fails sooner.
    pub restarts_max: Option<u32>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            builders: 4,
            resolvers: 2,
            tickets: 256,
            change_batches: 16,
            lane_touches: 4096,
            lane_batches: 4,
            build_batch: 500,
            build_bytes: 2 * 1024 * 1024,
            sink_batches: 8,
            sink_bytes: 8 * 1024 * 1024,
            confirm_every: Duration::from_secs(1),
            backfill_page: 1000,
            backfill_pages: 8,
            backfills: 1,
            hold: Duration::from_secs(15 * 60),
            inspect_every: Duration::from_secs(10),
            retry_first: Duration::from_millis(50),
            retry_longest: Duration::from_secs(10),
            restarts_max: None,
        }
    }
}

macro_rules! with {
    ($($method:ident $field:ident $type:ty, $least:expr;)*) => {
        impl Settings {
            $(#[doc = concat!("The same with another [`", stringify!($field), "`](Self::", stringify!($field), ").")]
            #[must_use]
            pub fn $method(mut self, $field: $type) -> Self {
                self.$field = $field.max($least);
                self
            })*
        }
    };
}

with! {
    with_builders builders usize, 1;
    with_resolvers resolvers usize, 1;
    with_tickets tickets usize, 1;
    with_change_batches change_batches usize, 1;
    with_lane_touches lane_touches usize, 1;
    with_lane_batches lane_batches usize, 1;
    with_build_batch build_batch usize, 1;
    with_build_bytes build_bytes usize, 1;
    with_sink_batches sink_batches usize, 1;
    with_sink_bytes sink_bytes usize, 1;
    with_confirm_every confirm_every Duration, Duration::from_millis(1);
    with_backfill_page backfill_page usize, 1;
    with_backfill_pages backfill_pages usize, 1;
    with_backfills backfills usize, 1;
    with_hold hold Duration, Duration::ZERO;
    with_inspect_every inspect_every Duration, Duration::from_millis(10);
    with_retry_first retry_first Duration, Duration::from_millis(1);
    with_retry_longest retry_longest Duration, Duration::from_millis(1);
    with_restarts_max restarts_max Option<u32>, None;
}
