//! The canonical chain as far back as matters.

use std::collections::BTreeMap;

use alloy_primitives::B256;

/// A block's place in the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// Its height.
    pub height: u64,
    /// Its hash.
    pub hash: B256,
    /// The hash of the block below it.
    pub parent: B256,
}

/// The newest canonical headers, each the parent of the next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeaderWindow {
    headers: BTreeMap<u64, Header>,
    limit: usize,
}

/// What a new header means for the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// It is in the window already, as its newest or below it.
    Known,
    /// It goes on top.
    Extends,
    /// The header below it is missing or is another one: that one is needed first.
    NeedsParent,
}

impl HeaderWindow {
    /// A window of at most this many headers, filled with what is known already. Of headers that
    /// do not form one chain, the newest part that does is kept.
    pub fn new(limit: usize, known: impl IntoIterator<Item = Header>) -> Self {
        let all: BTreeMap<u64, Header> = known.into_iter().map(|h| (h.height, h)).collect();
        let mut window = Self { headers: BTreeMap::new(), limit: limit.max(1) };
        for header in all.into_values().rev() {
            let fits = match window.headers.first_key_value() {
                None => true,
                Some((height, above)) => {
                    *height == header.height + 1 && above.parent == header.hash
                }
            };
            if !fits || window.headers.len() == window.limit {
                break;
            }
            window.headers.insert(header.height, header);
        }
        window
    }

    /// The newest header.
    pub fn tip(&self) -> Option<&Header> {
        self.headers.last_key_value().map(|(_, header)| header)
    }

    /// The oldest height that is known.
    pub fn bottom(&self) -> Option<u64> {
        self.headers.first_key_value().map(|(height, _)| *height)
    }

    /// Whether it holds as many headers as it ever does: what is older was dropped for newer ones.
    pub fn is_full(&self) -> bool {
        self.headers.len() >= self.limit
    }

    /// The canonical hash at a height, where it is known.
    pub fn hash_at(&self, height: u64) -> Option<B256> {
        self.headers.get(&height).map(|header| header.hash)
    }

    /// Canonical headers from a height on.
    pub fn from(&self, height: u64) -> impl Iterator<Item = &Header> {
        self.headers.range(height..).map(|(_, header)| header)
    }

    /// What a header means.
    pub fn fit(&self, header: &Header) -> Fit {
        if self.hash_at(header.height) == Some(header.hash) {
            return Fit::Known;
        }
        let below = header.height.checked_sub(1);
        match below.and_then(|below| self.hash_at(below)) {
            Some(hash) if hash == header.parent => Fit::Extends,
            // Nothing below is known, so nothing can contradict it.
            None if self.bottom().is_none_or(|bottom| header.height <= bottom) => Fit::Extends,
            _ => Fit::NeedsParent,
        }
    }

    /// Puts a header on top of the one below it and drops whatever was at its height and above.
    /// Answers with what was dropped, oldest first: empty unless the chain was reorganised.
    pub fn put(&mut self, header: Header) -> Vec<Header> {
        let dropped = self.headers.split_off(&header.height);
        self.headers.insert(header.height, header);
        while self.headers.len() > self.limit {
            self.headers.pop_first();
        }
        dropped.into_values().collect()
    }

    /// Drops everything above a height. Answers with what was dropped, oldest first.
    pub fn cut_above(&mut self, height: u64) -> Vec<Header> {
        self.headers.split_off(&(height + 1)).into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hash(fork: u8, height: u64) -> B256 {
        let mut bytes = [fork; 32];
        bytes[24..].copy_from_slice(&height.to_be_bytes());
        B256::from(bytes)
    }

    fn header(fork: u8, height: u64, parent_fork: u8) -> Header {
        let parent = height.checked_sub(1).map_or(B256::ZERO, |below| hash(parent_fork, below));
        Header { height, hash: hash(fork, height), parent }
    }

    #[test]
    fn a_fork_replaces_what_was_above_the_common_ancestor() {
        let mut window = HeaderWindow::new(128, (0..=10).map(|height| header(1, height, 1)));
        assert_eq!(window.fit(&header(1, 10, 1)), Fit::Known);
        assert_eq!(window.fit(&header(1, 11, 1)), Fit::Extends);
        assert_eq!(window.fit(&header(2, 9, 2)), Fit::NeedsParent);
        assert_eq!(window.fit(&header(2, 8, 1)), Fit::Extends);
        let dropped: Vec<u64> = window.put(header(2, 8, 1)).iter().map(|h| h.height).collect();
        assert_eq!(dropped, [8, 9, 10]);
        assert_eq!(window.tip(), Some(&header(2, 8, 1)));
        assert_eq!(window.fit(&header(2, 9, 2)), Fit::Extends);
    }

    #[test]
    fn stored_headers_that_do_not_link_are_not_believed() {
        let stored = [header(1, 5, 1), header(1, 6, 1), header(2, 7, 2), header(2, 8, 2)];
        let window = HeaderWindow::new(128, stored);
        assert_eq!(window.bottom(), Some(7));
    }

    proptest! {
        /// However forks come, the window is one chain and never longer than it may be.
        #[test]
        fn the_window_is_always_one_chain(forks in proptest::collection::vec((0u64..20, 1u64..20), 1..20)) {
            let mut window = HeaderWindow::new(32, [header(0, 0, 0)]);
            for (fork, (back, length)) in (1u8..).zip(forks) {
                let tip = *window.tip().unwrap();
                let from = tip.height.saturating_sub(back).max(window.bottom().unwrap());
                let mut parent = window.hash_at(from).unwrap();
                for height in from + 1..=from + length {
                    let next = Header { height, hash: hash(fork, height), parent };
                    prop_assert_eq!(window.fit(&next), Fit::Extends);
                    window.put(next);
                    parent = next.hash;
                }
                prop_assert!(window.from(0).count() <= 32);
                let chain: Vec<&Header> = window.from(0).collect();
                for pair in chain.windows(2) {
                    prop_assert_eq!(pair[1].parent, pair[0].hash);
                    prop_assert_eq!(pair[1].height, pair[0].height + 1);
                }
            }
        }
    }
}
