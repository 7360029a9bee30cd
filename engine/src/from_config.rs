use std::sync::Arc;

use millstream_actors::Settings;
use millstream_document::DocumentBuilder;
use millstream_sinks::{FileProgress, JsonlDeadLetters, JsonlSink, NullSink};

use crate::builder::{EngineBuilder, OnError, OnGap};
use crate::config::{self, Config, DeadLettersSection, EngineSection, Gap, SinkSection, SourceSection};
use crate::error::{BuildError, StartError};
use crate::finding::Finding;
use crate::{Engine, sinkless};

impl Engine {
    /// An engine as a configuration file describes it.
    ///
    /// # Errors
    /// When a part of it can't be used. Talks to nobody yet.
    pub fn from_config(config: &Config) -> Result<Self, BuildError> {
        config.builder()?.build()
    }
}

impl Config {
    /// The values to tune, as the file states them.
    pub fn settings(&self) -> Settings {
        let hold = match &self.source {
            SourceSection::Postgres(postgres) => postgres.hold,
            SourceSection::Polling(polling) => polling.hold,
        };
        settings(&self.engine, hold)
    }

    /// An engine as the file describes it, to be refined.
    ///
    /// # Errors
    /// When a part of it can't be used.
    pub fn builder(&self) -> Result<EngineBuilder, BuildError> {
        let mut builder = self.builder_without_sinks()?;
        for (name, sink) in &self.sinks {
            let name = name.as_str();
            builder = match sink {
                SinkSection::Jsonl(file) if file.is_stdout() => builder.sink(name, JsonlSink::stdout()),
                SinkSection::Jsonl(file) => builder.sink(name, JsonlSink::file(&file.path)),
                SinkSection::Null(_) => {
                    builder.sink_with_progress(name, NullSink::new(), FileProgress::new(&self.progress, name))
                }
            };
        }
        Ok(builder)
    }

    /// The same without the file's sinks: for a host that brings its own.
    ///
    /// # Errors
    /// When a part of it can't be used.
    pub fn builder_without_sinks(&self) -> Result<EngineBuilder, BuildError> {
        let on_gap = match &self.source {
            SourceSection::Postgres(postgres) if postgres.on_gap == Gap::Backfill => OnGap::Backfill,
            _ => OnGap::Stop,
        };
        let mut builder = self.with_source(Engine::builder(self.name.as_str()))?;
        builder = builder.on_gap(on_gap).settings(self.settings());
        builder = match &self.dead_letters {
            Some(DeadLettersSection::Jsonl(letters)) => builder.dead_letters(JsonlDeadLetters::file(&letters.path)),
            None => builder.dead_letters(sinkless::LoggedLetters::default()),
        };
        for (name, index) in &self.indexes {
            let on_error = match index.on_error {
                config::OnError::DeadLetter => OnError::DeadLetter,
                config::OnError::Stop => OnError::Stop,
            };
            builder = builder.on_error(name.as_str(), on_error);
        }
        Ok(builder)
    }

    fn with_source(&self, builder: EngineBuilder) -> Result<EngineBuilder, BuildError> {
        match &self.source {
            #[cfg(feature = "postgres")]
            SourceSection::Postgres(_) => Ok(builder.source(self.postgres_source()?)),
            #[cfg(feature = "polling")]
            SourceSection::Polling(polling) => Ok(builder.source(self.polling_source(polling)?)),
            #[cfg(not(all(feature = "postgres", feature = "polling")))]
            other => {
                drop(builder);
                Err(BuildError::NotBuiltIn(other.name()))
            }
        }
    }

    /// The documents' side alone: for previews. Takes up to `connections`.
    ///
    /// # Errors
    /// When the source's address can't be used, or this build does not have it.
    pub fn documents(&self, connections: usize) -> Result<Arc<dyn DocumentBuilder>, BuildError> {
        match &self.source {
            #[cfg(feature = "postgres")]
            SourceSection::Postgres(_) => Ok(Arc::new(self.postgres_source()?.documents(connections))),
            #[cfg(feature = "polling")]
            SourceSection::Polling(polling) => self.polling_documents(polling, connections),
            #[cfg(not(all(feature = "postgres", feature = "polling")))]
            other => {
                let _ = connections;
                Err(BuildError::NotBuiltIn(other.name()))
            }
        }
    }

    /// All that keeps an engine of this configuration from starting, or from doing well, and what a start would do by itself: the
    /// indexes, the source, the sinks and what they keep, and whether the source goes on where it was left. Changes nothing. What
    /// an engine looks at before it begins is looked at here, by the same functions.
    ///
    /// # Errors
    /// When the source can't be asked, or a part of the configuration can't be used.
    pub async fn check(&self) -> Result<Vec<Finding>, StartError> {
        match &self.source {
            #[cfg(feature = "postgres")]
            SourceSection::Postgres(_) => self.check_postgres().await,
            #[cfg(feature = "polling")]
            SourceSection::Polling(polling) => self.check_polling(polling).await,
            #[cfg(not(all(feature = "postgres", feature = "polling")))]
            other => Err(BuildError::NotBuiltIn(other.name()).into()),
        }
    }
}

fn settings(engine: &EngineSection, hold: config::Span) -> Settings {
    let mut settings = Settings::default().with_hold(hold.0);
    macro_rules! take {
        ($($field:ident $with:ident $value:expr;)*) => {
            $(if let Some(value) = engine.$field { settings = settings.$with($value(value)); })*
        };
    }
    take! {
        builders with_builders usize::from;
        resolvers with_resolvers usize::from;
        tickets with_tickets usize::from;
        change_batches with_change_batches usize::from;
        lane_touches with_lane_touches usize::from;
        lane_batches with_lane_batches usize::from;
        build_batch with_build_batch usize::from;
        build_bytes with_build_bytes |bytes: config::Bytes| bytes.0;
        sink_batches with_sink_batches usize::from;
        sink_bytes with_sink_bytes |bytes: config::Bytes| bytes.0;
        confirm_every with_confirm_every |span: config::Span| span.0;
        backfill_page with_backfill_page usize::from;
        backfill_pages with_backfill_pages usize::from;
        backfills with_backfills usize::from;
        inspect_every with_inspect_every |span: config::Span| span.0;
        retry_first with_retry_first |span: config::Span| span.0;
        retry_longest with_retry_longest |span: config::Span| span.0;
        restarts_max with_restarts_max Some;
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_can_be_set() {
        let text = "name: x\n\
             source: { postgres: { url: postgres://me@db/x, hold: 9s } }\n\
             sinks: { out: { null: {} } }\n\
             indexes: { users: { on_error: stop, schema: { table: users, fields: { id: long } } } }\n\
             engine: { builders: 9, resolvers: 9, tickets: 9, change_batches: 9, lane_touches: 9, lane_batches: 9, \
             build_batch: 9, build_bytes: 9KiB, sink_batches: 9, sink_bytes: 9KiB, confirm_every: 9s, backfill_page: 9, \
             backfill_pages: 9, backfills: 9, inspect_every: 9s, retry_first: 9s, retry_longest: 19s, restarts_max: 9 }\n";
        let config = Config::read(text, "c.yaml", std::path::Path::new(""), &|_| None);
        let config = config.unwrap_or_else(|error| panic!("{error}"));
        // `Debug` lists every field: a new setting shows up here as one that the file can't set.
        let before = format!("{:#?}", Settings::default());
        let after = format!("{:#?}", config.settings());
        let lines = before.lines().zip(after.lines()).filter(|(before, _)| before.contains(": "));
        let same: Vec<_> = lines.filter(|(before, after)| before == after).map(|(before, _)| before.trim()).collect();
        assert!(same.is_empty(), "{same:?}");
    }
}
