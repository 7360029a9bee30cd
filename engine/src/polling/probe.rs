//! Whether each stream can be read, tried once.

use millstream_core::Severity;
use millstream_polling::SourceBackend;
use millstream_polling::model::{DataStream, FetchReason, Mode, StreamDescriptor, StreamFetchRequest};

use crate::config::PollingSection;
use crate::finding::Finding;

/// Asks for one page of each stream that the file names; what fails is a finding. Keeps nothing.
pub(super) async fn probe(
    section: &PollingSection,
    backend: &dyn SourceBackend,
    discovered: &[StreamDescriptor],
) -> Vec<Finding> {
    let tables = section.sql_table.iter().flat_map(|tables| tables.tables.keys());
    let lists = section.http_json.iter().flat_map(|lists| lists.streams.keys());
    let mut found = Vec::new();
    for name in tables.chain(lists) {
        let known = discovered.iter().find(|stream| stream.key.as_str() == name);
        // One that could not be described is asked for as well: its failure says why.
        let descriptor = known.cloned().unwrap_or_else(|| StreamDescriptor::records(name.as_str(), ["id"]));
        let request = StreamFetchRequest {
            mode: descriptor.mode.unwrap_or(Mode::Append),
            stream: DataStream { id: name.clone(), descriptor },
            since: None,
            checkpoint: None,
            reason: FetchReason::Audit,
        };
        let outcome = match backend.fetch_readings(&[request]).await {
            Ok(fetches) => fetches.into_iter().find_map(|fetch| fetch.outcome.err()),
            Err(error) => Some(error),
        };
        if let Some(error) = outcome {
            let message = format!("the stream can't be read (stream={name}): {error}");
            found.push(Finding::new(Severity::Error, "source", message));
        }
    }
    found
}
