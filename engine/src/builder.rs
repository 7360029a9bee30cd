use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use millstream_actors::{Board, Faults, Settings, SinkSet};
use millstream_cdc::ChangeCapture;
use millstream_core::SourceSpec;
use millstream_document::DocumentBuilder;
use millstream_model::IndexName;
use millstream_sinks::{DeadLetters, ProgressStore, Sink};

use crate::error::BuildError;
use crate::parts::{Parts, SinkPart};
use crate::{Engine, SourceControl, sinkless};

/// What an index does about a document that can't be built or is rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnError {
    /// It goes to the dead letters; the others go on.
    #[default]
    DeadLetter,
    /// The index stops until it is mended.
    Stop,
}

/// What the engine does when the source does not go on where it left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnGap {
    /// It stops with the reason.
    #[default]
    Stop,
    /// It fills every index again.
    Backfill,
}

/// A back end that gives all that an engine needs of a source.
pub trait Source {
    /// Opens it with as many connections as the settings ask for. Talks to nobody yet.
    ///
    /// # Errors
    /// When its own settings can't be used.
    fn open(self: Box<Self>, settings: &Settings) -> millstream_core::Result<SourceParts>;
}

/// What a [`Source`] gives.
pub struct SourceParts {
    /// The indexes.
    pub spec: SourceSpec,
    /// What changed?
    pub capture: Arc<dyn ChangeCapture>,
    /// What to build?
    pub documents: Arc<dyn DocumentBuilder>,
    /// Takes orders and tells of itself, if the source does.
    pub control: Option<Arc<dyn SourceControl>>,
}

/// Puts an [`Engine`] together.
#[must_use]
pub struct EngineBuilder {
    name: String,
    source: Option<Box<dyn Source + Send>>,
    spec: Option<SourceSpec>,
    capture: Option<Arc<dyn ChangeCapture>>,
    documents: Option<Arc<dyn DocumentBuilder>>,
    sinks: Vec<SinkPart>,
    dead_letters: Option<Arc<dyn DeadLetters>>,
    on_error: BTreeMap<IndexName, OnError>,
    on_gap: OnGap,
    settings: Settings,
    faults: Faults,
    seed: u64,
}

impl EngineBuilder {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            source: None,
            spec: None,
            capture: None,
            documents: None,
            sinks: Vec::new(),
            dead_letters: None,
            on_error: BTreeMap::new(),
            on_gap: OnGap::default(),
            settings: Settings::default(),
            faults: Faults::default(),
            seed: 0,
        }
    }

    /// Takes capture, documents and indexes from one back end.
    pub fn source(mut self, source: impl Source + Send + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The indexes, when capture and documents are given one by one.
    pub fn indexes(mut self, spec: SourceSpec) -> Self {
        self.spec = Some(spec);
        self
    }

    /// Tells what changed.
    pub fn capture(mut self, capture: impl ChangeCapture + 'static) -> Self {
        self.capture = Some(Arc::new(capture));
        self
    }

    /// Builds documents.
    pub fn documents(mut self, documents: impl DocumentBuilder + 'static) -> Self {
        self.documents = Some(Arc::new(documents));
        self
    }

    /// Adds a sink, which keeps its own progress if it can; one that can't is filled again at every start.
    pub fn sink(mut self, name: &str, sink: impl Sink + 'static) -> Self {
        self.sinks.push(SinkPart { name: name.into(), sink: Arc::new(sink), store: None });
        self
    }

    /// Adds a sink whose progress is kept elsewhere.
    pub fn sink_with_progress(
        mut self,
        name: &str,
        sink: impl Sink + 'static,
        progress: impl ProgressStore + 'static,
    ) -> Self {
        self.sinks.push(SinkPart { name: name.into(), sink: Arc::new(sink), store: Some(Arc::new(progress)) });
        self
    }

    /// Where documents go that can't be built or written. Without it they are logged, counted, and kept in memory only.
    pub fn dead_letters(mut self, dead_letters: impl DeadLetters + 'static) -> Self {
        self.dead_letters = Some(Arc::new(dead_letters));
        self
    }

    /// What an index does about a document that can't be built or is rejected.
    pub fn on_error(mut self, index: &str, on_error: OnError) -> Self {
        self.on_error.insert(IndexName::new(index), on_error);
        self
    }

    /// What to do when the source does not go on where the engine left it.
    pub fn on_gap(mut self, on_gap: OnGap) -> Self {
        self.on_gap = on_gap;
        self
    }

    /// The values that an operator tunes.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Deliberate faults, for tests of the tests.
    #[doc(hidden)]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// Seeds the jitter of waits, so that a simulated run replays.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Checks that nothing is missing. Talks to nobody yet.
    ///
    /// # Errors
    /// When something is missing or named twice.
    pub fn build(self) -> Result<Engine, BuildError> {
        let source = match (self.source, self.spec, self.capture, self.documents) {
            (Some(source), ..) => source.open(&self.settings)?,
            (None, Some(spec), Some(capture), Some(documents)) => {
                SourceParts { spec, capture, documents, control: None }
            }
            _ => return Err(BuildError::NoSource),
        };
        let mut names = BTreeSet::new();
        if let Some(twice) = self.sinks.iter().find(|sink| !names.insert(sink.name.clone())) {
            return Err(BuildError::SinkTwice(twice.name.to_string()));
        }
        match self.sinks.len() {
            0 => return Err(BuildError::NoSink),
            count if count > SinkSet::MAX => return Err(BuildError::TooManySinks(count)),
            _ => {}
        }
        Ok(Engine::new(Parts {
            name: self.name.as_str().into(),
            spec: Arc::new(source.spec),
            capture: source.capture,
            documents: source.documents,
            control: source.control,
            sinks: self.sinks,
            dead_letters: self.dead_letters.unwrap_or_else(|| Arc::new(sinkless::LoggedLetters::default())),
            on_error: self.on_error,
            on_gap: self.on_gap,
            settings: self.settings,
            faults: self.faults,
            board: Arc::new(Board::default()),
            seed: self.seed,
            told: Mutex::default(),
        }))
    }
}
