//! What a section on tables of a database means to its backend.

use millstream_polling::backends::{
    CursorSettings, CursorUnit, DeleteLog, LookBack, SqlTableSettings, TableChanges, TableSettings,
};

use crate::config::{DeleteLogSection, LookBackSection, SqlTableSection, StraySection, TableSection, UnitSection};

impl SqlTableSection {
    /// The backend's settings.
    pub(crate) fn settings(&self) -> SqlTableSettings {
        let settings =
            SqlTableSettings::new(self.url.clone()).with_page_rows(self.page_rows).with_rows_max(self.rows_max);
        self.tables.iter().fold(settings, |settings, (stream, table)| settings.with_table(table.settings(stream)))
    }
}

impl TableSection {
    fn settings(&self, stream: &str) -> TableSettings {
        let (schema, table) = place(self.schema.as_ref(), self.table.as_deref().unwrap_or(stream));
        let changes = match &self.cursor {
            None => TableChanges::Reconciled,
            Some(column) => {
                let cursor = cursor(column, self.unit, self.settle, self.look_back).with(|cursor| {
                    cursor.nulls = self.null_cursors == StraySection::Read;
                    cursor.future = self.future_cursors == StraySection::Read;
                });
                TableChanges::Cursor {
                    cursor,
                    delete_log: self.delete_log.as_ref().map(|log| Box::new(log.settings())),
                    reconcile_keys: self.reconcile_keys.map(|span| span.0),
                }
            }
        };
        TableSettings::reconciled(stream).with(|settings| {
            settings.schema = schema;
            settings.table = table;
            settings.key.clone_from(&self.key);
            settings.only.clone_from(&self.only);
            settings.columns = self.columns.iter().map(|(name, kind)| (name.clone(), (*kind).into())).collect();
            settings.changes = changes;
            settings.filter.clone_from(&self.r#where);
            settings.soft_delete.clone_from(&self.soft_delete);
            settings.zone_minutes = self.zone.0;
        })
    }
}

impl DeleteLogSection {
    fn settings(&self) -> DeleteLog {
        let (schema, table) = place(self.schema.as_ref(), &self.table);
        let cursor = cursor(&self.cursor, self.unit, self.settle, self.look_back);
        let mut log = DeleteLog::new(table, cursor).with_key(&self.key);
        log.schema = schema;
        log
    }
}

/// A dotted text is always schema and table, unless the schema is named beside it.
fn place(schema: Option<&String>, table: &str) -> (Option<String>, String) {
    match (schema, table.split_once('.')) {
        (None, Some((schema, table))) => (Some(schema.to_owned()), table.to_owned()),
        (schema, _) => (schema.cloned(), table.to_owned()),
    }
}

fn cursor(
    column: &str,
    unit: Option<UnitSection>,
    settle: Option<crate::config::Span>,
    look_back: Option<LookBackSection>,
) -> CursorSettings {
    CursorSettings::new(column).with(|cursor| {
        cursor.unit = unit.map(|unit| match unit {
            UnitSection::Seconds => CursorUnit::Seconds,
            UnitSection::Millis => CursorUnit::Millis,
            UnitSection::Micros => CursorUnit::Micros,
        });
        cursor.settle = settle.map_or(cursor.settle, |settle| settle.0);
        cursor.look_back = match look_back {
            None => LookBack::Nothing,
            Some(LookBackSection::Time(span)) => LookBack::Time(span.0),
            Some(LookBackSection::Numbers(count)) => LookBack::Numbers(count),
        };
    })
}
