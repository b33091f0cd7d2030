//! Idempotency keys of allocations.

use stile_domain::HoldStatus;
use stile_store::Refusal;

use crate::common::{
    Bench, bind, claim_at, fresh, give_back, key, keyed, lane, lanes, node, reissue,
};

on_both_stores!(
    a_hold_is_found_by_its_key,
    tenants_and_lanes_have_keys_of_their_own,
    a_key_still_finds_a_hold_whose_nonce_was_given_out_again,
    a_key_is_used_once,
    an_unfit_key_is_refused_and_nothing_written,
);

async fn a_hold_is_found_by_its_key(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let keys = [key("shop", "one"), key("shop", "two")];
    let holds = bind(store, keyed(fresh(claim, 0, 3), &keys)).await.unwrap();
    let asked = [key("shop", "two"), key("shop", "three"), key("shop", "one")];
    let found = bench.second().allocated_under(lane(1), &asked).await.unwrap();
    assert_eq!(found, [Some(holds[1].clone()), None, Some(holds[0].clone())]);
    assert!(store.allocated_under(lane(1), &[]).await.unwrap().is_empty());
}

async fn tenants_and_lanes_have_keys_of_their_own(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two, unknown] = lanes();
    let keys = [key("shop", "order 7"), key("bank", "order 7")];
    let mut holds = Vec::new();
    for lane in [one, two] {
        let claim = claim_at(store, &a, lane, 0).await;
        holds.push(bind(store, keyed(fresh(claim, 0, 2), &keys)).await.unwrap());
    }
    for (lane, holds) in [(one, &holds[0]), (two, &holds[1])] {
        let found = store.allocated_under(lane, &keys).await.unwrap();
        assert_eq!(found, [Some(holds[0].clone()), Some(holds[1].clone())]);
    }
    assert_eq!(store.allocated_under(unknown, &keys).await.unwrap(), [None, None]);
}

async fn a_key_still_finds_a_hold_whose_nonce_was_given_out_again(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let (first_key, second_key) = (key("shop", "first"), key("shop", "second"));
    let one = std::slice::from_ref(&first_key);
    let first = bind(store, keyed(fresh(claim, 0, 1), one)).await.unwrap();
    give_back(store, &first[0]).await;
    let two = std::slice::from_ref(&second_key);
    let second = bind(store, keyed(reissue(claim, 1, &first), two)).await.unwrap();

    let found = store.allocated_under(lane(1), &[first_key, second_key]).await.unwrap();
    let old = found[0].as_ref().unwrap();
    assert_eq!((old.id, old.nonce, old.status), (first[0].id, 0, HoldStatus::Released));
    assert_eq!(found[1].as_ref(), Some(&second[0]));
}

async fn a_key_is_used_once(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let keys = [key("shop", "one")];
    bind(store, keyed(fresh(claim, 0, 1), &keys)).await.unwrap();
    let before = bench.raw().await.dump().await;
    let again = bind(store, keyed(fresh(claim, 1, 1), &keys)).await;
    assert!(matches!(again, Err(Refusal::Inconsistent(_))), "{again:?}");
    assert_eq!(bench.raw().await.dump().await, before);
}

async fn an_unfit_key_is_refused_and_nothing_written(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let before = bench.raw().await.dump().await;
    for unfit in [String::new(), "k".repeat(256), "é".repeat(128)] {
        let refused = bind(store, keyed(fresh(claim, 0, 1), &[key("shop", &unfit)])).await;
        assert!(matches!(refused, Err(Refusal::Inconsistent(_))), "{refused:?}");
    }
    assert_eq!(bench.raw().await.dump().await, before);
    let longest = "k".repeat(255);
    bind(store, keyed(fresh(claim, 0, 1), &[key("shop", &longest)])).await.unwrap();
}
