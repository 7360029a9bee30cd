//! Rows that the log tells without the old values that we need: which of them must still be said to the engine.
//!
//! Whether a row tells enough is known from the log itself, by its relation's description: an identity that is narrowed and put
//! back between two looks at the catalog leaves no other trace.

use std::collections::HashMap;

use millstream_model::{Fence, QualifiedTable};

use crate::{CoverageChange, CoverageNotice, StartLine};

/// What was said of each table, so that a million rows are said once and none is left unsaid.
#[derive(Debug)]
pub(crate) struct Gaps {
    /// Where this run's coverage begins.
    base: StartLine,
    tables: HashMap<QualifiedTable, Said>,
    owed: Vec<QualifiedTable>,
}

#[derive(Debug)]
struct Said {
    /// It is known to be broken: all is said once it is mended.
    broken: bool,
    /// The last filling that was asked for waits for all transactions before here: it sees their rows.
    line: StartLine,
    /// The latest transaction that was passed over while it was broken.
    passed: Option<u64>,
}

impl Gaps {
    /// `base`: the start line of this run's coverage. `broken`: the tables that are known to be.
    pub(crate) fn new(base: StartLine, broken: impl IntoIterator<Item = QualifiedTable>) -> Self {
        let said = |table| (table, Said { broken: true, line: StartLine::NONE, passed: None });
        Self { base, tables: broken.into_iter().map(said).collect(), owed: Vec::new() }
    }

    /// True for rows that may have been written before this run's coverage was in place.
    pub(crate) fn is_before_base(&self, fence: Fence) -> bool {
        is_before(fence.transaction(), self.base)
    }

    /// A row of this transaction lacks what we need: true when that must be said.
    pub(crate) fn must_say(&mut self, table: &QualifiedTable, fence: Fence) -> bool {
        let Some(said) = self.tables.get_mut(table) else { return true };
        let transaction = fence.transaction();
        if is_before(transaction, said.line) {
            return false;
        }
        if said.broken && said.passed.is_none_or(|passed| is_older(passed, transaction)) {
            said.passed = Some(transaction);
        }
        !said.broken
    }

    /// Takes note of what the engine is told, whoever found it.
    pub(crate) fn said(&mut self, notice: &CoverageNotice) {
        let said = self.tables.entry(notice.table.clone());
        let said = said.or_insert(Said { broken: false, line: StartLine::NONE, passed: None });
        match &notice.change {
            CoverageChange::Broken { .. } => said.broken = true,
            CoverageChange::Mended { start_line } => {
                said.broken = false;
                said.line = said.line.max(*start_line);
                // It was broken once more between the look that found it whole and now.
                if said.passed.take().is_some_and(|passed| !is_before(passed, said.line)) {
                    self.owed.push(notice.table.clone());
                }
            }
            CoverageChange::Rewritten { start_line, .. } => said.line = said.line.max(*start_line),
        }
    }

    /// A table of which something is left to be said.
    pub(crate) fn owed(&mut self) -> Option<QualifiedTable> {
        self.owed.pop()
    }
}

/// The log's transaction ids have 32 bits, on a circle.
fn is_before(transaction: u64, line: StartLine) -> bool {
    line != StartLine::NONE && is_older(transaction, line.0.transaction())
}

fn is_older(one: u64, other: u64) -> bool {
    (1..1 << 31).contains(&(other as u32).wrapping_sub(one as u32))
}

#[cfg(test)]
mod tests {
    use millstream_model::Position;

    use super::*;

    fn table() -> QualifiedTable {
        QualifiedTable::new("public", "orders")
    }

    fn at(transaction: u64) -> Fence {
        Fence::new(transaction, Position(1))
    }

    fn notice(change: CoverageChange) -> CoverageNotice {
        CoverageNotice { table: table(), change }
    }

    fn rewritten(line: u64) -> CoverageNotice {
        notice(CoverageChange::Rewritten { reason: String::new(), start_line: StartLine(at(line)) })
    }

    #[test]
    fn p5_rows_that_a_filling_will_see_are_said_once_and_later_ones_again() {
        let mut gaps = Gaps::new(StartLine::NONE, []);
        assert!(gaps.must_say(&table(), at(10)));
        gaps.said(&rewritten(20));
        assert!(!gaps.must_say(&table(), at(10)) && !gaps.must_say(&table(), at(19)));
        assert!(gaps.must_say(&table(), at(20)));
    }

    #[test]
    fn p5_what_is_passed_over_while_broken_is_owed_if_its_mending_does_not_see_it() {
        let broken = || notice(CoverageChange::Broken { reason: String::new(), remedy: String::new() });
        let mended = |line| notice(CoverageChange::Mended { start_line: StartLine(at(line)) });
        let mut gaps = Gaps::new(StartLine::NONE, [table()]);
        assert!(!gaps.must_say(&table(), at(10)) && !gaps.must_say(&table(), at(9)));
        gaps.said(&mended(11));
        assert_eq!(gaps.owed(), None);
        gaps.said(&broken());
        assert!(!gaps.must_say(&table(), at(12)));
        gaps.said(&mended(12));
        assert_eq!((gaps.owed(), gaps.owed()), (Some(table()), None));
    }

    #[test]
    fn case_g6_lines_lie_on_a_circle_of_four_billion() {
        let gaps = Gaps::new(StartLine(at((3 << 32) + 5)), []);
        assert!(gaps.is_before_base(at(4)) && gaps.is_before_base(at(u64::from(u32::MAX))));
        assert!(!gaps.is_before_base(at(5)) && !gaps.is_before_base(at(6)));
        assert!(!Gaps::new(StartLine::NONE, []).is_before_base(at(1)));
    }
}
