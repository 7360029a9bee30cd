use std::time::Duration;

use async_trait::async_trait;
use futures::stream::BoxStream;
use millstream_core::{Result, SnapshotTable, SourceSpec};
use millstream_model::{Fence, Position, RowKey};

use crate::{CaptureEvent, CoverageNotice, SourceIdentity};

/// Tells what changed in a source.
///
/// The engine calls [`open`](Self::open), then [`identity`](Self::identity), decides by policy, then [`prepare`](Self::prepare), then
/// [`live`](Self::live), once a run; snapshots are read while the live stream flows. A capture is used by one engine.
#[async_trait]
pub trait ChangeCapture: Send + Sync {
    /// Gets to know what the source has, before any index is held against it. For sources that only learn of their tables by
    /// asking. Does nothing by default; idempotent.
    ///
    /// # Errors
    /// When the source can't be asked and is not known from earlier.
    async fn open(&self, spec: &SourceSpec) -> Result<()> {
        let _ = spec;
        Ok(())
    }

    /// Which source this is, and where its durable point stands. Changes nothing.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn identity(&self) -> Result<SourceIdentity>;

    /// Waits until no other process has the durable point, for as long as is set: a standby waits here, before it looks at what
    /// is kept. The turn is kept until [`close`](Self::close) or the end of the live stream. Should it be lost on the way,
    /// [`live`](Self::live) says so, and the turn is waited for once more.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// `Held`, naming who has it, when the wait is over.
    async fn wait_for_turn(&self) -> Result<()> {
        Ok(())
    }

    /// Brings coverage and the durable point into being, or checks them; says what a snapshot must wait for.
    ///
    /// Idempotent; dropping the future half way leaves nothing that a second call does not mend.
    ///
    /// # Errors
    /// `Setup` with the exact statements when coverage is missing and may not be made; `Gap` when the durable point is
    /// unusable and `mode` says [`PrepareMode::Resume`]; `Held` when another process keeps it beyond the configured wait.
    ///
    /// `memo` is what an earlier run was given to remember: by it, tables that changed without an event while nobody watched are
    /// found. With [`PrepareMode::Resume`], a table whose changes can't be told is no error but one of the notices.
    async fn prepare(&self, spec: &SourceSpec, mode: PrepareMode, memo: Option<&str>) -> Result<Prepared>;

    /// Whether the durable point can be used as [`prepare`](Self::prepare) would use it with the same arguments, coverage apart.
    /// Changes nothing.
    ///
    /// # Errors
    /// As `prepare` would end.
    async fn inspect(&self, _mode: PrepareMode, _memo: Option<&str>) -> Result<()> {
        Ok(())
    }

    /// What [`prepare`](Self::prepare) or [`live`](Self::live) waits for at this moment, in a sentence for an operator.
    fn waits_for(&self) -> Option<String> {
        None
    }

    /// A start line as of now: what a snapshot must wait for so that it sees all that was told so far.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn start_line(&self) -> Result<StartLine>;

    /// True once a snapshot may start: every transaction that was open at the start line has ended.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn ready(&self, line: &StartLine) -> Result<Readiness>;

    /// Resumes from the mechanism's own durable point and streams live changes, in commit order.
    ///
    /// The stream reconnects by itself after a lost connection only if nothing it had told is told differently; otherwise it
    /// ends with a `Connection` error and the engine starts a new run from the last ack. Dropping the stream releases the
    /// durable point for others.
    ///
    /// # Errors
    /// `Held` at once when another process has the durable point; anything that ends the stream is its last item.
    async fn live(&self) -> Result<BoxStream<'static, Result<CaptureEvent>>>;

    /// The keys of one table's current rows within `range`, in key order, in pages: what a backfill reads.
    ///
    /// Keys are spelled and ordered as the index's document ids are. Rows that come or go while it is read may be in it or not:
    /// the live stream tells of them.
    ///
    /// # Errors
    /// When the source can't be asked, now or at a later page.
    async fn snapshot(&self, table: &SnapshotTable, range: KeyRange)
    -> Result<BoxStream<'static, Result<Vec<RowKey>>>>;

    /// How far the resume point trails the source; `None` where the mechanism can't tell.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn lag(&self) -> Result<Option<Lag>>;

    /// Rows of a table, as the source estimates them: for progress bars only. `None` when it does not know.
    ///
    /// # Errors
    /// When the source can't be asked.
    async fn estimate(&self, _table: &SnapshotTable) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Gives the turn back. Waits, after the live stream was dropped, until what was confirmed has reached the source and the
    /// durable point is free for others. Without it a clean stop may be followed by a replay.
    async fn close(&self) {}
}

/// What [`ChangeCapture::prepare`] found.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// What a snapshot must wait for.
    pub line: StartLine,
    /// What happened to tables while nobody watched: broken or rewritten.
    pub notices: Vec<CoverageNotice>,
    /// To be saved together with what the notices led to, and given back to the next run. `None`: nothing to remember.
    pub memo: Option<String>,
}

impl Prepared {
    /// Nothing happened, nothing is to be remembered.
    pub fn at(line: StartLine) -> Self {
        Self { line, notices: Vec::new(), memo: None }
    }
}

/// Whether the durable point must be the one that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrepareMode {
    /// Go on from it; making one where none is counts as a [`Gap`](millstream_core::SourceErrorKind::Gap).
    Resume,
    /// Make one where there is none; go on from one that is there. Nothing was filled yet.
    Create,
    /// Replace it: everything is filled again.
    StartOver,
}

/// What a snapshot must wait for, since changes of transactions that were open when coverage changed may not be told.
///
/// Opaque to the engine; the later of two includes the earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StartLine(pub Fence);

impl StartLine {
    /// Nothing to wait for.
    pub const NONE: Self = Self(Fence::NONE);
}

/// Whether a snapshot may start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It may.
    Ready,
    /// These are still running: each a sentence for an operator (`transaction 812 of alice, open for 40 s`).
    Waiting(Vec<String>),
}

/// The keys to read: all, or those after one that a broken backfill had reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeyRange {
    /// Only keys after this one, in the source's order of keys.
    pub after: Option<RowKey>,
}

/// How far the resume point trails the source, as the mechanism knows it.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Lag {
    /// The source's own head.
    pub head: Option<Position>,
    /// The durable point: where a restart would begin.
    pub confirmed: Option<Position>,
    /// Bytes of log between the head and what was received here.
    pub received_bytes: Option<u64>,
    /// Bytes of log between the head and the durable point.
    pub confirmed_bytes: Option<u64>,
    /// For sources without a log: seconds since the newest change that is durable.
    pub age: Option<Duration>,
    /// What the server says of its own keeping of the log for us.
    pub slot: Option<SlotState>,
}

/// What the server says of its own keeping of the log for us.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotState {
    /// `reserved`, `extended`, `unreserved` or `lost`.
    pub status: String,
    /// Bytes that may still be written before the log is lost; `None` without such a limit.
    pub safe_bytes: Option<i64>,
    /// From where on the server keeps its log for us.
    pub restart: Option<Position>,
}
