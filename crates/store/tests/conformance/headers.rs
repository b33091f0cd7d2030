//! Which blocks are canonical, and which transactions stand on blocks that no longer are.

use futures::future::join_all;
use stile_domain::{ChainId, Header, Outcome, Step};
use stile_store::{HeaderUpdate, Set, Store};

use crate::common::{
    Bench, bind_new, bind_txs, change, claim_at, header, lane, new_tx, node, receipt, record_one,
    steps,
};

on_both_stores!(
    canonical_headers_are_kept_oldest_first,
    replaced_headers_are_canonical_no_longer,
    a_header_may_become_canonical_again,
    headers_below_a_height_are_forgotten,
    chains_do_not_mix,
    a_fork_above_a_transaction_is_seen_until_it_is_told,
    a_fork_that_was_never_on_record_is_seen,
    many_nodes_write_the_same_headers,
);

const MINED: Step = Step::Mined(Outcome::Success);

fn chain() -> ChainId {
    lane(1).chain
}

fn update(canonical: Vec<Header>, replaced: Vec<Header>) -> HeaderUpdate {
    HeaderUpdate { chain: chain(), canonical, replaced, keep_from: 0 }
}

async fn save(store: &dyn Store, canonical: Vec<Header>, replaced: Vec<Header>) {
    store.save_headers(&update(canonical, replaced)).await.unwrap();
}

async fn canonical_headers_are_kept_oldest_first(bench: Bench) {
    let store = &*bench.store;
    assert!(store.headers(chain()).await.unwrap().is_empty());
    save(store, vec![header(1, 5), header(1, 3), header(1, 4)], Vec::new()).await;
    save(store, vec![header(1, 5), header(1, 6)], Vec::new()).await;
    let found = bench.second().headers(chain()).await.unwrap();
    assert_eq!(found, [3, 4, 5, 6].map(|height| header(1, height)));
    save(store, Vec::new(), Vec::new()).await;
}

async fn replaced_headers_are_canonical_no_longer(bench: Bench) {
    let store = &*bench.store;
    save(store, (1..=4).map(|height| header(1, height)).collect(), Vec::new()).await;
    save(store, vec![header(2, 3)], vec![header(1, 3), header(1, 4)]).await;
    let found = store.headers(chain()).await.unwrap();
    assert_eq!(found, [header(1, 1), header(1, 2), header(2, 3)]);
    let replaced = store.replaced_headers(chain()).await.unwrap();
    assert_eq!(replaced, [header(1, 3), header(1, 4)]);
}

async fn a_header_may_become_canonical_again(bench: Bench) {
    let store = &*bench.store;
    save(store, vec![header(1, 1), header(1, 2)], Vec::new()).await;
    save(store, vec![header(2, 2)], vec![header(1, 2)]).await;
    save(store, vec![header(1, 2)], vec![header(2, 2)]).await;
    assert_eq!(store.headers(chain()).await.unwrap(), [header(1, 1), header(1, 2)]);
    // What is said to be both is canonical.
    save(store, vec![header(1, 2)], vec![header(1, 2)]).await;
    assert_eq!(store.headers(chain()).await.unwrap(), [header(1, 1), header(1, 2)]);
}

async fn headers_below_a_height_are_forgotten(bench: Bench) {
    let store = &*bench.store;
    save(store, (1..=9).map(|height| header(1, height)).collect(), vec![header(2, 2)]).await;
    let forget = HeaderUpdate { keep_from: 8, ..update(vec![header(1, 10)], Vec::new()) };
    store.save_headers(&forget).await.unwrap();
    let found = store.headers(chain()).await.unwrap();
    assert_eq!(found, [8, 9, 10].map(|height| header(1, height)));
    assert_eq!(bench.raw().await.value("SELECT count(*) FROM header").await, "3");
}

async fn chains_do_not_mix(bench: Bench) {
    let store = &*bench.store;
    let other = ChainId::new(5).unwrap();
    save(store, vec![header(1, 1)], Vec::new()).await;
    let elsewhere = HeaderUpdate {
        chain: other,
        canonical: vec![header(1, 2)],
        replaced: vec![header(1, 1)],
        keep_from: 2,
    };
    store.save_headers(&elsewhere).await.unwrap();
    assert_eq!(store.headers(chain()).await.unwrap(), [header(1, 1)]);
    assert_eq!(store.headers(other).await.unwrap(), [header(1, 2)]);
}

async fn a_fork_above_a_transaction_is_seen_until_it_is_told(bench: Bench) {
    let store = &*bench.store;
    save(store, (9..=13).map(|height| header(1, height)).collect(), Vec::new()).await;
    // Of a fork long ago, told by the entries that are written below.
    save(store, Vec::new(), vec![header(7, 13)]).await;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let txs = bind_txs(store, bind_new(claim, 0, (0..3).map(|_| new_tx(lane(1))))).await.unwrap();
    let mut tracked = Vec::new();
    for (tx, height) in txs.iter().zip([11, 12]) {
        let mut mined = change(tx, MINED);
        mined.receipt = Set::To(receipt(tx, height));
        tracked.push(record_one(store, claim, mined).await);
    }
    let forked = async || {
        let open = store.open_txs(&[lane(1)]).await.unwrap();
        open.iter().map(|open| open.forked).collect::<Vec<_>>()
    };
    assert_eq!(forked().await, [false, false, false]);
    save(store, vec![header(2, 12)], vec![header(1, 12), header(1, 13)]).await;
    assert_eq!(forked().await, [true, true, false], "blocks above theirs were replaced");
    let told = steps(store, claim, &tracked[0], &[Step::Forked { still_final: false }]).await;
    assert_eq!(forked().await, [false, true, false]);

    // Below or at its own height is not above it.
    save(store, Vec::new(), vec![header(2, 11)]).await;
    assert_eq!(forked().await, [false, true, false]);
    let done = steps(store, claim, &told, &[Step::Final]).await;
    let above = store.done_above(chain(), &[lane(1)], 10).await.unwrap();
    assert_eq!((above[0].tx.id, above[0].forked), (done.id, false));
    save(store, Vec::new(), vec![header(3, 14)]).await;
    let above = store.done_above(chain(), &[lane(1)], 10).await.unwrap();
    assert!(above[0].forked, "what is done may have to be told as well");
}

async fn a_fork_that_was_never_on_record_is_seen(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let tx = bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap().remove(0);
    steps(store, claim, &tx, &[MINED]).await;
    // The node that had seen the blocks ended before it wrote them down.
    save(store, vec![header(2, 11)], vec![header(1, 11)]).await;
    assert!(store.open_txs(&[lane(1)]).await.unwrap()[0].forked);
    assert_eq!(store.headers(chain()).await.unwrap(), [header(2, 11)]);
}

async fn many_nodes_write_the_same_headers(bench: Bench) {
    let stores: Vec<_> = (0..4).map(|_| bench.second()).collect();
    for height in 1..20 {
        let calls = stores.iter().zip(0..).map(|(store, number)| {
            let mut canonical = vec![header(2, height), header(2, height + 1)];
            let mut replaced = vec![header(1, height), header(1, height + 1)];
            if number % 2 == 0 {
                canonical.reverse();
                replaced.reverse();
            }
            async move { store.save_headers(&update(canonical, replaced)).await }
        });
        for answer in join_all(calls).await {
            answer.unwrap();
        }
    }
    assert_eq!(bench.store.headers(chain()).await.unwrap().len(), 20);
}
