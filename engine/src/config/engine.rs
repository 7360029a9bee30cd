use std::num::NonZeroUsize;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use super::{Bytes, Span};
use crate::Settings;

macro_rules! section {
    ($($field:ident: $type:ty, $from:literal, $with:ident, $value:expr;)*) => {
        /// Values to tune, by the names that [`Settings`] has for them; it says what each does. What is left out keeps its default.
        #[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields, default)]
        #[non_exhaustive]
        pub struct EngineSection {
            $(#[doc = concat!("As [`Settings::", stringify!($field), "`].")]
            #[serde(deserialize_with = $from)]
            pub $field: Option<$type>,)*
            /// How long stopping waits for what is under way. Default 20 s. Longer: less is done again after the next start;
            /// shorter: a stalled sink delays the stop less.
            pub drain_deadline: Option<Span>,
        }

        impl EngineSection {
            /// The settings with what is said here.
            #[must_use]
            pub fn apply(&self, mut settings: Settings) -> Settings {
                $(if let Some(value) = self.$field {
                    settings = settings.$with($value(value));
                })*
                settings
            }
        }
    };
}

section! {
    builders: NonZeroUsize, "count", with_builders, NonZeroUsize::get;
    resolvers: NonZeroUsize, "count", with_resolvers, NonZeroUsize::get;
    tickets: NonZeroUsize, "count", with_tickets, NonZeroUsize::get;
    change_batches: NonZeroUsize, "count", with_change_batches, NonZeroUsize::get;
    lane_touches: NonZeroUsize, "count", with_lane_touches, NonZeroUsize::get;
    lane_batches: NonZeroUsize, "count", with_lane_batches, NonZeroUsize::get;
    build_batch: NonZeroUsize, "count", with_build_batch, NonZeroUsize::get;
    build_bytes: Bytes, "Option::deserialize", with_build_bytes, bytes;
    sink_batches: NonZeroUsize, "count", with_sink_batches, NonZeroUsize::get;
    sink_bytes: Bytes, "Option::deserialize", with_sink_bytes, bytes;
    confirm_every: Span, "Option::deserialize", with_confirm_every, span;
    backfill_page: NonZeroUsize, "count", with_backfill_page, NonZeroUsize::get;
    backfill_pages: NonZeroUsize, "count", with_backfill_pages, NonZeroUsize::get;
    backfills: NonZeroUsize, "count", with_backfills, NonZeroUsize::get;
    inspect_every: Span, "Option::deserialize", with_inspect_every, span;
    retry_first: Span, "Option::deserialize", with_retry_first, span;
    retry_longest: Span, "Option::deserialize", with_retry_longest, span;
    restarts_max: u32, "Option::deserialize", with_restarts_max, Some;
}

impl EngineSection {
    /// How long stopping waits for what is under way.
    pub fn drain_deadline(&self) -> Duration {
        self.drain_deadline.map_or(Duration::from_secs(20), span)
    }
}

fn bytes(bytes: Bytes) -> usize {
    bytes.0
}

fn span(span: Span) -> Duration {
    span.0
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<NonZeroUsize>, D::Error> {
    let Some(number) = Option::<usize>::deserialize(deserializer)? else { return Ok(None) };
    NonZeroUsize::new(number).map(Some).ok_or_else(|| de::Error::custom("1 or more is expected here, not `0`"))
}

#[cfg(test)]
mod tests {
    use millstream_core::yaml;

    use super::*;

    #[test]
    fn every_setting_but_hold_can_be_set() {
        let text = "{ builders: 9, resolvers: 9, tickets: 9, change_batches: 9, lane_touches: 9, lane_batches: 9, build_batch: 9, \
                    build_bytes: 9KiB, sink_batches: 9, sink_bytes: 9KiB, confirm_every: 9s, backfill_page: 9, \
                    backfill_pages: 9, backfills: 9, inspect_every: 9s, retry_first: 9s, retry_longest: 19s, \
                    restarts_max: 9, drain_deadline: 9s }";
        let section: EngineSection = yaml::from_str(text, "c.yaml").unwrap();
        let settings = section.apply(Settings::default());
        let nine = Duration::from_secs(9);
        let expected = Settings::default()
            .with_builders(9)
            .with_resolvers(9)
            .with_tickets(9)
            .with_change_batches(9)
            .with_lane_touches(9)
            .with_lane_batches(9)
            .with_build_batch(9)
            .with_build_bytes(9 * 1024)
            .with_sink_batches(9)
            .with_sink_bytes(9 * 1024)
            .with_confirm_every(nine)
            .with_backfill_page(9)
            .with_backfill_pages(9)
            .with_backfills(9)
            .with_inspect_every(nine)
            .with_retry_first(nine)
            .with_retry_longest(Duration::from_secs(19))
            .with_restarts_max(Some(9));
        assert_eq!(settings, expected);
        assert_eq!(section.drain_deadline(), nine);
        // `Debug` lists every field: a new setting shows up here as one that can't be set.
        let (before, after) = (format!("{:#?}", Settings::default()), format!("{settings:#?}"));
        let same: Vec<_> = before.lines().zip(after.lines()).filter(|(before, after)| before == after).collect();
        let same: Vec<_> = same.into_iter().filter_map(|(line, _)| Some(line.split_once(": ")?.0.trim())).collect();
        assert_eq!(same, ["hold"]);
        assert_eq!(EngineSection::default().apply(Settings::default()), Settings::default());
    }
}
