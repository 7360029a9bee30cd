use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use millstream_actors::{Board, Faults, Settings};
use millstream_cdc::ChangeCapture;
use millstream_core::{Diagnostic, SourceSpec};
use millstream_document::DocumentBuilder;
use millstream_model::IndexName;
use millstream_sinks::{DeadLetters, ProgressStore, Sink, async_trait};

use crate::builder::{OnError, OnGap};
use crate::source_control::SourceControl;

/// Everything that an engine is made of and that outlives its runs.
pub(crate) struct Parts {
    pub name: Arc<str>,
    pub spec: Arc<SourceSpec>,
    pub capture: Arc<dyn ChangeCapture>,
    pub documents: Arc<dyn DocumentBuilder>,
    pub control: Option<Arc<dyn SourceControl>>,
    pub sinks: Vec<SinkPart>,
    pub dead_letters: Arc<dyn DeadLetters>,
    pub on_error: BTreeMap<IndexName, OnError>,
    pub on_gap: OnGap,
    pub settings: Settings,
    pub faults: Faults,
    pub board: Arc<Board>,
    /// Seeds the jitter of waits.
    pub seed: u64,
    /// The warnings that were logged.
    pub told: Mutex<BTreeSet<String>>,
}

impl Parts {
    /// True for a diagnostic that was not logged yet.
    pub fn is_new(&self, diagnostic: &Diagnostic) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(diagnostic.to_string())
    }
}

/// One sink, and where its progress is kept when it keeps none itself.
#[derive(Clone)]
pub(crate) struct SinkPart {
    pub name: Arc<str>,
    pub sink: Arc<dyn Sink>,
    pub store: Option<Arc<dyn ProgressStore>>,
}

impl SinkPart {
    /// Where its progress is kept.
    pub fn progress(&self) -> Arc<dyn ProgressStore> {
        match &self.store {
            Some(store) => store.clone(),
            None => Arc::new(Own(self.sink.clone())),
        }
    }
}

/// The progress that a sink keeps itself. One that keeps none, and for which no store was given, remembers nothing.
struct Own(Arc<dyn Sink>);

#[async_trait]
impl ProgressStore for Own {
    async fn load(&self) -> millstream_sinks::Result<Option<millstream_sinks::Progress>> {
        match self.0.progress() {
            Some(store) => store.load().await,
            None => Ok(None),
        }
    }

    async fn peek(&self) -> millstream_sinks::Result<Option<millstream_sinks::Progress>> {
        match self.0.progress() {
            Some(store) => store.peek().await,
            None => Ok(None),
        }
    }

    async fn save(&self, progress: &millstream_sinks::Progress) -> millstream_sinks::Result<()> {
        match self.0.progress() {
            Some(store) => store.save(progress).await,
            None => Ok(()),
        }
    }
}
