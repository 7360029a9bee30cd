use millstream_sinks::{FileProgress, JsonlDeadLetters, JsonlSink, NullSink};

use super::{Config, DeadLettersSection, Gap, OnError, SinkSection, SourceSection};
use crate::{EngineBuilder, Settings};

impl Config {
    /// Gives a builder all that the configuration says but the source: sinks, dead letters, policies and settings. Opens
    /// nothing yet.
    pub fn apply(&self, mut builder: EngineBuilder) -> EngineBuilder {
        for (name, sink) in &self.sinks {
            let name = name.as_str();
            builder = match sink {
                SinkSection::Jsonl(jsonl) if jsonl.is_stdout() => builder.sink(name, JsonlSink::stdout()),
                SinkSection::Jsonl(jsonl) => builder.sink(name, JsonlSink::file(&jsonl.path)),
                SinkSection::Null(_) => {
                    builder.sink_with_progress(name, NullSink::new(), FileProgress::new(&self.progress, name))
                }
            };
        }
        if let Some(DeadLettersSection::Jsonl(letters)) = &self.dead_letters {
            builder = builder.dead_letters(JsonlDeadLetters::file(&letters.path));
        }
        for (name, index) in &self.indexes {
            if index.enabled {
                builder = builder.on_error(name.as_str(), index.on_error.into());
            }
        }
        let SourceSection::Postgres(postgres) = &self.source;
        builder.on_gap(postgres.on_gap.into()).settings(self.settings())
    }

    /// The values to tune: the defaults with what the configuration says.
    pub fn settings(&self) -> Settings {
        let SourceSection::Postgres(postgres) = &self.source;
        self.engine.apply(Settings::default().with_hold(postgres.hold.0))
    }
}

impl From<OnError> for crate::OnError {
    fn from(on_error: OnError) -> Self {
        match on_error {
            OnError::DeadLetter => Self::DeadLetter,
            OnError::Stop => Self::Stop,
        }
    }
}

impl From<Gap> for crate::OnGap {
    fn from(gap: Gap) -> Self {
        match gap {
            Gap::Stop => Self::Stop,
            Gap::Backfill => Self::Backfill,
        }
    }
}
