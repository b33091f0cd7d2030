//! Renewal under load.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{join, join_all};
use stile_domain::{HeldExpiry, Holder, Nonce};
use stile_store::{Acquisition, Binding, Claim, OpenOptions, Renewal, Store, open};
use testkit::Postgres;

use crate::common::{Bench, Database, LEASE, RUN_OUT, fresh, lane, node, used};

const LANES: u32 = 1_000;
const WRITERS: usize = 4;
const BATCHES: usize = 40;
const BATCH: usize = 50;

/// A reproducible disorder.
struct Disorder(u64);

impl Disorder {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

/// A lane and where its cursor stands.
type Cursor = (Claim, Nonce);

/// Binds batches of lanes in any order, and marks some of what it got, in any order.
async fn write(store: &dyn Store, lanes: &mut [Cursor], mut disorder: Disorder) {
    for _ in 0..BATCHES {
        disorder.shuffle(lanes);
        let batch = 1 + disorder.below(BATCH);
        let bindings: Vec<Binding> =
            lanes[..batch].iter().map(|(claim, cursor)| fresh(*claim, *cursor, 1)).collect();
        let answers = store.bind(&bindings, LEASE, RUN_OUT).await.unwrap();
        let mut holds: Vec<_> = answers.into_iter().flat_map(Result::unwrap).collect();
        assert_eq!(holds.len(), batch);
        for (_, cursor) in &mut lanes[..batch] {
            *cursor += 1;
        }
        disorder.shuffle(&mut holds);
        let marks: Vec<_> = holds.iter().step_by(2).map(|hold| used(hold, 1)).collect();
        store.mark(&marks).await.unwrap();
    }
}

/// Renews every lane again and again, in any order.
async fn renew(store: &dyn Store, mut claims: Vec<Claim>, done: &AtomicBool) -> usize {
    let mut disorder = Disorder(7);
    let mut renewed = 0;
    while !done.load(Ordering::Acquire) {
        disorder.shuffle(&mut claims);
        for renewal in store.renew(&claims, LEASE).await.unwrap() {
            match renewal {
                Renewal::Renewed => renewed += 1,
                Renewal::Skipped => {}
                Renewal::Fenced(owner) => panic!("lost to {owner:?}"),
            }
        }
    }
    renewed
}

/// Sweeps every lane again and again, in any order.
async fn sweep(store: &dyn Store, mut claims: Vec<Claim>, done: &AtomicBool) -> usize {
    let mut disorder = Disorder(11);
    let mut swept = 0;
    while !done.load(Ordering::Acquire) {
        disorder.shuffle(&mut claims);
        let answers = store.expire(&claims, HeldExpiry::Suspect, LEASE).await.unwrap();
        swept += answers.into_iter().map(|answer| answer.unwrap().len()).sum::<usize>();
    }
    swept
}

async fn acquire_all(store: &dyn Store, holder: &Holder) -> Vec<Claim> {
    let lanes: Vec<_> = (0..LANES).map(lane).collect();
    let answers = store.acquire(holder, &lanes, LEASE).await.unwrap();
    let claims = answers.into_iter().map(|answer| match answer {
        Acquisition::Held(held) => held.claim,
        Acquisition::Other(owner) => panic!("{owner:?}"),
    });
    claims.collect()
}

#[tokio::test]
async fn hole_16d_renewal_of_a_thousand_lanes_under_load_does_not_deadlock() {
    let server = Postgres::start(&[]).await;
    let bench = Bench::new(Database::on(&server).await).await;
    let store: Arc<dyn Store> =
        open(OpenOptions { pool_size: WRITERS + 3, ..bench.database.options() }).unwrap();
    let claims = acquire_all(&*store, &node("a")).await;
    bench.raw().await.execute("UPDATE lane SET next_nonce = 0, timeline = stile_timeline()").await;

    let mut lanes: Vec<Cursor> = claims.iter().map(|claim| (*claim, 0)).collect();
    Disorder(3).shuffle(&mut lanes);
    let done = AtomicBool::new(false);
    let writers = lanes.chunks_mut(LANES as usize / WRITERS).zip(1..);
    let writing = async {
        join_all(writers.map(|(part, seed)| write(&*store, part, Disorder(seed)))).await;
        done.store(true, Ordering::Release);
    };
    let background =
        join(renew(&*store, claims.clone(), &done), sweep(&*store, claims.clone(), &done));
    let ((), (renewed, swept)) = join(writing, background).await;

    assert!(renewed > 0 && swept > 0, "all of them were at it: {renewed}, {swept}");
    let log = server.log();
    assert!(!log.contains("deadlock detected"), "{log}");
}
