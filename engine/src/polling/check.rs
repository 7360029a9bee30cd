use std::collections::BTreeSet;

use millstream_core::{Severity, SourceSpec};
use millstream_model::QualifiedTable;
use millstream_polling::StoreSettings;

use super::documents;
use crate::config::{Config, PollingSection};
use crate::error::StartError;
use crate::finding::Finding;

/// Tables that every store has.
const ALWAYS: [&str; 5] = ["streams", "replicates", "readings", "status_events", "curves"];

impl Config {
    /// What a polled source lacks: whether it answers, and whether its tables are what the indexes want. Changes nothing: a store
    /// that is not there yet is not made.
    pub(crate) async fn check_polling(&self, section: &PollingSection) -> Result<Vec<Finding>, StartError> {
        let (store, spec) = (section.store.settings(), self.spec());
        let mut found = Vec::new();
        let backend = section.backend()?;
        let streams = match backend.discover_streams().await {
            Ok(streams) => streams,
            Err(error) => {
                found.push(Finding::new(Severity::Error, "source", format!("the source can't be asked: {error}")));
                return Ok(found);
            }
        };
        found.extend(super::probe::probe(section, &*backend, &streams).await);
        if is_made(&store) {
            let documents = documents(&store, &spec, 1)?;
            for index in spec.indexes() {
                let inspected = documents.inspect(&index.name).await?;
                found.extend(inspected.into_iter().map(|found| Finding::from(spec.located(found))));
            }
        } else {
            let known = streams.iter().map(|stream| stream.key.as_str()).chain(ALWAYS).collect();
            found.extend(missing(&spec, &known));
        }
        // Without a store there is nothing to go on from; asking would make one.
        found.extend(self.builder()?.build()?.look(is_made(&store)).await?);
        Ok(found)
    }
}

/// A Postgres is asked, and answers or fails; a file would be made by asking.
fn is_made(store: &StoreSettings) -> bool {
    match store {
        StoreSettings::Sqlite { path } => path.exists(),
        _ => true,
    }
}

fn missing(spec: &SourceSpec, known: &BTreeSet<&str>) -> Vec<Finding> {
    let tables = spec.all_tables().into_iter().filter(|table| !known.contains(table.table()));
    let finding = |table: QualifiedTable| {
        let there = known.iter().copied().collect::<Vec<_>>().join(", ");
        let message = format!("the source has no such stream, and the store no such table (table={table})");
        let mut finding = Finding::new(Severity::Error, "missing-table", message)
            .with_remedy(format!("name one of those there are: {there}"));
        finding.location = spec.location_of(&table);
        finding
    };
    tables.map(finding).collect()
}
