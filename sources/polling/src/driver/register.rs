//! Curves and streams: discovered, given identities, registered, pinned.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::cycle::Cycle;
use crate::identities::Identity;
use crate::model::{Carries, ColumnAssignment, Mode, StandardCurve, StreamDescriptor, StreamKey};
use crate::store::{Registered, Registration};

impl Cycle<'_> {
    /// Discovers curves and tells the backend under which identities they are known.
    pub(super) async fn curves(&mut self) {
        let backend = &self.driver.backend;
        match self.ask("standard curves", || backend.discover_standard_curves()).await {
            Ok(curves) if !self.plan.audit => {
                for curve in curves {
                    self.curve(&curve).await;
                }
            }
            Ok(_) => {}
            Err(error) => self.error("standard curves could not be discovered", &error),
        }
        match self.driver.store.curve_mappings().await {
            Ok(mappings) => {
                let told = self.ask("curve mappings", || backend.apply_curve_mappings(&mappings)).await;
                if let Err(error) = told {
                    self.error("curve mappings could not be applied", &error);
                }
            }
            Err(error) => self.error("the known curves can't be read", &error),
        }
        self.book.write().await;
    }

    async fn curve(&mut self, curve: &StandardCurve) {
        let driver = self.driver;
        let system = driver.backend.source_system();
        let id = match self.ask("a curve's identity", || driver.identities.curve(system, curve)).await {
            Ok(Identity::Known(id)) => id,
            Ok(Identity::Held(why)) => {
                return self.error(format_args!("curve {} is held", curve.key), &why);
            }
            Err(error) => return self.error(format_args!("curve {} has no identity", curve.key), &error),
        };
        match driver.store.register_curve(curve, &id).await {
            Ok(true) => driver.feed.look_again(),
            Ok(false) => {}
            Err(error) => self.error(format_args!("curve {} could not be stored", curve.key), &error),
        }
    }

    /// Discovers streams where that is due.
    pub(super) async fn streams(&mut self) {
        let driver = self.driver;
        let is_due =
            self.plan.full || !driver.discovered.load(Ordering::Relaxed) || driver.backend.rediscover_every_cycle();
        if !is_due || self.plan.audit {
            return;
        }
        match self.ask("streams", || driver.backend.discover_streams()).await {
            Ok(found) => {
                self.book.report.streams_discovered = found.len() as u64;
                let all = self.register(found).await;
                driver.discovered.store(all, Ordering::Relaxed);
                if all && let Err(error) = driver.store.keep_discovered().await {
                    self.error("the discovery could not be noted", &error);
                }
            }
            Err(error) => self.error("streams could not be discovered", &error),
        }
        self.book.write().await;
    }

    /// Registers what was discovered; true when all of it is.
    async fn register(&mut self, found: Vec<StreamDescriptor>) -> bool {
        let known = match self.driver.store.streams().await {
            Ok(known) => known,
            Err(error) => {
                self.error("the registered streams can't be read", &error);
                return false;
            }
        };
        if found.is_empty() && known.iter().any(|stream| !stream.gone) {
            // Far more often a fault of the source than the truth.
            self.error("discovery", &"the source names no stream at all; those that are known stay");
            return false;
        }
        let mut times: BTreeMap<&StreamKey, usize> = BTreeMap::new();
        found.iter().for_each(|stream| *times.entry(&stream.key).or_default() += 1);
        let twice: BTreeSet<StreamKey> =
            times.into_iter().filter(|(_, times)| *times > 1).map(|(key, _)| key.clone()).collect();
        let mut all = twice.is_empty();
        for key in &twice {
            self.error(format_args!("stream {key}"), &"it was discovered twice");
        }
        let mut withheld = twice.clone();
        for stream in found.iter().filter(|stream| !twice.contains(&stream.key)) {
            if !self.register_one(stream).await {
                all = false;
                withheld.insert(stream.key.clone());
            }
        }
        *self.driver.withheld.lock().unwrap_or_else(PoisonError::into_inner) = withheld;
        let names: BTreeSet<&StreamKey> = found.iter().map(|stream| &stream.key).collect();
        for gone in known.iter().filter(|stream| !stream.gone && !names.contains(stream.stream.key())) {
            all &= self.set_gone(gone, "the source no longer names it").await;
        }
        all
    }

    async fn register_one(&mut self, stream: &StreamDescriptor) -> bool {
        let (driver, key) = (self.driver, &stream.key);
        let system = driver.backend.source_system();
        let id = match self.ask("a stream's identity", || driver.identities.stream(system, stream)).await {
            Ok(Identity::Known(id)) => id,
            Ok(Identity::Held(why)) => {
                self.error(format_args!("stream {key} is held"), &why);
                return false;
            }
            Err(error) => {
                self.error(format_args!("stream {key} has no identity"), &error);
                return false;
            }
        };
        let default = if driver.backend.reconciled() { Mode::Reconciled } else { Mode::Append };
        match driver.store.register(stream, &id, stream.mode.unwrap_or(default)).await {
            Ok(Registration::Unchanged) => true,
            Ok(Registration::Written) => {
                self.book.report.streams_written += 1;
                driver.feed.look_again();
                true
            }
            Ok(Registration::Refused(why)) => {
                self.error(format_args!("stream {key} was refused"), &why);
                false
            }
            Err(error) => {
                self.error(format_args!("stream {key} could not be registered"), &error);
                false
            }
        }
    }

    /// Asks for a stream no more; its rows stay.
    pub(super) async fn set_gone(&mut self, stream: &Registered, why: &str) -> bool {
        let key = stream.stream.key();
        match self.driver.store.set_gone(stream).await {
            Ok(()) => {
                self.book.report.log(format!("stream {key} is asked for no more: {why}"));
                self.driver.feed.look_again();
                true
            }
            Err(error) => {
                self.error(format_args!("stream {key} could not be set aside"), &error);
                false
            }
        }
    }

    /// The pins of a stream, once the backend was told of them; `None`: the stream must not be fetched now.
    pub(super) async fn pins(&mut self, stream: &Registered) -> Option<Vec<ColumnAssignment>> {
        let (driver, key) = (self.driver, stream.stream.key());
        if !matches!(stream.stream.descriptor.carries, Carries::Readings(_)) {
            return Some(Vec::new());
        }
        let pins = match driver.store.pins(key).await {
            Ok(pins) => pins,
            Err(error) => {
                self.error(format_args!("stream {key}: its pins can't be read"), &error);
                return None;
            }
        };
        if pins.is_empty() {
            return Some(pins);
        }
        let told = self.ask("pins", || driver.backend.apply_replicate_assignments(key, &pins)).await;
        match told {
            Ok(()) => Some(pins),
            Err(error) => {
                self.error(format_args!("stream {key}: its columns could not be assigned"), &error);
                None
            }
        }
    }
}
