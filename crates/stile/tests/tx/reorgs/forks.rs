//! Two endpoints on different forks.

use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::support::{Backend, id, transfer};

/// Two chains with the same first block.
async fn twins() -> [Anvil; 2] {
    let options = AnvilOptions {
        no_mining: true,
        arguments: vec!["--timestamp=1700000000".to_owned()],
        ..Default::default()
    };
    let (first, second) = tokio::join!(Anvil::start(options.clone()), Anvil::start(options));
    assert_eq!(first.block(0).await, second.block(0).await, "they begin alike");
    [first, second]
}

/// However many blocks each of them has on top. When one of them is gone, the other's word counts.
///
/// Fails if one endpoint's word is enough where there are two, or if blocks of one are mixed with
/// receipts of the other.
async fn until_one_goes(backend: Backend, gone: usize) {
    let [first, second] = twins().await;
    let proxies = [RpcProxy::start(first.url()).await, RpcProxy::start(second.url()).await];
    let options = backend.node(&proxies[0].url()).endpoint(&proxies[1].url());
    let node = options.development_keys(1).start().await;
    let signer = first.accounts().await.remove(0);
    let tx = node.send_new(&transfer(&signer, 1)).await;
    for chain in [&first, &second] {
        eventually("it to be in both pools", async || {
            (chain.nonce(&signer, "pending").await == 1).then_some(())
        })
        .await;
    }
    // The same transaction in another block on each side.
    second.rpc("anvil_setCoinbase", serde_json::json!([signer])).await;
    for _ in 0..5 {
        first.mine(1).await;
        second.mine(1).await;
    }
    let own = async |chain: &Anvil| chain.block(1).await.expect("a block")["hash"].clone();
    assert_ne!(own(&first).await, own(&second).await);

    node.reaches(id(&tx), "TRACKING").await;
    let disputed = async || node.metric("stile_confirmations_disputed_total").await;
    for _ in 0..3 {
        let before = disputed().await;
        first.mine(1).await;
        second.mine(1).await;
        eventually("it to be looked at and left alone", async || {
            (disputed().await > before).then_some(())
        })
        .await;
        assert_eq!(node.tx(id(&tx)).await["state"], "TRACKING");
    }
    let history = node.history(id(&tx)).await;
    assert!(history.iter().all(|event| event["state"] != "CONFIRMED"), "{history:#?}");

    // One of them goes away: nobody contradicts the other any more.
    proxies[gone].refuse().await;
    let left = [&second, &first][gone];
    left.mine(1).await;
    let tx = node.reaches(id(&tx), "CONFIRMED").await;
    assert_eq!(tx["receipt"]["blockHash"], own(left).await);
}

async fn hole_17_endpoints_that_disagree_confirm_nothing(backend: Backend) {
    until_one_goes(backend, 1).await;
}

async fn hole_17_the_fork_of_the_endpoint_that_is_left_counts(backend: Backend) {
    until_one_goes(backend, 0).await;
}

on_both_stores!(
    hole_17_endpoints_that_disagree_confirm_nothing,
    hole_17_the_fork_of_the_endpoint_that_is_left_counts,
);
