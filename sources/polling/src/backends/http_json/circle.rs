//! Whether pages lead in a circle, however long. Pure.

use serde::{Deserialize, Serialize};

/// Remembers one page of those that were passed, further and further apart: a circle of any length is noticed after at most three
/// times its length, and only one page is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Circle {
    remembered: String,
    since: u64,
    until: u64,
}

impl Circle {
    /// Passes on to a page; false: it was passed before.
    pub(super) fn pass(&mut self, page: &str) -> bool {
        if self.until > 0 && self.remembered == page {
            return false;
        }
        self.since += 1;
        if self.since > self.until {
            self.until = self.since.max(self.until * 2).max(1);
            self.since = 0;
            page.clone_into(&mut self.remembered);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_noticed_whatever_its_length_and_no_straight_way_is_one() {
        for (before, length) in [(0, 1), (3, 1), (0, 2), (5, 7), (1, 100), (1000, 3)] {
            let mut circle = Circle::default();
            let found = (0..).position(|at: u64| {
                let page = if at < before { at } else { before + (at - before) % length };
                !circle.pass(&page.to_string())
            });
            let bound = 3 * (before + length) + 3;
            assert!(found.unwrap() as u64 <= bound, "{before} and a circle of {length}: {found:?}");
        }
        let mut circle = Circle::default();
        assert!((0..100_000).all(|page: u64| circle.pass(&page.to_string())));
    }
}
