//! Postgres as a source: capture by logical replication, documents read back by SQL.

mod from_config;

use std::sync::Arc;

use millstream_actors::Settings;
pub use millstream_cdc::PostgresCaptureSettings as CaptureSettings;
use millstream_cdc::{PostgresCapture, PostgresCaptureSettings};
use millstream_core::{Result, SourceSpec};
use millstream_document::PostgresDocuments;
use millstream_postgres::Connections;
pub use millstream_postgres::{Credentials, Manage, Password, PostgresProvisioning, PostgresSettings, TlsMode};

use crate::builder::{Source, SourceParts};

/// A Postgres database as the source of an engine.
///
/// It takes builders + resolvers + 3 connections, one of them for replication; one more while it inspects.
pub struct PostgresSource {
    postgres: PostgresSettings,
    capture: PostgresCaptureSettings,
    spec: SourceSpec,
    row_level_security: bool,
}

impl PostgresSource {
    /// Builds these indexes from this database.
    pub fn new(postgres: PostgresSettings, indexes: SourceSpec) -> Self {
        Self { postgres, capture: PostgresCaptureSettings::default(), spec: indexes, row_level_security: false }
    }

    /// How changes are captured: slot, publication, what may be changed, a standby to read from.
    #[must_use]
    pub fn capture(mut self, capture: PostgresCaptureSettings) -> Self {
        self.capture = capture;
        self
    }

    /// Builds documents of the rows that the role sees where row-level security is in force, instead of refusing the index.
    #[must_use]
    pub fn accept_row_level_security(mut self, accept: bool) -> Self {
        self.row_level_security = accept;
        self
    }

    /// The documents' side alone: for previews and checks. Takes up to `connections`.
    pub fn documents(&self, connections: usize) -> PostgresDocuments {
        let read = self.capture.read.as_ref().unwrap_or(&self.postgres).clone();
        PostgresDocuments::new(Connections::new(read, connections), Arc::new(self.spec.clone()))
            .accept_row_level_security(self.row_level_security)
    }

    /// What brings the database in line with the indexes, under the capture's settings.
    pub fn provisioning(&self) -> PostgresProvisioning {
        let capture = PostgresCapture::new(self.postgres.clone(), self.capture.clone());
        capture.provisioning().clone()
    }

    pub(crate) fn postgres_settings(&self) -> &PostgresSettings {
        &self.postgres
    }

    pub(crate) fn capture_settings(&self) -> &PostgresCaptureSettings {
        &self.capture
    }

    /// The indexes.
    pub fn spec(&self) -> &SourceSpec {
        &self.spec
    }
}

impl Source for PostgresSource {
    fn open(self: Box<Self>, settings: &Settings) -> Result<SourceParts> {
        // One more than the actors: an index's keeper looks whether it is mended while all of them are busy.
        let documents = Arc::new(self.documents(settings.builders + settings.resolvers + 1));
        let capture = Arc::new(PostgresCapture::new(self.postgres, self.capture));
        Ok(SourceParts { spec: self.spec, capture, documents, control: None })
    }
}
