//! Reading documents back by their keys.

use std::sync::Arc;

use millstream_core::{Result, SourceError};
use millstream_model::{IndexName, RowKey, Text};
use millstream_postgres::sqlx::{self, AssertSqlSafe, postgres::PgConnection};
use millstream_postgres::{Lease, Snapshot, classify};

use super::PostgresDocuments;
use super::plan::Queries;
use super::sight::{Node, SIGHT, unsteady};
use crate::{Built, Reading};

pub(super) async fn build_many(documents: &PostgresDocuments, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
    if keys.is_empty() {
        return Ok(Reading { built: Vec::new(), sight: Arc::new(look(documents).await?) });
    }
    let plan = documents.plan(index).await?;
    let plan = plan.queries()?;
    let mut lease = documents.lease().await?;
    let read = read(&documents.shared.node, plan, &mut lease, keys).await;
    answer(documents, index, lease, read)
}

/// What a read answers, and what becomes of its connection.
pub(super) fn answer(
    documents: &PostgresDocuments,
    index: &IndexName,
    lease: Lease,
    read: Result<(Vec<Built>, Snapshot)>,
) -> Result<Reading> {
    match read {
        Ok((built, snapshot)) => {
            lease.keep();
            Ok(Reading { built, sight: Arc::new(snapshot) })
        }
        Err(error) => {
            // The server's own refusals leave the connection clean.
            if !error.kind().is_transient() {
                lease.keep();
            }
            documents.shared.plans.forget_on(index, &error);
            Err(error.context(format!("index {index}")))
        }
    }
}

/// What a statement that reads nothing can see: a later one sees no less.
async fn look(documents: &PostgresDocuments) -> Result<Snapshot> {
    let mut lease = documents.lease().await?;
    let node = &documents.shared.node;
    for _ in 0..2 {
        let replayed = node.before(&mut lease).await?;
        let text: String = sqlx::query_scalar(AssertSqlSafe(format!("select {SIGHT}")))
            .fetch_one(&mut *lease)
            .await
            .map_err(|error| classify("can't ask what a read can see", error))?;
        if let Some(snapshot) = node.sight(replayed, &text)? {
            lease.keep();
            return Ok(snapshot);
        }
    }
    Err(unsteady())
}

async fn read(
    node: &Node,
    plan: &Queries,
    connection: &mut PgConnection,
    keys: &[RowKey],
) -> Result<(Vec<Built>, Snapshot)> {
    let texts = plan.key_texts(keys)?;
    // Once more when the server turns out to be a standby.
    for _ in 0..2 {
        let replayed = node.before(connection).await?;
        let rows = query(plan, connection, &texts).await?;
        let sight = rows.iter().find_map(|row| row.3.as_deref());
        let sight = sight.ok_or_else(|| SourceError::decode("the build query answered without its snapshot"))?;
        if let Some(snapshot) = node.sight(replayed, sight)? {
            return Ok((built(plan, rows, keys.len())?, snapshot));
        }
    }
    Err(unsteady())
}

/// Number, document, own key, sight.
type Row = (i64, Option<String>, Option<Vec<String>>, Option<String>);

async fn query(plan: &Queries, connection: &mut PgConnection, texts: &[Vec<&str>]) -> Result<Vec<Row>> {
    let query = sqlx::query_as(AssertSqlSafe(plan.build.clone()));
    let query = texts.iter().fold(query, |query, column| query.bind(column));
    query.fetch_all(connection).await.map_err(|error| classify("the build query failed", error))
}

fn built(plan: &Queries, rows: Vec<Row>, keys: usize) -> Result<Vec<Built>> {
    let mut built = vec![Built::Absent; keys];
    for (number, document, own, _) in rows {
        let place = usize::try_from(number - 1).ok().and_then(|at| built.get_mut(at));
        let place = place.ok_or_else(|| SourceError::decode(format!("the build query numbered a key {number}")))?;
        match (own, document) {
            (Some(own), _) => {
                *place = Built::Respelled(RowKey::new(plan.key.columns.clone(), own.into_iter().map(Text::from)));
            }
            (None, Some(document)) => *place = Built::Document(document),
            (None, None) => {}
        }
    }
    Ok(built)
}
