//! Which nonces a batch of requests gets.

use std::collections::BTreeMap;

use crate::{HoldId, MAX_NONCE, Nonce, Released};

/// A lane's nonces as its holder knows them in memory.
///
/// There is one planner per lane and fencing token. It is dropped, never repaired, when a commit
/// fails or its fate is unknown: the database is then read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planner {
    cursor: Nonce,
    /// For whoever comes next.
    reusable: BTreeMap<Nonce, HoldId>,
    /// For transactions that Stile sends itself.
    kept: BTreeMap<Nonce, HoldId>,
}

/// The nonces planned for one batch of one lane. The commit must find the cursor at `first` and
/// every released nonce still as it was, or nothing of the plan is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Released nonces to be given out again, lowest first.
    pub reissued: Vec<Released>,
    /// Where the cursor must stand.
    pub first: Nonce,
    /// How many fresh nonces are taken from the cursor on.
    pub fresh: u64,
}

impl Plan {
    /// The nonces in the order the requests get them.
    pub fn nonces(&self) -> impl Iterator<Item = Nonce> + '_ {
        let fresh = self.first..self.first + self.fresh;
        self.reissued.iter().map(|released| released.nonce).chain(fresh)
    }
}

impl Planner {
    /// A planner that starts where the lane row says.
    pub fn new(cursor: Nonce) -> Self {
        Self { cursor, reusable: BTreeMap::new(), kept: BTreeMap::new() }
    }

    /// The next fresh nonce.
    pub fn cursor(&self) -> Nonce {
        self.cursor
    }

    /// How many released nonces may be given to callers.
    pub fn on_offer(&self) -> usize {
        self.reusable.len()
    }

    /// How many released nonces may be given to transactions that Stile sends itself.
    pub fn on_offer_for_stile(&self) -> usize {
        self.reusable.len() + self.kept.len()
    }

    /// The released nonces that only transactions of Stile's own may have.
    pub fn kept(&self) -> impl Iterator<Item = Released> + '_ {
        self.kept.iter().map(|(nonce, hold)| Released { nonce: *nonce, hold: *hold })
    }

    /// Replaces what may be given out again, to anybody and to transactions of Stile's own. What is
    /// at or above the cursor cannot have been given out before and is ignored.
    pub fn offer(
        &mut self,
        anybody: impl IntoIterator<Item = Released>,
        stile: impl IntoIterator<Item = Released>,
    ) {
        let below = |released: &Released| released.nonce < self.cursor;
        let pair = |released: Released| (released.nonce, released.hold);
        self.reusable = anybody.into_iter().filter(below).map(pair).collect();
        self.kept = stile.into_iter().filter(below).map(pair).collect();
    }

    /// Takes `count` nonces for callers: released ones first, lowest first, then fresh ones. `None`
    /// if the lane's nonces are used up, which no honest chain brings about.
    pub fn take(&mut self, count: usize) -> Option<Plan> {
        self.plan(count, false)
    }

    /// Takes `count` nonces for transactions that Stile sends itself, in the same order.
    pub fn take_for_stile(&mut self, count: usize) -> Option<Plan> {
        self.plan(count, true)
    }

    fn plan(&mut self, count: usize, for_stile: bool) -> Option<Plan> {
        let on_offer = if for_stile { self.on_offer_for_stile() } else { self.on_offer() };
        let from_released = count.min(on_offer);
        let fresh = (count - from_released) as u64;
        let end = self.cursor.checked_add(fresh).filter(|end| *end <= MAX_NONCE)?;
        let reissued = std::iter::from_fn(|| self.lowest(for_stile))
            .take(from_released)
            .map(|(nonce, hold)| Released { nonce, hold })
            .collect();
        let first = std::mem::replace(&mut self.cursor, end);
        Some(Plan { reissued, first, fresh })
    }

    fn lowest(&mut self, for_stile: bool) -> Option<(Nonce, HoldId)> {
        let kept = self.kept.first_key_value().filter(|_| for_stile).map(|(nonce, _)| *nonce);
        let open = self.reusable.first_key_value().map(|(nonce, _)| *nonce);
        match (kept, open) {
            (Some(kept), Some(open)) if kept < open => self.kept.pop_first(),
            (Some(_), None) => self.kept.pop_first(),
            _ => self.reusable.pop_first(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn released(nonce: Nonce) -> Released {
        Released { nonce, hold: HoldId::fresh() }
    }

    #[test]
    fn released_nonces_come_first_lowest_first() {
        let mut planner = Planner::new(10);
        planner.offer([released(7), released(3)], []);
        let plan = planner.take(4).unwrap();
        assert_eq!(plan.nonces().collect::<Vec<_>>(), [3, 7, 10, 11]);
        assert_eq!(planner.cursor(), 12);
    }

    #[test]
    fn what_is_kept_for_stile_goes_to_nobody_else() {
        let mut planner = Planner::new(10);
        planner.offer([released(7)], [released(3), released(8)]);
        assert_eq!(planner.clone().take(3).unwrap().nonces().collect::<Vec<_>>(), [7, 10, 11]);
        let plan = planner.take_for_stile(4).unwrap();
        assert_eq!(plan.nonces().collect::<Vec<_>>(), [3, 7, 8, 10]);
    }

    #[test]
    fn the_last_nonce_is_not_passed() {
        let mut planner = Planner::new(MAX_NONCE - 1);
        assert!(planner.take(2).is_none());
        assert_eq!(planner.cursor(), MAX_NONCE - 1);
        assert!(planner.take(1).is_some());
        assert!(planner.take(1).is_none());
    }

    proptest! {
        /// However requests and releases mix, no nonce is planned twice while it is out, and the
        /// fresh ones have no gap.
        #[test]
        fn nothing_is_planned_twice(steps in proptest::collection::vec((1usize..20, 0usize..5), 1..60)) {
            let mut planner = Planner::new(0);
            let mut out = std::collections::BTreeSet::new();
            for (take, give_back) in steps {
                let plan = planner.take(take).unwrap();
                prop_assert_eq!(plan.nonces().count(), take);
                for nonce in plan.nonces() {
                    prop_assert!(out.insert(nonce), "{} was out already", nonce);
                }
                let back: Vec<Nonce> = out.iter().copied().take(give_back).collect();
                for nonce in &back {
                    out.remove(nonce);
                }
                let still_free: Vec<Nonce> = (0..planner.cursor()).filter(|n| !out.contains(n)).collect();
                planner.offer(still_free.into_iter().map(released), []);
            }
        }
    }
}
