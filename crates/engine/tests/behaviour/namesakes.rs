//! Two processes under one node id.

use stile_engine::{NonceError, Settings};
use testkit::eventually;

use crate::common::{Bench, LANE, accounted, in_every_setup, lane, lease, on, view};

in_every_setup!(
    a_new_process_takes_its_predecessors_lanes_at_start,
    a_robbed_process_does_not_take_its_lanes_back,
);

async fn a_new_process_takes_its_predecessors_lanes_at_start(bench: Bench) {
    let first = bench.start("twin").await;
    let hold = first.nonces().allocate(lane(LANE)).await.unwrap();
    let before = view(&*bench.store, lane(LANE)).await.owner;
    let second = bench.start("twin").await;
    let after = view(&*bench.store, lane(LANE)).await.owner;
    assert_ne!(after.incarnation, before.incarnation);
    assert!(after.token > before.token);
    let next = second.nonces().allocate(lane(LANE)).await.unwrap();
    accounted(&*bench.store, lane(LANE), 0, &[hold, next]).await;
}

async fn a_robbed_process_does_not_take_its_lanes_back(bench: Bench) {
    let settings = || Settings { lease: lease(4000), ..bench.settings("twin") };
    let (robbed, spy) = bench.start_spied(settings()).await;
    let mut holds = vec![robbed.nonces().allocate(lane(LANE)).await.unwrap()];
    let (robber, _) = bench.start_spied(settings()).await;
    let owner = view(&*bench.store, lane(LANE)).await.owner;

    // It may not know yet, or know already; it gives out nothing either way.
    let refused = robbed.nonces().allocate(lane(LANE)).await.unwrap_err();
    let (NonceError::Fenced { owner: named, .. } | NonceError::NotHolder { owner: named, .. }) =
        refused
    else {
        panic!("{refused}")
    };
    assert_eq!((&named.node, named.incarnation), (&owner.node, owner.incarnation));

    // It looks for expired lanes again and again, and is asked for nonces all the while.
    let looked = spy.calls("take_expired");
    eventually("the robbed process to look for lanes", async || {
        let refused = robbed.nonces().allocate(lane(LANE)).await;
        assert!(matches!(refused, Err(NonceError::NotHolder { .. })), "{refused:?}");
        (spy.calls("take_expired") >= looked + 2).then_some(())
    })
    .await;
    let now = view(&*bench.store, lane(LANE)).await.owner;
    assert_eq!((now.incarnation, now.token), (owner.incarnation, owner.token));
    holds.push(robber.nonces().allocate(lane(LANE)).await.unwrap());
    accounted(&*bench.store, lane(LANE), 0, &holds).await;

    // Once the lane is given back, it may have it like anybody else. Where calls queue, it believes
    // for a moment what it was told of whose the lane is.
    robber.shutdown().await;
    let got = eventually("the lane to be known to be free", async || {
        robbed.nonces().allocate(lane(LANE)).await.ok()
    });
    holds.push(got.await);
    accounted(&*bench.store, lane(LANE), 0, &holds).await;
}
