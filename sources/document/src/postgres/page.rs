//! Reading the documents of a page: all within a range of keys.

use std::collections::HashMap;

use futures::TryStreamExt;
use millstream_core::{Result, SourceError};
use millstream_model::{IndexName, RowKey, Text};
use millstream_postgres::sqlx::postgres::PgConnection;
use millstream_postgres::sqlx::{self, AssertSqlSafe, Row};
use millstream_postgres::{Snapshot, classify};

use super::PostgresDocuments;
use super::build::{answer, build_many};
use super::range::RangeQuery;
use super::sight::{Node, unsteady};
use crate::{Built, Reading};

pub(super) async fn build_page(documents: &PostgresDocuments, index: &IndexName, keys: &[RowKey]) -> Result<Reading> {
    let plan = documents.plan(index).await?;
    let queries = plan.queries()?;
    let places: HashMap<&[Text], usize> = keys.iter().enumerate().map(|(at, key)| (key.values(), at)).collect();
    let alike = places.len() == keys.len() && keys.iter().all(|key| *key.columns() == queries.key.columns);
    let Some(range) = queries.range.as_ref().filter(|_| alike && !keys.is_empty()) else {
        return build_many(documents, index, keys).await;
    };
    let mut lease = documents.lease().await?;
    let read = read(&documents.shared.node, range, &mut lease, keys, &places).await;
    answer(documents, index, lease, read)
}

async fn read(
    node: &Node,
    range: &RangeQuery,
    connection: &mut PgConnection,
    keys: &[RowKey],
    places: &HashMap<&[Text], usize>,
) -> Result<(Vec<Built>, Snapshot)> {
    // Once more when the server turns out to be a standby.
    for _ in 0..2 {
        let replayed = node.before(connection).await?;
        let (built, sight) = query(range, connection, keys, places).await?;
        if let Some(snapshot) = node.sight(replayed, &sight)? {
            return Ok((built, snapshot));
        }
    }
    Err(unsteady())
}

/// Each key's document, and what the statement could see.
async fn query(
    range: &RangeQuery,
    connection: &mut PgConnection,
    keys: &[RowKey],
    places: &HashMap<&[Text], usize>,
) -> Result<(Vec<Built>, String)> {
    // Planned for this very range: how many rows are in it decides how they are best found.
    let mut query = sqlx::query(AssertSqlSafe(range.sql.clone())).persistent(false);
    for key in keys.first().into_iter().chain(keys.last()) {
        for column in &range.columns {
            let missing = || SourceError::decode(format!("a key lacks a column of the index's (column={column})"));
            query = query.bind(key.get(column).ok_or_else(missing)?);
        }
    }
    let (mut built, mut sight, mut own) = (vec![Built::Absent; keys.len()], None, Vec::new());
    let mut rows = query.fetch(connection);
    let failed = |error| classify("the build query over a range failed", error);
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        if sight.is_none() {
            sight = Some(row.try_get::<String, _>(0).map_err(failed)?);
        }
        let Some(document) = row.try_get::<Option<String>, _>(1).map_err(failed)? else { continue };
        own.clear();
        for at in 0..range.columns.len() {
            own.push(row.try_get::<&str, _>(at + 2).map(Text::from).map_err(failed)?);
        }
        // Rows that were not asked for came into the range since; whoever made them told of it.
        if let Some(place) = places.get(own.as_slice()) {
            built[*place] = Built::Document(document);
        }
    }
    let sight = sight.ok_or_else(|| SourceError::decode("the build query answered without its snapshot"))?;
    Ok((built, sight))
}
