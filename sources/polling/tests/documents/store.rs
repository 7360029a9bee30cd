//! A store in a temporary file, and what is built from it.

use std::sync::Arc;

use futures::StreamExt;
use millstream_core::SourceSpec;
use millstream_core::schema::IndexSchema;
use millstream_document::{Built, DocumentBuilder, ResolvedPage};
use millstream_model::{
    ChangedRow, Fence, IndexName, KeyColumns, LinkValue, LinkValues, Operation, QualifiedTable, RowKey, Text,
};
use millstream_polling::SqliteDocuments;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

pub struct Store {
    folder: tempfile::TempDir,
    pub writer: SqliteConnection,
}

impl Store {
    pub async fn with(sql: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = SqliteConnectOptions::new()
            .filename(folder.path().join("store.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .disable_statement_logging();
        let writer = SqliteConnection::connect_with(&options).await.unwrap();
        let mut store = Self { folder, writer };
        store.execute(sql).await;
        store
    }

    pub async fn execute(&mut self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut self.writer).await.unwrap();
    }

    /// The documents of one index, `it`.
    pub fn documents(&self, schema: IndexSchema) -> SqliteDocuments {
        let spec = SourceSpec::new([(index(), schema)]);
        SqliteDocuments::new(self.folder.path().join("store.db"), Arc::new(spec), 2)
    }
}

pub fn index() -> IndexName {
    IndexName::new("it")
}

pub fn schema(yaml: &str) -> IndexSchema {
    IndexSchema::from_yaml(yaml, "it.schema.yaml").unwrap_or_else(|errors| panic!("{errors}"))
}

pub fn key(column: &str, value: &str) -> RowKey {
    keys(&[(column, value)])
}

pub fn keys(pairs: &[(&str, &str)]) -> RowKey {
    let columns: KeyColumns = pairs.iter().map(|(column, _)| Text::from(*column)).collect();
    RowKey::new(columns, pairs.iter().map(|(_, value)| Text::from(*value)))
}

/// What is built under keys; each body is checked to be one line of JSON.
pub async fn build(documents: &SqliteDocuments, keys: &[RowKey]) -> Vec<Built> {
    let reading = documents.build_many(&index(), keys).await.unwrap();
    assert!(reading.sight.covers(&Fence::new(7, millstream_model::Position(7))));
    for built in &reading.built {
        if let Built::Document(text) = built {
            let read: Result<serde_json::Value, _> = serde_json::from_str(text);
            assert!(read.is_ok() && !text.contains(['\n', '\r']), "{text}");
        }
    }
    reading.built
}

/// The document of one root key, which must be there.
pub async fn document(documents: &SqliteDocuments, key: RowKey) -> String {
    match build(documents, &[key]).await.remove(0) {
        Built::Document(text) => text,
        other => panic!("no document: {other:?}"),
    }
}

/// All that rows touch: row number and document id, in order, each once.
pub async fn touches(documents: &SqliteDocuments, rows: &[ChangedRow]) -> Vec<(usize, String)> {
    let rows: Vec<&ChangedRow> = rows.iter().collect();
    let index = index();
    let pages: Vec<ResolvedPage> = documents.resolve(&index, &rows).map(|page| page.unwrap()).collect().await;
    assert!(pages.iter().all(|page| page.not_yet.is_empty() && page.touches.len() <= 5_000));
    let mut touches: Vec<_> =
        pages.iter().flat_map(|page| &page.touches).map(|(row, key)| (*row, key.to_id())).collect();
    touches.sort();
    touches.dedup();
    touches
}

pub fn table(name: &str) -> QualifiedTable {
    QualifiedTable::new("public", name)
}

pub fn row(name: &str, key: RowKey, operation: Operation) -> ChangedRow {
    ChangedRow::new(table(name), key, operation, Fence::NONE)
}

pub fn links(pairs: &[(&str, LinkValue)]) -> Option<LinkValues> {
    let columns: Vec<Text> = pairs.iter().map(|(column, _)| Text::from(*column)).collect();
    Some(LinkValues::new(columns.into(), pairs.iter().map(|(_, value)| value.clone())))
}

pub fn text(value: &str) -> LinkValue {
    LinkValue::Text(value.into())
}
