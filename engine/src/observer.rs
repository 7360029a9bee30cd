use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::gauge;
use millstream_actors::{Failure, IndexDesk, Meters, Signals};
use millstream_cdc::Lag;
use millstream_model::IndexName;
use tokio::time::{Instant, MissedTickBehavior};

use crate::parts::Parts;
use crate::status::StatusBook;

/// How often the snapshot is published and the depth of channels measured.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);
/// How often the source is asked for its lag.
const LAG_EVERY: Duration = Duration::from_secs(5);
/// Log that the server can still keep for us, in bytes, below which a held index must no longer pin it.
const SAFE_BYTES_LOW: i64 = 64 * 1024 * 1024;

/// Looks at a run from outside: publishes its status, measures what no actor owns. Changes nothing, except that it presses held
/// indexes when the server is about to drop its log.
pub(crate) struct Observer {
    parts: Arc<Parts>,
    book: Arc<StatusBook>,
    meters: Meters,
    desks: BTreeMap<IndexName, IndexDesk>,
    signals: Signals,
}

impl Observer {
    pub fn new(
        parts: Arc<Parts>,
        book: Arc<StatusBook>,
        meters: Meters,
        desks: BTreeMap<IndexName, IndexDesk>,
        signals: Signals,
    ) -> Self {
        Self { parts, book, meters, desks, signals }
    }

    pub async fn run(self) -> Result<(), Failure> {
        let ended = async {
            tokio::select! {
                biased;
                () = self.signals.abort.cancelled() => {}
                () = self.signals.drain.cancelled() => {}
            }
        };
        tokio::select! {
            biased;
            () = ended => Ok(()),
            () = self.publish() => Ok(()),
            () = self.ask_lag() => Ok(()),
        }
    }

    async fn publish(&self) {
        let mut ticks = tokio::time::interval(PUBLISH_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            self.book.publish(&self.parts);
            let status = self.book.snapshot(&self.parts);
            let label = || self.meters.engine().to_owned();
            let mut depths: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
            for channel in &status.channels {
                let entry = depths.entry(&channel.channel).or_default();
                *entry = (entry.0 + channel.depth, entry.1 + channel.capacity);
            }
            for (stage, (depth, capacity)) in depths {
                let stage = stage.to_owned();
                gauge!("millstream_channel_depth", "engine" => label(), "stage" => stage.clone()).set(depth as f64);
                gauge!("millstream_channel_capacity", "engine" => label(), "stage" => stage).set(capacity as f64);
            }
            self.meters.tickets_open.set(status.tickets_open as f64);
            self.meters.oldest_ticket_seconds.set(status.oldest_ticket_seconds.unwrap_or(0.0));
            if let Some(age) = status.last_ack_seconds {
                self.meters.last_ack_timestamp.set(unix_seconds() - age);
            }
            if let Some(seconds) = status.heartbeat_seconds {
                gauge!("millstream_heartbeat_seconds", "engine" => label()).set(seconds);
            }
        }
    }

    async fn ask_lag(&self) {
        let mut next = Instant::now();
        loop {
            tokio::time::sleep_until(next).await;
            next = Instant::now() + LAG_EVERY;
            match self.parts.capture.lag().await {
                Ok(Some(lag)) => self.tell_lag(lag),
                Ok(None) => {}
                Err(error) => tracing::debug!(%error, "can't ask for the lag"),
            }
        }
    }

    fn tell_lag(&self, lag: Lag) {
        measure(&self.meters, &lag);
        let safe = lag.slot.as_ref().and_then(|slot| slot.safe_bytes);
        if safe.is_some_and(|safe| safe < SAFE_BYTES_LOW) {
            self.desks.values().for_each(IndexDesk::pressure);
        }
        self.book.update(&self.parts, |run| run.lag = Some(lag));
    }
}

/// Shows how far the durable point trails, and what the server says of it.
pub(crate) fn measure(meters: &Meters, lag: &Lag) {
    let label = || meters.engine().to_owned();
    let bytes = |kind: &'static str, bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            gauge!("millstream_lag_bytes", "engine" => label(), "kind" => kind).set(bytes as f64);
        }
    };
    bytes("received", lag.received_bytes);
    bytes("confirmed", lag.confirmed_bytes);
    if let Some(age) = lag.age {
        gauge!("millstream_lag_seconds", "engine" => label()).set(age.as_secs_f64());
    }
    if let Some(confirmed) = lag.confirmed {
        gauge!("millstream_slot_confirmed_position", "engine" => label()).set(confirmed.0 as f64);
    }
    let Some(slot) = &lag.slot else { return };
    for status in ["reserved", "extended", "unreserved", "lost"] {
        let value = if slot.status == status { 1.0 } else { 0.0 };
        gauge!("millstream_slot_wal_status", "engine" => label(), "kind" => status).set(value);
    }
    // Without a limit the server keeps all of it; what is lost has none left.
    let without = if slot.status == "lost" { 0.0 } else { f64::INFINITY };
    let safe = slot.safe_bytes.map_or(without, |safe| safe as f64);
    gauge!("millstream_slot_safe_bytes", "engine" => label()).set(safe);
    if let Some(restart) = slot.restart {
        gauge!("millstream_slot_restart_position", "engine" => label()).set(restart.0 as f64);
    }
}

fn unix_seconds() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}
