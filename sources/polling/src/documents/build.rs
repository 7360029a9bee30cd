//! Reading documents back by their keys.

use std::sync::Arc;

use millstream_core::{Result, SourceError};
use millstream_document::{Built, Reading};
use millstream_model::{Everything, IndexName, RowKey, Text};
use sqlx::AssertSqlSafe;

use super::SqliteDocuments;
use super::error::classify;
use super::plan::Queries;

pub(super) async fn build_many(documents: &SqliteDocuments, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
    if keys.is_empty() {
        return Ok(Reading { built: Vec::new(), sight: Arc::new(Everything) });
    }
    let plan = documents.plan(index).await?;
    let read = read(documents, plan.queries()?, keys).await;
    if let Err(error) = &read {
        documents.shared.plans.forget_on(index, error);
    }
    // Whatever began to read after a change was told sees it.
    let built = read.map_err(|error| error.context(format!("index {index}")))?;
    Ok(Reading { built, sight: Arc::new(Everything) })
}

async fn read(documents: &SqliteDocuments, plan: &Queries, keys: &[RowKey]) -> Result<Vec<Built>> {
    let parameter = plan.parameter(keys)?;
    let mut connection = documents.connection().await?;
    let rows: Vec<(i64, Option<String>, Option<String>)> = sqlx::query_as(AssertSqlSafe(plan.build.clone()))
        .bind(parameter)
        .fetch_all(&mut *connection)
        .await
        .map_err(|error| classify("the build query failed", error))?;
    let mut built = vec![Built::Absent; keys.len()];
    for (number, document, own) in rows {
        let place = usize::try_from(number).ok().and_then(|at| built.get_mut(at));
        let place = place.ok_or_else(|| SourceError::decode(format!("the build query numbered a key {number}")))?;
        match (own, document) {
            (Some(own), _) => *place = Built::Respelled(own_key(plan, &own)?),
            (None, Some(document)) => *place = Built::Document(document),
            (None, None) => {}
        }
    }
    Ok(built)
}

fn own_key(plan: &Queries, texts: &str) -> Result<RowKey> {
    let texts: Vec<Text> = serde_json::from_str(texts)
        .map_err(|error| SourceError::decode("the build query spelled a key that can't be read").with_cause(error))?;
    if texts.len() != plan.key.columns.len() {
        return Err(SourceError::decode("the build query gave a key of another length"));
    }
    Ok(RowKey::new(plan.key.columns.clone(), texts))
}
