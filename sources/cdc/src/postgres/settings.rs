use std::time::Duration;

use millstream_postgres::{Manage, PostgresSettings};

/// How changes are captured from Postgres by logical replication.
///
/// `Default` gives what suits most; refine it field by field or with the `with_` functions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PostgresCaptureSettings {
    /// The replication slot: the durable point. Small letters, digits and `_`. Default `millstream`.
    pub slot: String,
    /// The publication. Default `millstream`.
    pub publication: String,
    /// What we may change in the database. Default publication and slot.
    pub manage: Manage,
    /// How long to wait for a slot that another process holds; `None`: for ever, as a standby. Default 60 s, so that a restart
    /// after a crash gets in. Longer: a second engine waits longer before it says that it is one too many.
    pub slot_wait: Option<Duration>,
    /// How often a message of our own goes through the log, to measure how long that takes; `None`: never. Default 10 s. From
    /// Postgres 14 on. More often: fresher lag, more log.
    pub heartbeat: Option<Duration>,
    /// How long a password that is refused after it once worked is asked for again. Default 10 min. Longer: a slow rotation of
    /// credentials passes unharmed, a real loss is told later.
    pub auth_grace: Duration,
    /// How often the server hears of us. Default 1 s; must stay well inside `wal_sender_timeout`. Longer: fewer messages, the
    /// slot follows later.
    pub status_interval: Duration,
    /// How often coverage is inspected again. Default 10 s. Longer: fewer queries, a change is noticed later.
    pub inspect_interval: Duration,
    /// A standby to read snapshots from; `None`: the primary.
    pub read: Option<PostgresSettings>,
    /// Rows in one batch at most. Default 1,000. More: fewer wake-ups under load, more memory.
    pub batch_rows: usize,
    /// Bytes in one batch at most. Default 256 KiB.
    pub batch_bytes: usize,
    /// Batches that may wait for the engine. Default 2.
    pub batches: usize,
    /// Keys in one page of a snapshot. Default 10,000.
    pub snapshot_page: usize,
}

impl Default for PostgresCaptureSettings {
    fn default() -> Self {
        Self {
            slot: "millstream".into(),
            publication: "millstream".into(),
            manage: Manage::default(),
            slot_wait: Some(Duration::from_secs(60)),
            heartbeat: Some(Duration::from_secs(10)),
            auth_grace: Duration::from_secs(600),
            status_interval: Duration::from_secs(1),
            inspect_interval: Duration::from_secs(10),
            read: None,
            batch_rows: 1_000,
            batch_bytes: 256 * 1024,
            batches: 2,
            snapshot_page: 10_000,
        }
    }
}

impl PostgresCaptureSettings {
    /// With this slot.
    #[must_use]
    pub fn with_slot(mut self, slot: impl Into<String>) -> Self {
        self.slot = slot.into();
        self
    }

    /// With this publication.
    #[must_use]
    pub fn with_publication(mut self, publication: impl Into<String>) -> Self {
        self.publication = publication.into();
        self
    }

    /// With leave to change this much.
    #[must_use]
    pub fn with_manage(mut self, manage: Manage) -> Self {
        self.manage = manage;
        self
    }

    /// Waiting so long for a slot that is held; `None`: for ever.
    #[must_use]
    pub fn with_slot_wait(mut self, wait: Option<Duration>) -> Self {
        self.slot_wait = wait;
        self
    }

    /// With a heartbeat so often; `None`: without.
    #[must_use]
    pub fn with_heartbeat(mut self, heartbeat: Option<Duration>) -> Self {
        self.heartbeat = heartbeat;
        self
    }

    /// Asking so long again for a password that is refused after it once worked.
    #[must_use]
    pub fn with_auth_grace(mut self, grace: Duration) -> Self {
        self.auth_grace = grace;
        self
    }

    /// Inspecting coverage so often.
    #[must_use]
    pub fn with_inspect_interval(mut self, interval: Duration) -> Self {
        self.inspect_interval = interval;
        self
    }

    /// Reading snapshots from this standby.
    #[must_use]
    pub fn with_read(mut self, read: Option<PostgresSettings>) -> Self {
        self.read = read;
        self
    }
}
