//! Chance that can be repeated.

/// Sebastiano Vigna's SplitMix64: one number follows from the other.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of this seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The numbers of one of many who share a seed, so that none depends on the others' pace.
    pub fn part(seed: u64, number: u64) -> Self {
        let mut mixed = Self(seed ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93));
        mixed.next();
        mixed
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number from the first to the last of these.
    pub fn between(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last - first + 1)
    }

    /// One of so many places.
    pub fn place(&mut self, count: usize) -> usize {
        usize::try_from(self.below(count as u64)).expect("a place below a count")
    }

    /// True so many times in a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.place(all.len())]
    }

    /// Puts these into another order.
    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for last in (1..all.len()).rev() {
            all.swap(last, self.place(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_says_everything() {
        let numbers = |seed| {
            let mut random = Random::new(seed);
            (0..20).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(numbers(7), numbers(7));
        assert_ne!(numbers(7), numbers(8));
    }

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut all: Vec<u32> = (0..30).collect();
        Random::new(3).shuffle(&mut all);
        assert_ne!(all, (0..30).collect::<Vec<_>>());
        all.sort_unstable();
        assert_eq!(all, (0..30).collect::<Vec<_>>());
    }
}
