//! Which stage limits a run, and which setting to move: read from the shares of time in which stages worked and were blocked.

use crate::meters::Metrics;
use crate::numbers::{share, shown};
use crate::result::Stage;

/// What a verdict leans on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// `capture`, `resolve`, `build`, `sink`.
    pub stages: Vec<Stage>,
    /// The share of time in which capture had changes to admit but no ticket.
    pub out_of_tickets: f64,
    /// The share of all cores that was used, by everybody who was watched; `None`: not known.
    pub cores: Option<f64>,
    /// Cores that the walsender used; `None`: not known.
    pub walsender: Option<f64>,
    /// The most documents that one build may have.
    pub build_batch: f64,
}

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The sink's writes.
    Sink,
    /// Reading documents back, with cores to spare.
    Build,
    /// Reading documents back, with every core in use.
    BuildCores,
    /// Finding the documents of changed rows.
    Resolve,
    /// Change batches under way.
    Tickets,
    /// The server's decoding of its log.
    Log,
    /// Nothing: it waits for changes.
    Nothing,
}

/// A stage that is at work so much of its time has little to spare.
const BUSY: f64 = 0.6;
/// A stage that waits for the next one so much of its time is held up by it.
const BLOCKED: f64 = 0.25;

impl Evidence {
    /// From how much an engine's metrics grew over so many seconds, with so many workers.
    pub fn of(grown: &Metrics, seconds: f64, builders: usize, resolvers: usize) -> Self {
        let sum = |name: &str, stage: &str| grown.sum(name, &[&format!("stage=\"{stage}\"")]);
        let busy = |stage: &str| sum("millstream_stage_seconds_sum", stage);
        let blocked = |stage: &str| sum("millstream_blocked_seconds_sum", stage);
        let batch =
            |stage: &str| share(sum("millstream_batch_size_sum", stage), sum("millstream_batch_size_count", stage));
        let stage = |name: &str, workers: usize, busy: f64, blocked: f64, batch: f64| {
            let of = |time: f64| share(time, seconds * workers as f64).clamp(0.0, 1.0);
            Stage { name: name.to_owned(), workers, busy: of(busy), blocked: of(blocked), batch }
        };
        // A resolver's time holds its waits for the lanes.
        let resolving = busy("resolve") - blocked("resolve");
        Self {
            stages: vec![
                stage("capture", 1, 0.0, blocked("capture"), batch("capture")),
                stage("resolve", resolvers, resolving, blocked("resolve"), 0.0),
                stage("build", builders, busy("build"), blocked("build"), batch("build")),
                stage("sink", 1, busy("write"), 0.0, batch("write")),
            ],
            out_of_tickets: share(blocked("tickets"), seconds).clamp(0.0, 1.0),
            cores: None,
            walsender: None,
            build_batch: 500.0,
        }
    }

    fn stage(&self, name: &str) -> Stage {
        let found = self.stages.iter().find(|stage| stage.name == name).cloned();
        found.unwrap_or(Stage { name: name.to_owned(), workers: 1, busy: 0.0, blocked: 0.0, batch: 0.0 })
    }

    /// What limits: looked for from the sink backwards, since a stage that is held up holds up those before it.
    pub fn limit(&self) -> Limit {
        let (capture, resolve) = (self.stage("capture"), self.stage("resolve"));
        let (build, sink) = (self.stage("build"), self.stage("sink"));
        if sink.busy >= BUSY || build.blocked >= BLOCKED {
            return Limit::Sink;
        }
        if build.busy >= BUSY || resolve.blocked >= BLOCKED {
            return if self.cores.is_some_and(|used| used >= 0.85) { Limit::BuildCores } else { Limit::Build };
        }
        if resolve.busy >= BUSY || capture.blocked >= BLOCKED {
            return Limit::Resolve;
        }
        if self.out_of_tickets >= BLOCKED {
            return Limit::Tickets;
        }
        if self.walsender.is_some_and(|cores| cores >= 0.75) { Limit::Log } else { Limit::Nothing }
    }

    /// The verdict in words, with the setting to move.
    pub fn advice(&self) -> String {
        let (resolve, build, sink) = (self.stage("resolve"), self.stage("build"), self.stage("sink"));
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        match self.limit() {
            Limit::Sink => format!(
                "the sink limits: it writes {} of the time and builders wait for it {} of theirs. Larger writes may help: raise \
                 sink_bytes and sink_batches (batches now hold {} documents); else the destination itself is the limit",
                percent(sink.busy),
                percent(build.blocked),
                shown(sink.batch)
            ),
            Limit::Build if build.batch > 0.0 && build.batch < self.build_batch / 10.0 => format!(
                "building limits: lanes are in a query {} of the time, with {} documents each. Small batches cost round trips: raise \
                 lane_touches and lane_batches, or use fewer builders",
                percent(build.busy),
                shown(build.batch)
            ),
            Limit::Build => format!(
                "building limits: lanes are in a query {} of the time, and cores are left: raise builders (now {}). A missing index on \
                 a link column looks the same: run millstream check",
                percent(build.busy),
                build.workers
            ),
            Limit::BuildCores => format!(
                "building limits, and every core is in use: lanes are in a query {} of the time. No setting helps: fewer fields or \
                 relations, a standby to read from (read_url), or more cores for the database",
                percent(build.busy)
            ),
            Limit::Resolve => format!(
                "resolving limits: resolvers are in a query {} of the time: raise resolvers (now {}), and look for a missing index on \
                 a link column with millstream check",
                percent(resolve.busy),
                resolve.workers
            ),
            Limit::Tickets => format!(
                "too few change batches may be under way: capture waits for a ticket {} of the time while no stage is full: raise \
                 tickets",
                percent(self.out_of_tickets)
            ),
            Limit::Log => format!(
                "the server's decoding of its log limits: the walsender uses {} of a core, and one slot has one walsender. Publish \
                 less: fewer tables, and no REPLICA IDENTITY FULL where a key holds the link columns",
                percent(self.walsender.unwrap_or(0.0))
            ),
            Limit::Nothing => "no stage limits: the engine waits for changes, or for single round trips".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of ten, by `series{stage}`.
    fn after_ten_seconds(series: &[(&str, f64)]) -> Evidence {
        Evidence::of(&Metrics::of(series), 10.0, 4, 2)
    }

    const BUILD: &str = "millstream_stage_seconds_sum{engine=\"x\",stage=\"build\"}";
    const WRITE: &str = "millstream_stage_seconds_sum{engine=\"x\",sink=\"out\",stage=\"write\"}";
    const RESOLVE: &str = "millstream_stage_seconds_sum{engine=\"x\",stage=\"resolve\"}";
    const BUILD_BLOCKED: &str = "millstream_blocked_seconds_sum{engine=\"x\",stage=\"build\"}";
    const RESOLVE_BLOCKED: &str = "millstream_blocked_seconds_sum{engine=\"x\",stage=\"resolve\"}";
    const CAPTURE_BLOCKED: &str = "millstream_blocked_seconds_sum{engine=\"x\",stage=\"capture\"}";
    const TICKETS: &str = "millstream_blocked_seconds_sum{engine=\"x\",stage=\"tickets\"}";

    #[test]
    fn a_slow_sink_is_named_though_everything_before_it_waits() {
        let evidence = after_ten_seconds(&[
            (WRITE, 9.0),
            (BUILD_BLOCKED, 30.0),
            (BUILD, 5.0),
            (RESOLVE, 19.0),
            (RESOLVE_BLOCKED, 18.0),
            (CAPTURE_BLOCKED, 9.0),
        ]);
        assert_eq!(evidence.limit(), Limit::Sink);
        assert!(evidence.advice().contains("sink_bytes"), "{}", evidence.advice());
    }

    #[test]
    fn busy_lanes_ask_for_builders_only_while_cores_are_left() {
        let mut evidence = after_ten_seconds(&[(BUILD, 38.0), (RESOLVE, 18.0), (RESOLVE_BLOCKED, 17.0), (WRITE, 0.1)]);
        evidence.cores = Some(0.5);
        assert_eq!(evidence.limit(), Limit::Build);
        assert!(evidence.advice().contains("raise builders (now 4)"), "{}", evidence.advice());
        evidence.cores = Some(0.97);
        assert_eq!(evidence.limit(), Limit::BuildCores);
    }

    #[test]
    fn small_builds_under_load_ask_for_fuller_lanes() {
        let sum = "millstream_batch_size_sum{engine=\"x\",stage=\"build\"}";
        let count = "millstream_batch_size_count{engine=\"x\",stage=\"build\"}";
        let evidence = after_ten_seconds(&[(BUILD, 38.0), (sum, 4000.0), (count, 1000.0)]);
        assert!(evidence.advice().contains("lane_touches"), "{}", evidence.advice());
    }

    #[test]
    fn resolvers_tickets_and_the_log_are_told_apart() {
        assert_eq!(after_ten_seconds(&[(RESOLVE, 19.0), (BUILD, 4.0), (CAPTURE_BLOCKED, 8.0)]).limit(), Limit::Resolve);
        assert_eq!(after_ten_seconds(&[(RESOLVE, 2.0), (BUILD, 4.0), (TICKETS, 6.0)]).limit(), Limit::Tickets);
        let log = Evidence { walsender: Some(0.98), ..after_ten_seconds(&[(RESOLVE, 2.0), (BUILD, 4.0)]) };
        assert_eq!(log.limit(), Limit::Log);
    }

    #[test]
    fn an_idle_engine_is_limited_by_nothing() {
        assert_eq!(after_ten_seconds(&[(BUILD, 0.4), (WRITE, 0.1)]).limit(), Limit::Nothing);
    }
}
