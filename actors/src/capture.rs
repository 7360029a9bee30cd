use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flume::r#async::SendFut;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use millstream_cdc::{Ack, CaptureEvent, ChangeBatch, CoverageNotice, Line};
use millstream_core::{Result, SourceError};
use millstream_model::{ChangedRow, Operation, QualifiedTable};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::ledger::Payload;
use crate::sink::wait_until;
use crate::{
    Board, Failure, IndexDesk, IndexEvent, Lines, Meters, ProgressDesk, Settings, Signals, Ticket, TicketNumber,
    TicketPrinter,
};

/// How old the oldest ticket must be before few tickets count as an index holding others up.
const PRESSURE_AFTER: Duration = Duration::from_secs(2);

/// Changed rows under one ticket.
#[derive(Debug)]
pub struct TicketedBatch {
    /// The rows, in commit order.
    pub rows: Vec<ChangedRow>,
    /// Settles when every document that they touch is durable.
    pub ticket: Ticket,
}

/// Everything that the capture actor is made of.
pub struct CaptureParts {
    /// The live stream.
    pub stream: BoxStream<'static, Result<CaptureEvent>>,
    /// The way to the resolvers.
    pub changes: flume::Sender<TicketedBatch>,
    /// Makes tickets; as many may be open as `settled` has places.
    pub printer: TicketPrinter,
    /// The Ack channel: numbers of tickets that have settled.
    pub settled: flume::Receiver<TicketNumber>,
    /// Where positions are saved before they are confirmed.
    pub progress: ProgressDesk,
    /// The keepers of the indexes that read each table.
    pub readers: BTreeMap<QualifiedTable, Vec<IndexDesk>>,
    /// The keepers of the indexes that are rooted in each table.
    pub roots: BTreeMap<QualifiedTable, Vec<IndexDesk>>,
    /// True while the engine is paused.
    pub paused: watch::Receiver<bool>,
    /// Told how long heartbeats take.
    pub heartbeat: Box<dyn Fn(Duration) + Send + Sync>,
}

/// Owns the live stream, the tickets and the ledger: it admits change batches while tickets are left, and confirms an ack
/// once its batch *and all before it in its line* are durable, never earlier, and only after that position is saved.
///
/// A truncated root is a barrier: nothing is admitted until all that was has settled and the sinks are empty of its indexes.
/// It knows nothing of what becomes of a change.
pub struct CaptureActor {
    parts: CaptureParts,
    board: Arc<Board>,
    meters: Meters,
    settings: Settings,
    signals: Signals,
    ledger: Lines<Admitted>,
    /// Durable, not yet confirmed: the last of each line.
    ready: BTreeMap<Line, Ack>,
    saving: Option<BoxFuture<'static, Option<Vec<Ack>>>>,
    sending: Option<SendFut<'static, TicketedBatch>>,
    sending_since: Instant,
    /// Since when no ticket is left.
    out_since: Option<Instant>,
    barrier: Option<Barrier>,
    confirmed_at: Instant,
    press_at: Option<Instant>,
    pressed_at: Instant,
}

/// What stands in the way of admitting more.
enum Barrier {
    /// All that was admitted must settle first.
    Drain(ChangeBatch),
    /// The keepers are asked to do something about this batch (or notice) first.
    Keepers(BoxFuture<'static, ()>, Option<ChangeBatch>),
}

struct Admitted {
    ack: Ack,
    born: Instant,
}

impl Payload for Admitted {
    fn merge(self, later: Self) -> Self {
        // In the middle of a transaction there is no position: the one before it stands.
        if later.ack.position().is_some() { later } else { self }
    }
}

impl CaptureActor {
    /// An actor over one live stream.
    pub fn new(parts: CaptureParts, board: Arc<Board>, meters: Meters, settings: Settings, signals: Signals) -> Self {
        Self {
            parts,
            board,
            meters,
            settings,
            signals,
            ledger: Lines::default(),
            ready: BTreeMap::new(),
            saving: None,
            sending: None,
            sending_since: Instant::now(),
            out_since: None,
            barrier: None,
            confirmed_at: Instant::now(),
            press_at: None,
            pressed_at: Instant::now(),
        }
    }

    /// Runs until the engine drains and all that was admitted is confirmed.
    ///
    /// # Errors
    /// When the stream ends or fails.
    pub async fn run(mut self) -> Result<(), Failure> {
        let (abort, drain) = (self.signals.abort.clone(), self.signals.drain.clone());
        loop {
            self.retire();
            self.note_tickets();
            self.lower_barrier();
            let draining = drain.is_cancelled();
            if draining && self.is_idle() {
                return Ok(());
            }
            let admits = !draining && self.admits();
            let confirm_at = self.confirm_at(draining);
            tokio::select! {
                biased;
                () = abort.cancelled() => return Ok(()),
                Ok(number) = self.parts.settled.recv_async() => self.settle(number),
                acks = next(&mut self.saving) => self.confirm(acks),
                () = wait_until(confirm_at) => self.save(),
                // Nothing else may wake it while an old ticket is open: `retire` presses.
                () = wait_until(self.press_at) => {}
                sent = next(&mut self.sending) => {
                    self.meters.capture_blocked.record(self.sending_since.elapsed());
                    if sent.is_err() {
                        return Ok(());
                    }
                }
                keepers = keepers(&mut self.barrier) => self.admit_after(keepers),
                // Before the stream: what was written after a pause is not taken.
                Ok(()) = self.parts.paused.changed(), if !draining => {}
                event = self.parts.stream.next(), if admits => self.take(event)?,
                () = drain.cancelled(), if !draining => {}
            }
        }
    }

    /// Nothing is under way and nothing is left to confirm.
    fn is_idle(&self) -> bool {
        self.ledger.is_empty() && self.ready.is_empty() && self.saving.is_none() && self.sending.is_none()
    }

    fn admits(&self) -> bool {
        let room = self.ledger.open() < self.settings.tickets;
        room && self.sending.is_none() && self.barrier.is_none() && !*self.parts.paused.borrow()
    }

    /// Measures for how long tickets were all under way.
    fn note_tickets(&mut self) {
        let is_out = self.ledger.open() >= self.settings.tickets;
        match self.out_since {
            None if is_out => self.out_since = Some(Instant::now()),
            Some(since) if !is_out => {
                self.meters.tickets_blocked.record(since.elapsed());
                self.out_since = None;
            }
            _ => {}
        }
    }

    fn settle(&mut self, number: TicketNumber) {
        self.ledger.settle(number);
        let waiting: Vec<TicketNumber> = self.parts.settled.drain().collect();
        waiting.into_iter().for_each(|number| self.ledger.settle(number));
    }

    /// Takes from the ledger what is settled with all before it.
    fn retire(&mut self) {
        while let Some((line, admitted)) = self.ledger.retire() {
            if admitted.ack.position().is_some() {
                self.ready.insert(line, admitted.ack);
            }
        }
        let oldest = self.ledger.firsts().map(|admitted| admitted.born).min();
        let oldest = oldest.filter(|_| self.ledger.open() > 0);
        self.board.set_tickets(self.ledger.open(), oldest);
        // Tickets run out while an old one stays open: if an index is held, it must not hold the others up.
        let blocked =
            matches!(self.barrier, Some(Barrier::Drain(_))) || self.ledger.open() * 4 >= self.settings.tickets * 3;
        let now = Instant::now();
        self.press_at =
            oldest.filter(|_| blocked).map(|born| (born + PRESSURE_AFTER).max(self.pressed_at + PRESSURE_AFTER));
        if self.press_at.is_some_and(|at| at <= now) {
            self.pressed_at = now;
            self.press_at = Some(now + PRESSURE_AFTER);
            self.parts.readers.values().flatten().for_each(IndexDesk::pressure);
        }
    }

    fn confirm_at(&self, draining: bool) -> Option<Instant> {
        let waits = !self.ready.is_empty() && self.saving.is_none();
        waits.then(|| if draining { Instant::now() } else { self.confirmed_at + self.settings.confirm_every })
    }

    /// Saves a position before it is confirmed: a slot that is ahead of what was saved was moved by someone else.
    fn save(&mut self) {
        let acks: Vec<Ack> = std::mem::take(&mut self.ready).into_values().collect();
        let Some(highest) = acks.iter().filter_map(Ack::position).max() else { return };
        let progress = self.parts.progress.clone();
        self.saving = Some(Box::pin(async move { progress.save_position(highest).await.then_some(acks) }));
    }

    fn confirm(&mut self, acks: Option<Vec<Ack>>) {
        self.confirmed_at = Instant::now();
        for ack in acks.into_iter().flatten() {
            if let Some(position) = ack.position() {
                self.board.confirmed(position);
            }
            self.meters.acks.increment(1);
            ack.confirm();
        }
    }

    fn take(&mut self, event: Option<Result<CaptureEvent>>) -> Result<(), Failure> {
        match event {
            None => Err(SourceError::connection("the live stream ended").into()),
            Some(Err(error)) => Err(error.into()),
            Some(Ok(CaptureEvent::Changes(batch))) => {
                self.changes(batch);
                Ok(())
            }
            Some(Ok(CaptureEvent::Coverage(notice))) => {
                self.coverage(notice);
                Ok(())
            }
            Some(Ok(CaptureEvent::Memo(memo))) => {
                let progress = self.parts.progress.clone();
                let saved = Box::pin(async move {
                    progress.save_memo(memo).await;
                });
                self.barrier = Some(Barrier::Keepers(saved, None));
                Ok(())
            }
            Some(Ok(CaptureEvent::Heartbeat { age })) => {
                (self.parts.heartbeat)(age);
                Ok(())
            }
            Some(Ok(_)) => Ok(()),
        }
    }

    fn changes(&mut self, batch: ChangeBatch) {
        self.count(&batch.rows);
        let is_root =
            |row: &ChangedRow| row.operation == Operation::Truncate && self.parts.roots.contains_key(&row.table);
        if batch.rows.iter().any(is_root) {
            self.barrier = Some(Barrier::Drain(batch));
        } else {
            self.admit(batch);
        }
    }

    fn admit(&mut self, batch: ChangeBatch) {
        let born = Instant::now();
        let ChangeBatch { rows, ack } = batch;
        if rows.is_empty() {
            return self.ledger.admit_settled(ack.line(), Admitted { ack, born });
        }
        self.meters.change_rows.record(rows.len() as f64);
        let (number, ticket) = self.parts.printer.print();
        self.ledger.admit(ack.line(), number, Admitted { ack, born });
        // Kept across turns of the loop: a send that is dropped half way may still arrive.
        self.sending_since = born;
        self.sending = Some(self.parts.changes.clone().into_send_async(TicketedBatch { rows, ticket }));
    }

    /// Once all has settled, asks the keepers of a truncated root's indexes to empty them.
    fn lower_barrier(&mut self) {
        let settled = self.ledger.open() == 0 && self.sending.is_none();
        match self.barrier.take() {
            Some(Barrier::Drain(batch)) if settled => {
                let mut asked = Vec::new();
                for row in batch.rows.iter().filter(|row| row.operation == Operation::Truncate) {
                    for desk in self.parts.roots.get(&row.table).into_iter().flatten() {
                        let (desk, fence) = (desk.clone(), row.fence);
                        asked.push(ask(desk, move |done| IndexEvent::Clear { fence, done }));
                    }
                }
                let all = Box::pin(async { drop(futures::future::join_all(asked).await) });
                self.barrier = Some(Barrier::Keepers(all, Some(batch)));
            }
            other => self.barrier = other,
        }
    }

    fn coverage(&mut self, notice: CoverageNotice) {
        let desks = self.parts.readers.get(&notice.table).into_iter().flatten().cloned();
        let asked: Vec<_> = desks
            .map(|desk| {
                let (table, change) = (notice.table.clone(), notice.change.clone());
                ask(desk, move |done| IndexEvent::Coverage { table, change, done })
            })
            .collect();
        let all = Box::pin(async { drop(futures::future::join_all(asked).await) });
        self.barrier = Some(Barrier::Keepers(all, None));
    }

    /// The keepers are done: the batch goes on, for the indexes that only read the table.
    fn admit_after(&mut self, batch: Option<ChangeBatch>) {
        if let Some(batch) = batch {
            self.admit(batch);
        }
    }

    fn count(&self, rows: &[ChangedRow]) {
        let (mut upserts, mut deletes, mut truncates) = (0, 0, 0);
        for row in rows {
            match row.operation {
                Operation::Upsert => upserts += 1,
                Operation::Delete => deletes += 1,
                Operation::Truncate => truncates += 1,
            }
        }
        self.meters.captured_upserts.increment(upserts);
        self.meters.captured_deletes.increment(deletes);
        self.meters.captured_truncates.increment(truncates);
    }
}

/// Tells a keeper and waits until it is done.
async fn ask(desk: IndexDesk, event: impl FnOnce(oneshot::Sender<()>) -> IndexEvent) {
    let (done, rx) = oneshot::channel();
    if desk.tell(event(done)).await {
        let _ = rx.await;
    }
}

/// Waits for a future that is kept across turns of a loop, and forgets it once it is ready; for ever when there is none.
async fn next<F: Future + Unpin>(slot: &mut Option<F>) -> F::Output {
    match slot {
        Some(future) => {
            let output = future.await;
            *slot = None;
            output
        }
        None => std::future::pending().await,
    }
}

async fn keepers(barrier: &mut Option<Barrier>) -> Option<ChangeBatch> {
    match barrier {
        Some(Barrier::Keepers(asked, batch)) => {
            asked.await;
            let batch = batch.take();
            *barrier = None;
            batch
        }
        _ => std::future::pending().await,
    }
}
