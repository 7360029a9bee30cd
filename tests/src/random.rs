//! Chance from a seed, so that a run can be told again.

/// A small generator of numbers that look random: the same seed, the same numbers. (SplitMix64.)
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// One that begins at a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Another that does not repeat this one, for a worker of its own.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next())
    }

    /// Any number.
    #[allow(clippy::should_implement_trait)] // It never ends: no iterator.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// One of several.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_tells_the_same_numbers_again() {
        let (mut one, mut other) = (Random::new(7), Random::new(7));
        let numbers: Vec<u64> = (0..5).map(|_| one.next()).collect();
        assert_eq!(numbers, (0..5).map(|_| other.next()).collect::<Vec<_>>());
        assert_ne!(Random::new(8).next(), numbers[0]);
    }
}
