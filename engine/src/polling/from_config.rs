use std::sync::Arc;

use millstream_document::DocumentBuilder;
use millstream_polling::backends::{CsvFolder, CsvFolderSettings, CsvRows, SqlTable};
use millstream_polling::model::ColumnType;
use millstream_polling::{PollingSettings, SourceBackend, StoreSettings};

use super::{PollingSource, documents};
use crate::config::{ColumnTypeSection, Config, CsvFolderSection, PollingSection, StoreSection};
use crate::error::BuildError;

impl Config {
    /// The source that a section of the file describes.
    pub(crate) fn polling_source(&self, section: &PollingSection) -> Result<PollingSource, BuildError> {
        let backend = section.backend()?;
        Ok(PollingSource::new(
            backend,
            section.store.settings(),
            section.settings().with_engine(self.name.as_str()),
            self.spec(),
        ))
    }

    pub(crate) fn polling_documents(
        &self,
        section: &PollingSection,
        connections: usize,
    ) -> Result<Arc<dyn DocumentBuilder>, BuildError> {
        Ok(documents(&section.store.settings(), &self.spec(), connections)?)
    }
}

impl PollingSection {
    /// The backend that it names.
    pub(super) fn backend(&self) -> Result<Arc<dyn SourceBackend>, BuildError> {
        if let Some(tables) = &self.sql_table {
            return Ok(Arc::new(SqlTable::new(tables.settings())?));
        }
        #[cfg(feature = "http_json")]
        if let Some(api) = &self.http_json {
            return Ok(Arc::new(millstream_polling::backends::HttpJson::new(api.settings())?));
        }
        #[cfg(not(feature = "http_json"))]
        if self.http_json.is_some() {
            return Err(BuildError::NotBuiltIn("http_json"));
        }
        let section = self.csv_folder.as_ref().ok_or(BuildError::NoBackend)?;
        Ok(Arc::new(CsvFolder::new(section.settings().ok_or(BuildError::NoBackend)?)))
    }

    fn settings(&self) -> PollingSettings {
        PollingSettings::default().with(|settings| {
            settings.every = self.every.0;
            settings.floor = self.floor.0.map_or(std::time::Duration::ZERO, |floor| floor.0);
        })
    }
}

impl StoreSection {
    pub(super) fn settings(&self) -> StoreSettings {
        match self {
            Self::Sqlite(sqlite) => StoreSettings::sqlite(&sqlite.path),
            Self::Postgres(postgres) => {
                StoreSettings::Postgres { url: postgres.url.clone(), schema: postgres.schema.clone() }
            }
        }
    }
}

impl CsvFolderSection {
    /// `None`: it does not say what a line is; the file's check says so.
    fn settings(&self) -> Option<CsvFolderSettings> {
        let rows = match (&self.key, &self.time, &self.value) {
            (Some(key), None, None) => CsvRows::Records { key: key.clone() },
            (None, Some(time), Some(value)) => {
                CsvRows::Readings { time: time.clone(), value: value.clone(), replicate: self.replicate.clone() }
            }
            _ => return None,
        };
        let mut settings = CsvFolderSettings::new(self.path.clone(), rows)
            .with_reconciled(self.reconciled)
            .with_delimiter(u8::try_from(self.delimiter).unwrap_or(b','))
            .with_settle(self.settle.0);
        for (name, kind) in &self.columns {
            settings = settings.with_column(name, (*kind).into());
        }
        Some(settings)
    }
}

impl From<ColumnTypeSection> for ColumnType {
    fn from(kind: ColumnTypeSection) -> Self {
        match kind {
            ColumnTypeSection::Text => Self::Text,
            ColumnTypeSection::Integer => Self::Integer,
            ColumnTypeSection::Decimal => Self::Decimal,
            ColumnTypeSection::Double => Self::Double,
            ColumnTypeSection::Boolean => Self::Boolean,
            ColumnTypeSection::Timestamp => Self::Timestamp,
            ColumnTypeSection::Date => Self::Date,
            ColumnTypeSection::Json => Self::Json,
        }
    }
}
