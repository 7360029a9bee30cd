//! A table as the settings and the source's catalog make it.

use sha2::{Digest, Sha256};

use super::catalog::{Catalog, Native, SourceColumn};
use super::cell::zone_text;
use super::database::Database;
use super::dialect::Dialect;
use super::settings::{CursorSettings, DeleteLog, TableChanges, TableSettings};
use crate::BackendError;
use crate::model::{ColumnType, Mode, StreamDescriptor};

/// A table that can be read.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub dialect: Dialect,
    pub settings: TableSettings,
    /// Its name in SQL.
    pub name: String,
    pub key: Vec<SourceColumn>,
    /// All columns that are read but the key's.
    pub columns: Vec<SourceColumn>,
    pub cursor: Option<SourceColumn>,
    /// SQL that is true for a row that is there.
    pub live: Option<String>,
    pub log: Option<Log>,
    /// How moments without a zone end.
    pub zone: String,
    /// Changes when marks of before are no good any more.
    pub fingerprint: String,
}

/// A table in which removals leave rows.
#[derive(Clone, Debug)]
pub(super) struct Log {
    pub settings: DeleteLog,
    pub name: String,
    /// In the order of the table's key.
    pub key: Vec<SourceColumn>,
    pub cursor: SourceColumn,
}

impl Table {
    /// Holds settings against what the source has; `None`: it has no such table.
    ///
    /// # Errors
    /// `Configuration` for what does not fit, naming the stream.
    pub(super) async fn find(database: &Database, settings: &TableSettings) -> Result<Option<Self>, BackendError> {
        let stream = &settings.stream;
        let schema = settings.schema.as_deref();
        let Some(catalog) = Catalog::look(database, schema, &settings.table).await? else { return Ok(None) };
        let log = match &settings.changes {
            TableChanges::Cursor { delete_log: Some(log), .. } => {
                let found = Catalog::look(database, log.schema.as_deref(), &log.table).await?;
                let missing = || wrong(stream, format!("there is no such delete log (table={})", log.table));
                Some((&**log, found.ok_or_else(missing)?))
            }
            _ => None,
        };
        Self::new(database.dialect(), settings, &catalog, log).map(Some)
    }

    fn new(
        dialect: Dialect,
        settings: &TableSettings,
        catalog: &Catalog,
        log: Option<(&DeleteLog, Catalog)>,
    ) -> Result<Self, BackendError> {
        let stream = &settings.stream;
        let find = |name: &String| {
            let column = catalog.column(name).cloned();
            let mut column = column.ok_or_else(|| {
                let there: Vec<&str> = catalog.columns.iter().map(|column| column.name.as_str()).collect();
                wrong(stream, format!("there is no such column (column={name}, columns={})", there.join(", ")))
            })?;
            if let Some((_, kind)) = settings.columns.iter().find(|(named, _)| named == name) {
                column.kind = *kind;
            }
            Ok(column)
        };
        let names = if settings.key.is_empty() { catalog.primary() } else { settings.key.clone() };
        if names.is_empty() {
            return Err(wrong(stream, "the table has no primary key: name the columns of one".to_owned()));
        }
        if !catalog.is_unique(&names) {
            let names = names.join(", ");
            return Err(wrong(stream, format!("no unique index says that two rows can't share the key (key={names})")));
        }
        let mut key = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        for column in &mut key {
            // One value has one text as a text only.
            if matches!(column.kind, ColumnType::Decimal | ColumnType::Double | ColumnType::Json) {
                column.kind = ColumnType::Text;
            }
        }
        settings.columns.iter().try_for_each(|(name, _)| find(name).map(|_| ()))?;
        let read: Vec<String> = match &settings.only {
            Some(only) => only.clone(),
            None => catalog.columns.iter().map(|column| column.name.clone()).collect(),
        };
        let columns = read.iter().filter(|name| !names.contains(name)).map(find).collect::<Result<Vec<_>, _>>()?;
        let cursor = match &settings.changes {
            TableChanges::Cursor { cursor, .. } => Some(find(&cursor.column)?),
            TableChanges::Reconciled => None,
        };
        let gone = settings.soft_delete.as_ref().map(|name| {
            let column = find(name)?;
            Ok::<_, BackendError>(format!(
                "not ({})",
                dialect.is_set(&dialect.ident(name), &column.native, column.kind)
            ))
        });
        // A fragment may end in a comment.
        let filter = settings.filter.as_ref().map(|filter| format!("({filter}\n)"));
        let parts: Vec<String> = gone.transpose()?.into_iter().chain(filter).collect();
        let live = (!parts.is_empty()).then(|| parts.join(" and "));
        let log = log.map(|(log, catalog)| Log::new(dialect, settings, log, &catalog, &names)).transpose()?;
        let fingerprint = fingerprint(settings, cursor.as_ref(), &names, &columns);
        let name = dialect.table(settings.schema.as_deref(), &settings.table);
        let zone = zone_text(settings.zone_minutes);
        Ok(Self { dialect, settings: settings.clone(), name, key, columns, cursor, live, log, zone, fingerprint })
    }

    /// The stream that it is.
    pub(super) fn descriptor(&self) -> StreamDescriptor {
        let names = self.key.iter().map(|column| column.name.as_str());
        let columns = self.key.iter().chain(&self.columns);
        let stream = StreamDescriptor::records(self.settings.stream.as_str(), names);
        let stream = columns.fold(stream, |stream, column| stream.with_column(&column.name, column.kind));
        stream.with_mode(self.mode())
    }

    pub(super) fn mode(&self) -> Mode {
        match self.settings.changes {
            TableChanges::Reconciled => Mode::Reconciled,
            TableChanges::Cursor { .. } => Mode::Append,
        }
    }

    /// Columns by which its rows are put in order, quoted.
    pub(super) fn order(&self, columns: &[&SourceColumn]) -> Vec<(String, Native)> {
        columns.iter().map(|column| (self.dialect.ident(&column.name), column.native.clone())).collect()
    }
}

impl Log {
    fn new(
        dialect: Dialect,
        settings: &TableSettings,
        log: &DeleteLog,
        catalog: &Catalog,
        key: &[String],
    ) -> Result<Self, BackendError> {
        let stream = &settings.stream;
        let names = if log.key.is_empty() { key } else { &log.key };
        if names.len() != key.len() {
            return Err(wrong(stream, format!("the delete log's key needs {} columns", key.len())));
        }
        let find = |name: &String| {
            let missing = || wrong(stream, format!("the delete log has no such column (column={name})"));
            catalog.column(name).cloned().ok_or_else(missing)
        };
        let key = names.iter().map(find).collect::<Result<_, _>>()?;
        let name = dialect.table(log.schema.as_deref(), &log.table);
        Ok(Self { settings: log.clone(), name, key, cursor: find(&log.cursor.column)? })
    }
}

/// The cursor's settings, of a table that has one.
pub(super) fn cursor_of(settings: &TableSettings) -> Option<&CursorSettings> {
    match &settings.changes {
        TableChanges::Cursor { cursor, .. } => Some(cursor),
        TableChanges::Reconciled => None,
    }
}

/// A column more or less is among what counts: rows that were read before may have a value there.
fn fingerprint(
    settings: &TableSettings,
    cursor: Option<&SourceColumn>,
    key: &[String],
    columns: &[SourceColumn],
) -> String {
    let log = match &settings.changes {
        TableChanges::Cursor { delete_log: Some(log), .. } => {
            format!("{:?} {:?} {:?}", log.schema, log.table, log.cursor.column)
        }
        _ => String::new(),
    };
    let TableSettings { schema, table, filter, soft_delete, zone_minutes, .. } = settings;
    let unit = cursor_of(settings).and_then(|cursor| cursor.unit);
    let columns: Vec<_> = columns.iter().map(|column| (&column.name, column.kind)).collect();
    let text = format!(
        "{schema:?} {table:?} {key:?} {cursor:?} {unit:?} {log} {filter:?} {soft_delete:?} {zone_minutes} {columns:?}"
    );
    Sha256::digest(text.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn wrong(stream: &str, why: String) -> BackendError {
    BackendError::configuration(format!("stream {stream}: {why}"))
}
