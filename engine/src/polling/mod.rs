//! Sources without a log: what a backend fetches is kept in a store, and documents are built from there.

mod check;
mod control;
mod from_config;
#[cfg(feature = "http_json")]
mod http_json;
mod probe;
mod sql_table;

use std::sync::Arc;

use millstream_actors::Settings;
use millstream_core::{Result, SourceSpec};
use millstream_document::DocumentBuilder;
#[doc(inline)]
pub use millstream_polling::*;

use crate::builder::{Source, SourceParts};

/// A backend and its store as the source of an engine.
pub struct PollingSource {
    capture: PollingCapture,
    store: StoreSettings,
    spec: SourceSpec,
}

impl PollingSource {
    /// Builds these indexes from what a backend fetches into a store.
    pub fn new(
        backend: impl SourceBackend,
        store: StoreSettings,
        settings: PollingSettings,
        indexes: SourceSpec,
    ) -> Self {
        Self::over(PollingCapture::new(backend, store.clone(), settings), store, indexes)
    }

    /// The same over a capture that was made before, from the same store.
    pub fn over(capture: PollingCapture, store: StoreSettings, indexes: SourceSpec) -> Self {
        Self { capture, store, spec: indexes }
    }

    /// Commands, reports and the state of streams, of the engine that this becomes the source of.
    pub fn handle(&self) -> PollingHandle {
        self.capture.handle()
    }

    /// The documents' side alone. Takes up to `connections`.
    ///
    /// # Errors
    /// When the store's address can't be used, or this build can't read such a store.
    pub fn documents(&self, connections: usize) -> Result<Arc<dyn DocumentBuilder>> {
        documents(&self.store, &self.spec, connections)
    }
}

impl Source for PollingSource {
    fn open(self: Box<Self>, settings: &Settings) -> Result<SourceParts> {
        // One more than the actors: an index's keeper looks whether it is mended while all of them are busy.
        let documents = self.documents(settings.builders + settings.resolvers + 1)?;
        let control = Some(Arc::new(self.handle()) as _);
        Ok(SourceParts { spec: self.spec, capture: Arc::new(self.capture), documents, control })
    }
}

fn documents(store: &StoreSettings, spec: &SourceSpec, connections: usize) -> Result<Arc<dyn DocumentBuilder>> {
    let spec = Arc::new(spec.clone());
    match store {
        StoreSettings::Sqlite { path } => {
            let connections = u32::try_from(connections).unwrap_or(u32::MAX);
            Ok(Arc::new(SqliteDocuments::new(path, spec, connections)))
        }
        #[cfg(feature = "postgres")]
        StoreSettings::Postgres { url, schema } => {
            let mut settings: millstream_postgres::PostgresSettings = url.expose().parse()?;
            settings.search_path = millstream_postgres::quote::ident(schema);
            let connections = millstream_postgres::Connections::new(settings, connections);
            Ok(Arc::new(millstream_document::PostgresDocuments::new(connections, spec)))
        }
        _ => Err(millstream_core::SourceError::setup("this build reads no store of this kind")
            .with_remedy("build millstream with its feature `postgres`")),
    }
}

/// The guide is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/backend.md")]
pub struct Guide;
