//! A sink that outlives crashes, keeps the last write (no versions), and fails as the seed says.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millstream_model::{Body, IndexName, Version};
use millstream_sinks::{
    Capabilities, Outcome, Progress, ProgressStore, Refill, Result, Sink, SinkError, WriteBatch, async_trait,
};

use crate::world::World;

#[derive(Default)]
pub struct Disk {
    pub documents: BTreeMap<(String, String), String>,
    pub progress: Option<Progress>,
    pub trace: DefaultHasher,
    pub writes: u64,
    /// The version of each document's last write, in its place or not.
    versions: BTreeMap<(String, String), Version>,
    /// The first write that put an older read in a newer one's place.
    pub went_back: Option<String>,
}

impl Disk {
    /// Reads are numbered as they begin: whoever keeps the last write must get them in this order.
    fn note(&mut self, id: &(String, String), version: Version) {
        let last = self.versions.insert(id.clone(), version);
        if let Some(last) = last.filter(|last| *last > version) {
            self.went_back.get_or_insert_with(|| format!("{id:?} went back from {last:?} to {version:?}"));
        }
    }
}

#[derive(Clone)]
pub struct SimSink {
    pub world: Arc<World>,
    pub disk: Arc<Mutex<Disk>>,
}

#[async_trait]
impl Sink for SimSink {
    async fn write(&self, batch: &WriteBatch) -> Result<Vec<Outcome>> {
        self.world.dawdle(10).await;
        if self.world.chance(4) {
            return Err(SinkError::retry("scripted: refused"));
        }
        let mut outcomes = Vec::new();
        for document in &batch.documents {
            if self.world.chance(3) {
                outcomes.push(Outcome::Retry(Duration::from_millis(self.world.below(20))));
                continue;
            }
            let mut disk = self.disk.lock().unwrap();
            let id = (batch.index.to_string(), document.key.to_id());
            (&id, document.version.0).hash(&mut disk.trace);
            disk.writes += 1;
            disk.note(&id, document.version);
            match &document.body {
                Body::Upsert(text) => drop(disk.documents.insert(id, text.clone())),
                Body::Tombstone => drop(disk.documents.remove(&id)),
            }
            outcomes.push(Outcome::Durable);
        }
        self.world.dawdle(10).await;
        if self.world.chance(4) {
            return Err(SinkError::retry("scripted: done, then failed"));
        }
        Ok(outcomes)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default().with_refill(Refill::Clear)
    }

    fn progress(&self) -> Option<&dyn ProgressStore> {
        Some(self)
    }

    async fn clear(&self, index: &IndexName, _: Version) -> Result<()> {
        self.world.dawdle(5).await;
        self.disk.lock().unwrap().documents.retain(|(other, _), _| other != index.as_str());
        Ok(())
    }
}

#[async_trait]
impl ProgressStore for SimSink {
    async fn load(&self) -> Result<Option<Progress>> {
        Ok(self.disk.lock().unwrap().progress.clone())
    }

    async fn save(&self, progress: &Progress) -> Result<()> {
        self.world.dawdle(3).await;
        self.disk.lock().unwrap().progress = Some(progress.clone());
        Ok(())
    }
}
