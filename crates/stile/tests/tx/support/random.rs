//! Chance that can be repeated.

use std::hash::{BuildHasher, Hasher};

/// Sebastiano Vigna's SplitMix64: one number follows from the other.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Another seed at each run, written to the test's output; `STILE_TEST_SEED` repeats one.
    pub(crate) fn new() -> Self {
        let fresh = || std::collections::hash_map::RandomState::new().build_hasher().finish();
        let given = std::env::var("STILE_TEST_SEED").ok();
        let seed = given.map_or_else(fresh, |text| text.parse().expect("a number as the seed"));
        println!("STILE_TEST_SEED={seed}");
        Self(seed)
    }

    /// A number below this one.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}
