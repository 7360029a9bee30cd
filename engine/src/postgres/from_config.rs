use millstream_cdc::PostgresCaptureSettings;
use millstream_core::Severity;

use super::{Manage, PostgresSource};
use crate::config::{Config, EngineSection, PostgresSection, RowLevelSecurity, SlotWait, SourceSection};
use crate::error::{BuildError, StartError};
use crate::finding::Finding;

impl Config {
    /// The Postgres that the file describes.
    ///
    /// # Errors
    /// When its address can't be used, or the file describes another kind of source.
    pub fn postgres_source(&self) -> Result<PostgresSource, BuildError> {
        let SourceSection::Postgres(postgres) = &self.source else {
            return Err(BuildError::OtherSource { wanted: "postgres", found: self.source.name() });
        };
        let source = PostgresSource::new(postgres.settings()?, self.spec())
            .capture(capture_settings(postgres, &self.engine)?)
            .accept_row_level_security(postgres.row_level_security == RowLevelSecurity::Accept);
        Ok(source)
    }

    /// What a Postgres, its engine and its sinks lack.
    pub(crate) async fn check_postgres(&self) -> Result<Vec<Finding>, StartError> {
        let source = self.postgres_source()?;
        let mut found = source.check(&self.settings()).await?;
        let may_replicate = !found.iter().any(|finding| finding.code == "role");
        let engine = self.builder()?.build()?;
        let mut beside = engine.look(may_replicate).await?;
        // An engine that runs holds both: that is no fault.
        if let Some(held) = found.iter().find(|finding| finding.code == "slot-held").map(|held| held.message.clone()) {
            for sink in beside.iter_mut().filter(|found| found.message.contains("in use by another process")) {
                sink.severity = Severity::Note;
                sink.manageable = true;
                sink.remedy.clone_from(&held);
            }
        }
        if beside.iter().any(|finding| matches!(finding.code, "gap" | "slot")) {
            // What becomes of the slot is told there.
            found.retain(|finding| finding.code != "slot");
        }
        found.extend(beside);
        Ok(found)
    }
}

fn capture_settings(postgres: &PostgresSection, engine: &EngineSection) -> Result<PostgresCaptureSettings, BuildError> {
    let manage = Manage::NONE
        .with_publication(postgres.manage.publication)
        .with_slot(postgres.manage.slot)
        .with_identity(postgres.manage.identity)
        .with_indexes(postgres.manage.indexes)
        .with_column_lists(postgres.column_lists);
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
