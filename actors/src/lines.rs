use std::collections::{BTreeMap, HashMap};

use millstream_cdc::Line;

use crate::ledger::Payload;
use crate::{Ledger, TicketNumber};

/// A [`Ledger`] for each line of a source: what is open in one of them keeps nothing of another.
///
/// A line without entries takes no memory.
#[derive(Debug)]
pub struct Lines<T> {
    ledgers: BTreeMap<Line, Ledger<T>>,
    of: HashMap<TicketNumber, Line>,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { ledgers: BTreeMap::new(), of: HashMap::new() }
    }
}

impl<T: Payload> Lines<T> {
    /// Adds an open ticket to a line. Numbers must ascend.
    pub fn admit(&mut self, line: Line, number: TicketNumber, payload: T) {
        self.of.insert(number, line);
        self.ledgers.entry(line).or_default().admit(number, payload);
    }

    /// Adds what needs no ticket: it is settled as soon as all before it in its line are.
    pub fn admit_settled(&mut self, line: Line, payload: T) {
        self.ledgers.entry(line).or_default().admit_settled(payload);
    }

    /// Marks a ticket as settled. An unknown number changes nothing.
    pub fn settle(&mut self, number: TicketNumber) {
        if let Some(ledger) = self.of.remove(&number).and_then(|line| self.ledgers.get_mut(&line)) {
            ledger.settle(number);
        }
    }

    /// Takes, of any line, what stands before its first open ticket.
    pub fn retire(&mut self) -> Option<(Line, T)> {
        let (line, payload) = self.ledgers.iter_mut().find_map(|(line, ledger)| Some((*line, ledger.retire()?)))?;
        if self.ledgers.get(&line).is_some_and(Ledger::is_empty) {
            self.ledgers.remove(&line);
        }
        Some((line, payload))
    }

    /// The oldest entry's payload of each line.
    pub fn firsts(&self) -> impl Iterator<Item = &T> {
        self.ledgers.values().filter_map(Ledger::first)
    }

    /// Tickets that have not settled, of all lines.
    pub fn open(&self) -> usize {
        self.of.len()
    }

    /// True when nothing is open and nothing waits to be retired.
    pub fn is_empty(&self) -> bool {
        self.ledgers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_blocked_keeps_nothing_of_another() {
        let mut lines = Lines::<u64>::default();
        let (one, other) = (Line(1), Line(2));
        lines.admit(one, TicketNumber(0), 10);
        lines.admit(other, TicketNumber(1), 20);
        lines.admit(one, TicketNumber(2), 30);
        lines.admit_settled(other, 40);
        lines.settle(TicketNumber(1));
        lines.settle(TicketNumber(2));
        assert_eq!(lines.retire(), Some((other, 40)), "the later of two stands for both");
        assert_eq!(lines.retire(), None, "line 1 waits for its first");
        assert_eq!((lines.open(), lines.firsts().copied().collect::<Vec<_>>()), (1, vec![10]));
        lines.settle(TicketNumber(0));
        assert_eq!(lines.retire(), Some((one, 30)));
        assert!(lines.is_empty());
    }
}
