//! Racing and losing acquires, spellings, absent keys.

use std::collections::HashSet;

use futures::future::join_all;
use stile_domain::{ChainId, Lane, parse_address};
use stile_store::{Acquisition, OpenOptions, open};

use crate::common::{
    Bench, LEASE, acquire, bind, claim_at, fresh, held, key, keyed, lane, node, owner,
};

#[tokio::test]
async fn hole_11_a_losing_acquire_does_not_rewrite_the_row() {
    let bench = Bench::postgres().await;
    held(&*bench.store, &node("a"), lane(1), LEASE).await;
    let raw = bench.raw().await;
    let version = "SELECT ctid, xmin, expires_at, updated_at FROM lane";
    let before = raw.rows(version).await;
    for _ in 0..100 {
        owner(acquire(&*bench.store, &node("b"), lane(1), LEASE).await);
    }
    assert_eq!(raw.rows(version).await, before);
}

#[tokio::test]
async fn hole_11_of_fifty_first_acquires_at_once_one_wins_and_none_fails() {
    const NODES: usize = 50;
    let bench = Bench::postgres().await;
    let store = open(OpenOptions { pool_size: NODES, ..bench.database.options() }).unwrap();
    // Connections first, so that the acquires meet.
    for answer in join_all((0..NODES).map(|_| store.ping())).await {
        answer.unwrap();
    }
    for number in 0..10 {
        let holders: Vec<_> = (0..NODES).map(|n| node(&format!("node-{n}"))).collect();
        let lane = lane(number);
        let racing = holders.iter().map(|holder| acquire(&*store, holder, lane, LEASE));
        let answers = join_all(racing).await;
        let won = answers.iter().filter(|answer| matches!(answer, Acquisition::Held(_)));
        assert_eq!(won.count(), 1, "lane {number}");
        let winners: HashSet<_> = answers
            .iter()
            .zip(&holders)
            .map(|(answer, holder)| match answer {
                Acquisition::Held(held) => (holder.incarnation, held.claim.token()),
                Acquisition::Other(owner) => (owner.incarnation, owner.token),
            })
            .collect();
        assert_eq!(winners.len(), 1, "all of them name the same winner");
    }
    store.close().await;
}

#[tokio::test]
async fn hole_11_an_address_is_one_lane_however_it_is_written() {
    let bench = Bench::postgres().await;
    let (a, b) = (node("a"), node("b"));
    let chain = ChainId::new(31337).unwrap();
    let checksummed = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
    let lower = checksummed.to_lowercase();
    let upper = format!("0x{}", checksummed[2..].to_uppercase());
    let lanes =
        [checksummed, &lower, &upper].map(|text| Lane::new(chain, parse_address(text).unwrap()));

    let claim = claim_at(&*bench.store, &a, lanes[0], 0).await;
    for lane in lanes {
        assert_eq!(held(&*bench.store, &a, lane, LEASE).await.claim, claim);
        owner(acquire(&*bench.second(), &b, lane, LEASE).await);
    }
    let rows = bench.raw().await.rows("SELECT encode(signer, 'hex') FROM lane").await;
    assert_eq!(rows, [[lower[2..].to_owned()]]);
}

#[tokio::test]
async fn hole_11_the_absence_of_a_key_is_not_a_key() {
    let bench = Bench::postgres().await;
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let together = bind(store, fresh(claim, 0, 2)).await.unwrap();
    let apart = bind(store, fresh(claim, 2, 1)).await.unwrap();
    let named = bind(store, keyed(fresh(claim, 3, 2), &[key("shop", "one")])).await.unwrap();
    let ids: HashSet<_> = [together, apart, named].concat().iter().map(|hold| hold.id).collect();
    assert_eq!(ids.len(), 5);
    let raw = bench.raw().await;
    assert_eq!(raw.value("SELECT count(*) FROM allocation_key").await, "1");
    let none = store.allocated_under(lane(1), &[key("shop", ""), key("", "")]).await.unwrap();
    assert_eq!(none, [None, None]);
}
