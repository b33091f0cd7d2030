//! Much that a node left, taken up by another.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use stile_domain::{
    Address, AttemptKind, B256, Bytes, Fees, Finality, Holder, Incarnation, Lane, NodeId, Nonce,
    Payload, Plan, TxId, U256, request_hash,
};
use stile_store::{
    Acquisition, BindTx, Bindable, NewAttempt, NewTx, SIZE_PER_RAW_BYTE, Store, TxBinding,
};
use testkit::{eventually, eventually_within};
use uuid::Uuid;

use crate::common::{Bench, Spy, lane, lease, on, on_both_stores};
use crate::setup::{settings, start_on};

on_both_stores!(hole_36_much_is_taken_up_in_bounded_pages_lowest_nonces_first);

const LANES: u32 = 60;
const OF_EACH: u64 = 12;

/// So many rows, and bytes, may one answer have.
const MOST_ROWS: usize = 500;
const MOST_BYTES: u64 = 8 << 20;

/// No node listens here: nothing is sent, and nothing is known of the chain.
const NOBODY: &str = "http://127.0.0.1:9";

fn attempt(size: usize) -> NewAttempt {
    let hash =
        B256::from_slice(&[Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes()].concat());
    NewAttempt {
        kind: AttemptKind::Send,
        hash,
        raw: Bytes::from(vec![7; size]),
        fees: Fees::Market { max_fee_per_gas: 200, max_priority_fee_per_gas: 7 },
        gas_limit: 21_000,
    }
}

fn new_tx(lane: Lane) -> NewTx {
    let payload =
        Payload { to: Some(Address::repeat_byte(7)), value: U256::from(5), ..Payload::default() };
    NewTx {
        id: TxId(Uuid::now_v7()),
        tenant: String::new(),
        lane,
        request_id: None,
        request_hash: request_hash(&payload, None),
        payload,
        finality: Finality::Confirmations(1),
        gas_limit: None,
        replaces: None,
    }
}

/// Binds transactions of a lane at its first nonces, as a node would that is gone by now.
async fn leave(store: &dyn Store, lane: Lane, size: impl Fn(Nonce) -> usize) -> Vec<TxId> {
    let holder =
        Holder { node: NodeId("gone".into()), incarnation: Incarnation::fresh(), url: None };
    let short = Duration::from_secs(5);
    let held = store.acquire(&holder, &[lane], short).await.unwrap().pop();
    let Some(Acquisition::Held(held)) = held else { panic!("{held:?}") };
    store.start_cursor(&holder.node, &held.claim, 0.into(), short).await.unwrap().unwrap();
    let txs = (0..OF_EACH).map(|nonce| BindTx {
        what: Bindable::New(Box::new(new_tx(lane))),
        attempt: attempt(size(nonce)),
    });
    let plan = Plan { reissued: Vec::new(), first: 0, fresh: OF_EACH };
    let binding = TxBinding { claim: held.claim, plan, txs: txs.collect(), resubmit_after: None };
    let bound = store.bind_txs(&holder.node, &[binding], short).await.unwrap().remove(0).unwrap();
    store.release(&[held.claim]).await.unwrap();
    bound.iter().map(|tx| tx.id).collect()
}

/// Fails if what is open on all lanes is read in one answer, or lane by lane.
async fn hole_36_much_is_taken_up_in_bounded_pages_lowest_nonces_first(bench: Bench) {
    let mut left: BTreeSet<TxId> = BTreeSet::new();
    for number in 0..LANES {
        // Some with 100 kB, and more of them than one page has room for.
        let size = |nonce| if nonce % 6 == 0 { 100_000 } else { 200 };
        left.extend(leave(&*bench.store, lane(number), size).await);
    }
    let spy = Spy::on(bench.database.open());
    let patient = settings(&bench, "b");
    let b = start_on(
        spy.clone(),
        stile_engine::Settings { lease: lease(60_000), ..patient },
        &[NOBODY],
    );
    let b = b.await;
    let read = async || {
        let pages = spy.pages();
        let read: Vec<TxId> = pages.iter().flat_map(|page| &page.txs).map(|it| it.tx.id).collect();
        (read.len() >= left.len()).then_some((pages, read))
    };
    let (pages, read) = eventually_within(Duration::from_secs(45), "all of it", read).await;
    assert_eq!(read.len(), left.len(), "each of them once");
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), left);

    for page in &pages {
        let sizes = page.txs.iter().flat_map(|open| &open.attempts).map(|it| it.raw.len() as u64);
        let bytes = sizes.sum::<u64>() * SIZE_PER_RAW_BYTE;
        assert!(page.txs.len() <= MOST_ROWS, "{} rows", page.txs.len());
        assert!(bytes <= MOST_BYTES, "{bytes} bytes");
    }
    assert!(pages.len() > 4, "{} pages", pages.len());
    assert!(spy.most_readers() <= 2, "{} pages at one time", spy.most_readers());

    let in_order = pages.iter().flat_map(|page| &page.txs).map(|it| (it.tx.lane, it.tx.nonce));
    let mut next: HashMap<Lane, Nonce> = HashMap::new();
    let mut first_seen: BTreeMap<Lane, usize> = BTreeMap::new();
    for (place, (lane, nonce)) in in_order.enumerate() {
        let next = next.entry(lane).or_default();
        assert_eq!(nonce, Some(*next), "a lane is read in order");
        *next += 1;
        first_seen.entry(lane).or_insert(place);
    }
    let last = first_seen.values().max().unwrap();
    assert!(*last < 2 * LANES as usize, "the last lane came {last}th");
    eventually("its lanes to be held", async || {
        let lanes: Vec<Lane> = (0..LANES).map(lane).collect();
        let views = bench.store.lanes(&lanes).await.unwrap();
        views.iter().flatten().all(|view| view.owner.node.0 == "b").then_some(())
    })
    .await;
    b.shutdown().await;
}
