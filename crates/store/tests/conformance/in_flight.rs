//! What is in flight on many lanes, page by page.

use std::collections::BTreeSet;

use stile_domain::{Bytes, Lane, Nonce, Outcome, Step, TxId};
use stile_store::{Claim, InFlightFrom, InFlightPage, PageLimit, SIZE_PER_RAW_BYTE, Store, Tx};

use crate::common::{Bench, accept_one, bind_new, bind_txs, claim_at, lane, new_tx, node, steps};

on_both_stores!(
    hole_36_a_page_has_so_many_rows_lowest_nonces_of_all_lanes_first,
    hole_36_a_page_has_so_many_bytes,
    hole_36_pages_go_on_where_the_last_one_ended,
    what_is_not_in_flight_is_in_no_page,
);

const WIDE: PageLimit = PageLimit { rows: 1000, bytes: u64::MAX };

/// Binds transactions at a new lane's first nonces, with so many bytes each.
async fn fill(store: &dyn Store, lane: Lane, sizes: &[usize]) -> Vec<Tx> {
    let claim = claim_at(store, &node("a"), lane, 0).await;
    fill_under(store, claim, sizes).await
}

async fn fill_under(store: &dyn Store, claim: Claim, sizes: &[usize]) -> Vec<Tx> {
    let lane = claim.lane();
    let mut binding = bind_new(claim, 0, sizes.iter().map(|_| new_tx(lane)));
    for (tx, size) in binding.txs.iter_mut().zip(sizes) {
        tx.attempt.raw = Bytes::from(vec![7; *size]);
    }
    bind_txs(store, binding).await.unwrap()
}

fn start(lanes: &[Lane]) -> Vec<InFlightFrom> {
    lanes.iter().copied().map(InFlightFrom::start).collect()
}

fn places(page: &InFlightPage) -> Vec<(Lane, Nonce)> {
    page.txs.iter().map(|open| (open.tx.lane, open.tx.nonce.unwrap())).collect()
}

fn from(lane: Lane, nonce: Nonce) -> InFlightFrom {
    InFlightFrom { lane, nonce }
}

async fn hole_36_a_page_has_so_many_rows_lowest_nonces_of_all_lanes_first(bench: Bench) {
    let store = &*bench.store;
    let mut lanes = [lane(1), lane(2), lane(3)];
    lanes.sort_unstable();
    let [one, two, three] = lanes;
    for (lane, count) in [(one, 4), (two, 1), (three, 3)] {
        fill(store, lane, &vec![50; count]).await;
    }
    let limit = PageLimit { rows: 2, ..WIDE };
    let page = store.in_flight_page(&start(&lanes), limit).await.unwrap();
    assert_eq!(places(&page), [(one, 0), (two, 0)]);
    assert_eq!((page.unread, page.more), (vec![from(three, 0)], vec![from(one, 1), from(two, 1)]));
    let page = store.in_flight_page(&start(&lanes), WIDE).await.unwrap();
    let turns =
        [(one, 0), (two, 0), (three, 0), (one, 1), (three, 1), (one, 2), (three, 2), (one, 3)];
    assert_eq!(places(&page), turns);
    assert!(page.unread.is_empty() && page.more.is_empty());
}

async fn hole_36_a_page_has_so_many_bytes(bench: Bench) {
    let store = &*bench.store;
    let (one, large) = (lane(1), 100_000);
    let txs = fill(store, one, &[large, 50, large, large]).await;
    let two_large = PageLimit { bytes: 2 * large as u64 * SIZE_PER_RAW_BYTE + 1000, ..WIDE };
    let page = store.in_flight_page(&start(&[one]), two_large).await.unwrap();
    assert_eq!(places(&page), [(one, 0), (one, 1), (one, 2)]);
    assert_eq!(page.more, [from(one, 3)]);
    assert_eq!(page.txs[0].tx, txs[0]);
    assert_eq!(page.txs[0].attempts[0].raw.len(), large);
    // However little there is room for, it goes on.
    let page = store.in_flight_page(&page.more, PageLimit { rows: 1, bytes: 0 }).await.unwrap();
    assert_eq!(places(&page), [(one, 3)]);
    assert!(store.in_flight_page(&page.more, WIDE).await.unwrap().txs.is_empty());
}

async fn hole_36_pages_go_on_where_the_last_one_ended(bench: Bench) {
    let store = &*bench.store;
    let mut expected: BTreeSet<TxId> = BTreeSet::new();
    let lanes: Vec<Lane> = (1..=7).map(lane).collect();
    for (lane, count) in lanes.iter().zip(1..) {
        let sizes: Vec<usize> = (0..count * 2).map(|n| 10 + n * 7 % 5 * 20_000).collect();
        expected.extend(fill(store, *lane, &sizes).await.iter().map(|tx| tx.id));
    }
    let limit = PageLimit { rows: 9, bytes: 500_000 };
    let (mut left, mut read, mut pages) = (start(&lanes), Vec::new(), 0);
    while !left.is_empty() {
        let page = store.in_flight_page(&left, limit).await.unwrap();
        let bytes: usize = page.txs.iter().map(|open| open.attempts[0].raw.len()).sum();
        assert!(page.txs.len() <= 9 && bytes as u64 * SIZE_PER_RAW_BYTE <= limit.bytes);
        read.extend(page.txs.iter().map(|open| open.tx.id));
        left = [page.unread, page.more].concat();
        pages += 1;
    }
    assert!(pages >= expected.len() / 9);
    assert_eq!(read.len(), expected.len(), "each of them once");
    assert_eq!(read.into_iter().collect::<BTreeSet<_>>(), expected);
}

async fn what_is_not_in_flight_is_in_no_page(bench: Bench) {
    let store = &*bench.store;
    let one = lane(1);
    let claim = claim_at(store, &node("a"), one, 0).await;
    let txs = fill_under(store, claim, &[50; 4]).await;
    let mined = steps(store, claim, &txs[1], &[Step::Mined(Outcome::Success)]).await;
    steps(store, claim, &txs[2], &[Step::Mined(Outcome::Success), Step::Final]).await;
    accept_one(store, new_tx(one)).await;
    let page = store.in_flight_page(&[from(one, 1), from(lane(9), 0)], WIDE).await.unwrap();
    assert_eq!(places(&page), [(one, 1), (one, 3)], "nor what is below");
    assert_eq!(page.txs[0].tx, mined);
    assert!(page.unread.is_empty() && page.more.is_empty());
    assert_eq!(store.in_flight_page(&[], WIDE).await.unwrap(), InFlightPage::default());
}
