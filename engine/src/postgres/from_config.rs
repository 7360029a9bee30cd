use millstream_cdc::PostgresCaptureSettings;
use millstream_core::SourceSpec;

use super::{Manage, PostgresSource};
use crate::config::{Config, EngineSection, PostgresSection, RowLevelSecurity, SlotWait, SourceSection};
use crate::error::BuildError;

impl Config {
    /// The source that the file describes.
    ///
    /// # Errors
    /// When its address can't be used.
    pub fn source(&self) -> Result<PostgresSource, BuildError> {
        let SourceSection::Postgres(postgres) = &self.source;
        let spec = SourceSpec::new(self.schemas().map(|(name, schema)| (name, schema.clone())));
        let source = PostgresSource::new(postgres.settings()?, spec)
            .capture(capture_settings(postgres, &self.engine)?)
            .accept_row_level_security(postgres.row_level_security == RowLevelSecurity::Accept);
        Ok(source)
    }
}

fn capture_settings(postgres: &PostgresSection, engine: &EngineSection) -> Result<PostgresCaptureSettings, BuildError> {
    let manage = Manage::NONE
        .with_publication(postgres.manage.publication)
        .with_slot(postgres.manage.slot)
        .with_identity(postgres.manage.identity)
        .with_indexes(postgres.manage.indexes);
    let slot_wait = match postgres.slot_wait {
        SlotWait::For(wait) => Some(wait),
        SlotWait::Forever => None,
    };
    let mut capture = PostgresCaptureSettings::default()
        .with_slot(&postgres.slot)
        .with_publication(&postgres.publication)
        .with_manage(manage)
        .with_slot_wait(slot_wait)
        .with_heartbeat(postgres.heartbeat.0)
        .with_auth_grace(postgres.auth_grace.0)
        .with_read(postgres.read_settings()?);
    if let Some(every) = engine.inspect_every {
        capture = capture.with_inspect_interval(every.0);
    }
    Ok(capture)
}
