//! What a node does with a lease it can no longer be sure of.

use std::sync::Arc;

use stile_engine::{Node, NonceError, Settings};
use testkit::eventually;

use crate::common::{
    Bench, Chain, LANE, accounted, in_clusters, lane, lease, lease_without_renewal, on,
    once_reachable, view,
};

in_clusters!(
    a_node_cut_off_from_its_database_gives_out_nothing,
    a_lease_that_ran_out_is_asked_for_before_anything_is_planned,
    hole_36_nothing_holds_up_renewals,
);

/// What looks for expired lanes hangs, and so does what asks for a lane whose token was raised: both
/// were done by whoever renews once. Fails if either is again.
async fn hole_36_nothing_holds_up_renewals(bench: Bench) {
    let settings = Settings { lease: lease(1000), ..bench.settings("a") };
    let (a, spy) = bench.start_spied(settings).await;
    let b = bench.start_with(
        Settings { lease: lease(1000), ..bench.settings("b") },
        Arc::new(Chain::default()),
    );
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    let renewed = async |times: usize| {
        let before = spy.calls("renew");
        eventually("the lease to be renewed", async || {
            (spy.calls("renew") >= before + times).then_some(())
        })
        .await;
    };
    spy.takeovers.close();
    renewed(8).await;

    spy.acquires.close();
    let no_data = serde_json::json!({});
    bench.store.pause(a.id(), lane(LANE), "a token is raised", &no_data).await.unwrap();
    eventually("the lane to be asked for", async || (spy.calls("acquire") > 1).then_some(())).await;
    renewed(8).await;

    // Paused by somebody else, a lane has no lease that could be renewed under the old token.
    spy.acquires.open();
    spy.takeovers.open();
    bench.store.resume(a.id(), lane(LANE), None, &no_data).await.unwrap();
    let b = b.await;
    let second = eventually("the lane to be at work again", async || {
        a.nonces().allocate(lane(LANE)).await.ok()
    })
    .await;
    assert_eq!(view(&*bench.store, lane(LANE)).await.owner.node.0, "a");
    accounted(&*bench.store, lane(LANE), 0, &[first, second]).await;
    b.shutdown().await;
}

async fn a_node_cut_off_from_its_database_gives_out_nothing(bench: Bench) {
    let (proxy, store) = bench.database.open_proxied().await;
    let settings = |node| Settings { lease: lease(1000), ..bench.settings(node) };
    let a = Node::start(settings("a"), store, Arc::new(Chain::default())).await.unwrap();
    let b = bench.start_with(settings("b"), Arc::new(Chain::default())).await;
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    proxy.cut().await;
    // From the first moment, while the lease still runs, to long after it.
    let second = eventually("the other node to be given a nonce", async || {
        let cut_off = a.nonces().allocate(lane(LANE)).await;
        assert!(matches!(cut_off, Err(NonceError::StoreUnavailable(_))), "{cut_off:?}");
        b.nonces().allocate(lane(LANE)).await.ok()
    })
    .await;
    assert_eq!(second.nonce, 1);
    proxy.heal().await;
    let refused = once_reachable(&a, lane(LANE)).await.unwrap_err();
    let NonceError::NotHolder { owner, .. } = refused else { panic!("{refused}") };
    assert_eq!(owner.node.0, "b");
    assert_eq!(view(&*bench.store, lane(LANE)).await.owner.node.0, "b");
    accounted(&*bench.store, lane(LANE), 0, &[first, second]).await;
}

async fn a_lease_that_ran_out_is_asked_for_before_anything_is_planned(bench: Bench) {
    let settings = Settings { lease: lease_without_renewal(1000), ..bench.settings("a") };
    let (a, spy) = bench.start_spied(settings).await;
    let b = bench.start("b").await;
    let first = a.nonces().allocate(lane(LANE)).await.unwrap();
    let second =
        eventually("the lease to run out", async || b.nonces().allocate(lane(LANE)).await.ok())
            .await;
    let binds = spy.bind_sizes().len();
    let refused = a.nonces().allocate(lane(LANE)).await;
    assert!(matches!(refused, Err(NonceError::NotHolder { .. })), "{refused:?}");
    assert_eq!(spy.bind_sizes().len(), binds, "a plan under a lease that had run out");
    accounted(&*bench.store, lane(LANE), 0, &[first, second]).await;
}
