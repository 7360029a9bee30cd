use std::collections::VecDeque;

use crate::TicketNumber;

/// Open tickets in the order in which they were admitted, each with what may be done once it *and all before it* have settled.
///
/// Neighbours that have settled are merged into the later one, so that it holds at most two entries for each open ticket,
/// however long one of them stays open.
#[derive(Debug)]
pub struct Ledger<T> {
    entries: VecDeque<Entry<T>>,
    open: usize,
}

#[derive(Debug)]
struct Entry<T> {
    number: Option<TicketNumber>,
    payload: T,
}

/// What a ledger keeps; the later of two stands for both.
pub trait Payload {
    /// `self` followed by `later`.
    fn merge(self, later: Self) -> Self;
}

impl<T: Payload> Default for Ledger<T> {
    fn default() -> Self {
        Self { entries: VecDeque::new(), open: 0 }
    }
}

impl<T: Payload> Ledger<T> {
    /// Adds an open ticket. Numbers must ascend.
    pub fn admit(&mut self, number: TicketNumber, payload: T) {
        debug_assert!(self.entries.iter().rev().find_map(|entry| entry.number).is_none_or(|last| last < number));
        self.entries.push_back(Entry { number: Some(number), payload });
        self.open += 1;
    }

    /// Adds what needs no ticket: it is settled as soon as all before it are.
    pub fn admit_settled(&mut self, payload: T) {
        self.entries.push_back(Entry { number: None, payload });
        self.merge_settled(self.entries.len() - 1);
    }

    /// Marks a ticket as settled. An unknown number changes nothing.
    pub fn settle(&mut self, number: TicketNumber) {
        let Some(at) = self.find(number) else { return };
        self.entries[at].number = None;
        self.open -= 1;
        self.merge_settled(at);
    }

    /// Takes what stands before the first open ticket.
    pub fn retire(&mut self) -> Option<T> {
        match self.entries.front() {
            Some(Entry { number: None, .. }) => self.entries.pop_front().map(|entry| entry.payload),
            _ => None,
        }
    }

    /// The oldest entry's payload.
    pub fn first(&self) -> Option<&T> {
        self.entries.front().map(|entry| &entry.payload)
    }

    /// Tickets that have not settled.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Entries held: at most twice the open tickets, plus one.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nothing is open and nothing waits to be retired.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Numbers ascend, and between two open entries stands at most one settled: so a search looks at each side of a gap.
    fn find(&self, number: TicketNumber) -> Option<usize> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let (at, found) = match self.entries[middle].number {
                Some(found) => (middle, Some(found)),
                None => (
                    middle + 1,
                    self.entries.get(middle + 1).filter(|_| middle + 1 < high).and_then(|entry| entry.number),
                ),
            };
            match found {
                Some(found) if found == number => return Some(at),
                Some(found) if found < number => low = at + 1,
                _ => high = middle,
            }
        }
        None
    }

    fn merge_settled(&mut self, at: usize) {
        let at = if at > 0 && self.entries[at - 1].number.is_none() { self.merge(at - 1) } else { at };
        if self.entries.get(at + 1).is_some_and(|entry| entry.number.is_none()) {
            self.merge(at);
        }
    }

    /// Merges the entry with the one after it.
    fn merge(&mut self, at: usize) -> usize {
        if let (Some(earlier), true) = (self.entries.remove(at), at < self.entries.len())
            && let Some(later) = self.entries.remove(at)
        {
            let payload = earlier.payload.merge(later.payload);
            self.entries.insert(at, Entry { number: None, payload });
        }
        at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    impl Payload for u64 {
        fn merge(self, later: Self) -> Self {
            later
        }
    }

    #[test]
    fn p2_nothing_retires_before_all_before_it_have_settled() {
        let mut ledger = Ledger::<u64>::default();
        (0..3).for_each(|number| ledger.admit(TicketNumber(number), number));
        ledger.settle(TicketNumber(2));
        ledger.settle(TicketNumber(1));
        assert_eq!(ledger.retire(), None);
        ledger.settle(TicketNumber(0));
        assert_eq!(ledger.retire(), Some(2));
        assert!(ledger.is_empty());
    }

    #[test]
    fn p8_what_needs_no_ticket_waits_for_what_is_open() {
        let mut ledger = Ledger::<u64>::default();
        ledger.admit(TicketNumber(0), 0);
        (1..1000).for_each(|position| ledger.admit_settled(position));
        assert_eq!((ledger.retire(), ledger.len()), (None, 2));
        ledger.settle(TicketNumber(0));
        assert_eq!(ledger.retire(), Some(999));
    }

    proptest! {
        /// Against a plain list: what retires is the longest settled prefix, and memory is bounded by what is open.
        #[test]
        fn p2_it_retires_exactly_the_settled_prefix(steps in prop::collection::vec((0u8..4, 0usize..64), 1..300)) {
            let mut ledger = Ledger::<u64>::default();
            let mut plain: Vec<(u64, bool)> = Vec::new();
            let (mut numbers, mut retired, mut expected) = (0, None, None);
            let mut tickets: Vec<(TicketNumber, usize)> = Vec::new();
            for (kind, pick) in steps {
                let position = plain.len() as u64;
                match kind {
                    0 => {
                        ledger.admit(TicketNumber(numbers), position);
                        tickets.push((TicketNumber(numbers), plain.len()));
                        plain.push((position, false));
                        numbers += 1;
                    }
                    1 => {
                        ledger.admit_settled(position);
                        plain.push((position, true));
                    }
                    _ if tickets.is_empty() => {}
                    _ => {
                        let (number, at) = tickets.swap_remove(pick % tickets.len());
                        ledger.settle(number);
                        plain[at].1 = true;
                    }
                }
                while let Some(position) = ledger.retire() {
                    retired = Some(position);
                }
                for (position, _) in plain.iter().take_while(|(_, settled)| *settled) {
                    expected = Some(*position);
                }
                prop_assert_eq!(retired, expected);
                prop_assert_eq!(ledger.open(), tickets.len());
                prop_assert!(ledger.len() <= 2 * tickets.len() + 1);
            }
        }
    }
}
