use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream::core::{Diagnostic, Result};
use millstream::document::{Built, DocumentBuilder, Reading, ResolvedPage};
use millstream::model::{ChangedRow, Everything, IndexName, RowKey};
use millstream::postgres::PostgresSource;
use millstream::{Settings, Source, SourceParts};

/// A source whose changes touch nothing: what is left is capture, tickets and acks.
pub(super) struct CaptureOnly(pub PostgresSource);

impl Source for CaptureOnly {
    fn open(self: Box<Self>, settings: &Settings) -> Result<SourceParts> {
        let parts = Box::new(self.0).open(settings)?;
        Ok(SourceParts { documents: Arc::new(Nothing), ..parts })
    }
}

/// Has no documents.
struct Nothing;

#[async_trait]
impl DocumentBuilder for Nothing {
    fn resolve<'a>(&'a self, _: &'a IndexName, _: &'a [&'a ChangedRow]) -> BoxStream<'a, Result<ResolvedPage>> {
        stream::empty().boxed()
    }

    async fn build_many(&self, _: &IndexName, keys: &[RowKey]) -> Result<Reading> {
        Ok(Reading { built: vec![Built::Absent; keys.len()], sight: Arc::new(Everything) })
    }

    async fn inspect(&self, _: &IndexName) -> Result<Vec<Diagnostic>> {
        Ok(Vec::new())
    }
}
