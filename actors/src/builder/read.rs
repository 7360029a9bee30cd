//! Reading documents, whatever of them can't be read.

use std::sync::Arc;

use millstream_core::{Result, SourceError, SourceErrorKind};
use millstream_document::Reading;
use millstream_model::{Fence, IndexName, RowKey, Sight};

use super::{BuilderActor, Origin, Verdict};

impl BuilderActor {
    /// Reads documents; a page in one statement over its range, as long as none of it fails on its data.
    ///
    /// # Errors
    /// What holds the whole index.
    pub(super) async fn read(
        &mut self,
        index: &IndexName,
        keys: &[RowKey],
        origin: Origin,
    ) -> Result<(Vec<Verdict>, Arc<dyn Sight>)> {
        if origin == Origin::Page {
            match self.read_once(index, keys, origin).await {
                Ok(reading) => {
                    let reading = whole(reading, keys.len())?;
                    return Ok((reading.built.into_iter().map(Verdict::Built).collect(), reading.sight));
                }
                Err(error) if error.kind() == SourceErrorKind::Query => {
                    tracing::debug!(%index, %error, "a page can't be built as one; building it by its keys");
                }
                Err(error) => return Err(error),
            }
        }
        self.read_by_keys(index, keys).await
    }

    /// Reads all keys, bisecting a batch that fails on its data down to the documents that do. Transient faults are tried again
    /// in place.
    ///
    /// # Errors
    /// What holds the whole index.
    async fn read_by_keys(&mut self, index: &IndexName, keys: &[RowKey]) -> Result<(Vec<Verdict>, Arc<dyn Sight>)> {
        let mut verdicts: Vec<Option<Verdict>> = (0..keys.len()).map(|_| None).collect();
        let mut sights: Vec<(std::ops::Range<usize>, Arc<dyn Sight>)> = Vec::new();
        let mut ranges = Vec::from([std::ops::Range { start: 0, end: keys.len() }]);
        while let Some(range) = ranges.pop() {
            // What a single read that fails could see is asked before it: a later read sees no less.
            let before = if range.len() == 1 && keys.len() > 1 {
                Some(self.read_once(index, &[], Origin::Lane).await?.sight)
            } else {
                None
            };
            match self.read_once(index, &keys[range.clone()], Origin::Lane).await {
                Ok(reading) => {
                    let reading = whole(reading, range.len())?;
                    verdicts[range.clone()]
                        .iter_mut()
                        .zip(reading.built)
                        .for_each(|(slot, built)| *slot = Some(Verdict::Built(built)));
                    sights.push((range, reading.sight));
                }
                Err(error) if error.kind() == SourceErrorKind::Query && range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    ranges.push(middle..range.end);
                    ranges.push(range.start..middle);
                }
                Err(error) if error.kind() == SourceErrorKind::Query => {
                    let sight = match before {
                        Some(sight) => sight,
                        None => {
                            // Asked alone from the start: see first, then read again.
                            let sight = self.read_once(index, &[], Origin::Lane).await?.sight;
                            match self.read_once(index, &keys[range.clone()], Origin::Lane).await {
                                Ok(reading) => {
                                    sights.push((range.clone(), reading.sight));
                                    verdicts[range.start] = reading.built.into_iter().next().map(Verdict::Built);
                                    continue;
                                }
                                Err(error) if error.kind() == SourceErrorKind::Query => sight,
                                Err(error) => return Err(error),
                            }
                        }
                    };
                    verdicts[range.start] = Some(Verdict::Impossible(error));
                    sights.push((range, sight));
                }
                Err(error) => return Err(error),
            }
        }
        let verdicts = verdicts
            .into_iter()
            .map(|verdict| verdict.expect("every key is in exactly one range that ended"))
            .collect();
        Ok((verdicts, all_of(sights)))
    }

    /// One statement; a lost connection is tried again until it answers.
    async fn read_once(&mut self, index: &IndexName, keys: &[RowKey], origin: Origin) -> Result<Reading> {
        loop {
            let documents = &self.parts.documents;
            let read = match origin {
                Origin::Lane => documents.build_many(index, keys).await,
                Origin::Page => documents.build_page(index, keys).await,
            };
            match read {
                Err(error) if error.kind().is_transient() => {
                    let wait = self.waits.longer();
                    self.meters.retry("build");
                    tracing::warn!(%index, %error, wait_ms = wait.as_millis() as u64, "a build failed; trying again");
                    tokio::time::sleep(wait).await;
                }
                result => {
                    self.waits.reset();
                    return result;
                }
            }
        }
    }
}

/// One answer a key.
fn whole(reading: Reading, keys: usize) -> Result<Reading> {
    if reading.built.len() == keys {
        return Ok(reading);
    }
    Err(SourceError::decode("the builder gave a wrong number of documents"))
}

/// Several reads of one batch count as what all of them could see.
#[derive(Debug)]
struct All(Vec<Arc<dyn Sight>>);

impl Sight for All {
    fn covers(&self, fence: &Fence) -> bool {
        self.0.iter().all(|sight| sight.covers(fence))
    }
}

fn all_of(mut sights: Vec<(std::ops::Range<usize>, Arc<dyn Sight>)>) -> Arc<dyn Sight> {
    match (sights.len(), sights.pop()) {
        (1, Some((_, only))) => only,
        (_, last) => Arc::new(All(sights.into_iter().chain(last).map(|(_, sight)| sight).collect())),
    }
}
