//! Times and how they are shown.

use std::time::{Duration, Instant};

/// The middle and the slow end of many times.
pub(crate) struct Times(Vec<u64>);

impl Times {
    pub(crate) fn of(mut nanoseconds: Vec<u64>) -> Self {
        nanoseconds.sort_unstable();
        Self(nanoseconds)
    }

    pub(crate) fn at(&self, share: f64) -> Duration {
        let last = self.0.len() - 1;
        Duration::from_nanos(self.0[(last as f64 * share) as usize])
    }

    pub(crate) fn median(&self) -> Duration {
        self.at(0.5)
    }

    pub(crate) fn show(&self, title: &str) {
        let (median, p99) = (self.median(), self.at(0.99));
        println!("{title:<44} p50 {median:>10.2?}  p99 {p99:>10.2?}  ({} times)", self.0.len());
    }
}

/// Two calls by turns, each on its own: what the machine does meanwhile meets both alike.
pub(crate) async fn by_turns(
    times: usize,
    mut one: impl AsyncFnMut(),
    mut other: impl AsyncFnMut(),
) -> [Times; 2] {
    let mut taken = [const { Vec::new() }; 2];
    for turn in 0..times + times / 10 {
        let began = Instant::now();
        one().await;
        let between = Instant::now();
        other().await;
        if turn >= times / 10 {
            taken[0].push(u64::try_from((between - began).as_nanos()).unwrap());
            taken[1].push(u64::try_from(between.elapsed().as_nanos()).unwrap());
        }
    }
    taken.map(Times::of)
}

/// Each call on its own.
pub(crate) async fn one_by_one(times: usize, mut call: impl AsyncFnMut()) -> Times {
    for _ in 0..times / 10 {
        call().await;
    }
    let mut taken = Vec::with_capacity(times);
    for _ in 0..times {
        let began = Instant::now();
        call().await;
        taken.push(u64::try_from(began.elapsed().as_nanos()).unwrap());
    }
    Times::of(taken)
}
