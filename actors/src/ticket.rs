use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use metrics::Histogram;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The number of a ticket, counting up in the order in which its printer made them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TicketNumber(pub u64);

/// Travels forward in place of an ack: shared by all that one batch leads to, it settles when the last of it is durable.
///
/// Every holder either passes it on, [`split`](Self::split)s it, or [`settle`](Self::settle)s it. One that is dropped unsettled
/// raises the [`Alarm`] and ends the run: a forgotten document must never look like success.
#[must_use = "a ticket that is dropped ends the run"]
pub struct Ticket(Option<Arc<Shared>>);

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.0.as_ref().map(|shared| shared.number)).finish()
    }
}

struct Shared {
    number: TicketNumber,
    parts: AtomicUsize,
    settled: flume::Sender<TicketNumber>,
    alarm: Alarm,
    born: Instant,
    seconds: Histogram,
}

impl Ticket {
    /// One more part of the same ticket: it settles only when this one has, too.
    pub fn split(&self) -> Self {
        if let Some(shared) = &self.0 {
            shared.parts.fetch_add(1, Ordering::Relaxed);
        }
        Self(self.0.clone())
    }

    /// This part is durable (or needs nothing). The last part sends the number back; that never waits.
    pub fn settle(mut self) {
        let Some(shared) = self.0.take() else { return };
        // AcqRel: whoever settles last has seen all that the others did before they settled.
        if shared.parts.fetch_sub(1, Ordering::AcqRel) != 1 {
            return;
        }
        shared.seconds.record(shared.born.elapsed());
        if shared.settled.try_send(shared.number).is_err() {
            // The receiver is gone only when the run has ended; a full channel would break the bound on open tickets.
            shared.alarm.raise();
        }
    }

    /// When the batch was admitted.
    pub fn born(&self) -> Option<Instant> {
        self.0.as_ref().map(|shared| shared.born)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.alarm.raise();
        }
    }
}

/// Makes the tickets of one ledger.
pub struct TicketPrinter {
    next: u64,
    settled: flume::Sender<TicketNumber>,
    alarm: Alarm,
    seconds: Histogram,
}

impl TicketPrinter {
    /// `settled` must have a place for every ticket that can be open at once; `seconds` learns how long each was.
    pub fn new(settled: flume::Sender<TicketNumber>, alarm: Alarm, seconds: Histogram) -> Self {
        Self { next: 0, settled, alarm, seconds }
    }

    /// The next ticket, with one part.
    pub fn print(&mut self) -> (TicketNumber, Ticket) {
        let number = TicketNumber(self.next);
        self.next += 1;
        let ticket = Ticket(Some(Arc::new(Shared {
            number,
            parts: AtomicUsize::new(1),
            settled: self.settled.clone(),
            alarm: self.alarm.clone(),
            born: Instant::now(),
            seconds: self.seconds.clone(),
        })));
        (number, ticket)
    }
}

/// Raised when a ticket is lost: ends the run.
#[derive(Clone, Debug, Default)]
pub struct Alarm(CancellationToken);

impl Alarm {
    /// Ends the run.
    pub fn raise(&self) {
        self.0.cancel();
    }

    /// True once raised.
    pub fn is_raised(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until it is raised. Cancel safe.
    pub async fn raised(&self) {
        self.0.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(places: usize) -> (TicketPrinter, flume::Receiver<TicketNumber>, Alarm) {
        let (tx, rx) = flume::bounded(places);
        let alarm = Alarm::default();
        (TicketPrinter::new(tx, alarm.clone(), Histogram::noop()), rx, alarm)
    }

    #[test]
    fn p1_a_ticket_settles_when_its_last_part_has() {
        let (mut printer, rx, alarm) = printer(1);
        let (number, ticket) = printer.print();
        let part = ticket.split();
        ticket.settle();
        assert!(rx.try_recv().is_err());
        part.settle();
        assert_eq!(rx.try_recv(), Ok(number));
        assert!(!alarm.is_raised());
    }

    #[test]
    fn a_ticket_dropped_unsettled_raises_the_alarm() {
        let (mut printer, rx, alarm) = printer(1);
        let (_, ticket) = printer.print();
        drop(ticket.split());
        assert!(alarm.is_raised());
        ticket.settle();
        assert!(rx.try_recv().is_err());
    }
}
