//! Between the driver, the live stream and the acks: what is landed, what is told, what is confirmed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use millstream_cdc::Line;
use millstream_model::Position;
use tokio::sync::Notify;

use crate::model::Timestamp;

/// What is landed, told and confirmed, in this run. The store knows it all; this is what need not be asked again.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    // Held for a look or a change only, never across an await.
    state: Mutex<State>,
    /// There may be something to tell.
    pub told: Notify,
    /// There is something to write down as acked.
    pub confirmed: Notify,
}

#[derive(Debug, Default)]
struct State {
    lines: BTreeMap<Line, Course>,
    /// The line that was told last: the next one's turn comes after it.
    turn: Line,
    look_again: bool,
    confirmed: BTreeMap<Line, Position>,
    broken: bool,
    /// When the last cycle began that did not fail.
    cycle: Option<Timestamp>,
    /// When a cycle began of which all is acked.
    clean: Option<Timestamp>,
}

#[derive(Debug, Default)]
struct Course {
    landed: Position,
    told: Position,
    in_flight: VecDeque<Position>,
}

impl Feed {
    /// Forgets the run before: everything that is not acked is told again.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        *state = State { look_again: true, cycle: state.cycle, clean: state.clean, ..State::default() };
    }

    /// A line is landed up to a position.
    pub(crate) fn landed(&self, line: Line, last: Position) {
        let mut state = self.state();
        let course = state.lines.entry(line).or_default();
        course.landed = course.landed.max(last);
        drop(state);
        self.told.notify_one();
    }

    /// Something was landed: the store knows what.
    pub(crate) fn look_again(&self) {
        self.state().look_again = true;
        self.told.notify_one();
    }

    /// True, once, when the store must be asked what is landed.
    pub(crate) fn must_look(&self) -> bool {
        std::mem::take(&mut self.state().look_again)
    }

    /// The line to tell of next, and from behind which position: one after another, none that has `limit` batches under way.
    pub(crate) fn next(&self, limit: usize) -> Option<(Line, Position)> {
        let state = self.state();
        let waits =
            |(_, course): &(&Line, &Course)| course.landed > course.told && course.in_flight.len() < limit.max(1);
        let after = (std::ops::Bound::Excluded(state.turn), std::ops::Bound::Unbounded);
        let found = state.lines.range(after).find(waits).or_else(|| state.lines.iter().find(waits));
        found.map(|(line, course)| (*line, course.told))
    }

    /// A line was told up to a position; `None`: there was nothing.
    pub(crate) fn tell(&self, line: Line, last: Option<Position>) {
        let mut state = self.state();
        state.turn = line;
        if let Some(course) = state.lines.get_mut(&line) {
            match last {
                Some(last) => {
                    course.told = last;
                    course.in_flight.push_back(last);
                }
                None => course.told = course.landed,
            }
        }
    }

    /// All of a line up to a position is durable in every sink.
    pub(crate) fn confirm(&self, line: Line, position: Position) {
        let mut state = self.state();
        if let Some(course) = state.lines.get_mut(&line) {
            while course.in_flight.front().is_some_and(|told| *told <= position) {
                course.in_flight.pop_front();
            }
        }
        let confirmed = state.confirmed.entry(line).or_default();
        *confirmed = (*confirmed).max(position);
        drop(state);
        self.confirmed.notify_one();
        self.told.notify_one();
    }

    /// What was confirmed and is not yet written down.
    pub(crate) fn take_confirmed(&self) -> BTreeMap<Line, Position> {
        std::mem::take(&mut self.state().confirmed)
    }

    /// It could not be written down: again, with what came since.
    pub(crate) fn put_back(&self, lines: BTreeMap<Line, Position>) {
        let mut state = self.state();
        for (line, position) in lines {
            let confirmed = state.confirmed.entry(line).or_default();
            *confirmed = (*confirmed).max(position);
        }
    }

    /// It is written down.
    pub(crate) fn written(&self) {
        let mut state = self.state();
        // Lines that are through stay: a look at the store from before the ack must not have them told again.
        let through = state.lines.values().all(|course| course.landed <= course.told && course.in_flight.is_empty());
        if through && !state.look_again {
            state.clean = state.cycle;
        }
    }

    pub(crate) fn cycle_ended(&self, started: Timestamp, well: bool) {
        if well {
            self.state().cycle = Some(started);
            self.written();
        }
    }

    /// When a cycle began of which all is acked.
    pub(crate) fn clean(&self) -> Option<Timestamp> {
        self.state().clean
    }

    /// A task of the run ended that should not have.
    pub(crate) fn break_off(&self) {
        self.state().broken = true;
        self.told.notify_one();
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.state().broken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_take_turns_and_a_blocked_one_is_passed_over() {
        let feed = Feed::default();
        let (one, two) = (Line(1), Line(2));
        feed.landed(one, Position(9));
        feed.landed(two, Position(5));
        assert_eq!(feed.next(1), Some((one, Position(0))));
        feed.tell(one, Some(Position(3)));
        assert_eq!(feed.next(1), Some((two, Position(0))));
        feed.tell(two, Some(Position(5)));
        assert_eq!(feed.next(1), None, "line 1 has more, and its one batch under way");
        feed.confirm(one, Position(3));
        assert_eq!(feed.next(1), Some((one, Position(3))));
        assert_eq!(feed.take_confirmed(), BTreeMap::from([(one, Position(3))]));
    }
}
