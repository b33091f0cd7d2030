//! Endpoints that are slow to vote, where the others have decided.

use std::time::Duration;

use stile_chain::PoolOptions;
use stile_domain::{Header, HeaderWindow};
use testkit::{Anvil, RpcProxy};

use crate::support::*;

/// Longer than any test: whoever waits for it does not come back.
const FOR_EVER: Duration = Duration::from_secs(3600);

fn patient(answer_timeout: Duration) -> PoolOptions {
    PoolOptions { answer_timeout, ..PoolOptions::default() }
}

/// A chain with a transaction in its newest block, and so many endpoints.
async fn voters<const N: usize>() -> (Anvil, [RpcProxy; N]) {
    let anvil = anvil().await;
    let sent = pool([anvil.url()]).send_raw(&[signed(0).raw]).await;
    assert_eq!(sent.len(), 1);
    let mut proxies = Vec::new();
    for _ in 0..N {
        proxies.push(RpcProxy::start(anvil.url()).await);
    }
    (anvil, proxies.try_into().unwrap())
}

#[tokio::test]
async fn hole_23_nobody_waits_for_the_slowest_where_the_others_have_decided() {
    let (anvil, proxies) = voters::<3>().await;
    testkit::eventually("the block", async || (anvil.height().await > 0).then_some(())).await;
    let pool = pool_with(proxies.iter().map(RpcProxy::url), patient(FOR_EVER));
    let head = *pool.view().await.unwrap().head();
    for method in ["eth_getTransactionReceipt", "eth_getBlockReceipts", "eth_getBlockByNumber"] {
        proxies[2].hold(method);
    }
    let hash = signed(0).hash;
    let votes = async {
        let ballots = pool.ballots(&[head.height], true).await.hashes(head.height);
        assert_eq!(ballots, [Some(head.hash), Some(head.hash), None]);
        for wanted in [vec![hash], vec![hash, head.hash]] {
            let receipts = pool.receipts_by_each(&head, &wanted, &[true; 3]).await;
            let found: Vec<usize> = receipts.iter().map(Vec::len).collect();
            assert_eq!(found, [1, 1, 0]);
        }
        let heads = pool.heads(head.height, &HeaderWindow::new(1, [head]), true).await;
        assert_eq!(heads.latest, head.height);
    };
    tokio::time::timeout(testkit::DEADLINE, votes).await.expect("votes, not waits");
    // The one that is followed is waited for: what it says decides about following it.
    proxies[0].hold("eth_getBlockByNumber");
    let heights = [head.height];
    let ballots = pool.ballots(&heights, false);
    tokio::pin!(ballots);
    assert!(tokio::time::timeout(Duration::from_secs(2), &mut ballots).await.is_err());
    proxies[0].release();
    assert_eq!(ballots.await.hashes(head.height)[0], Some(head.hash));
}

/// One of two can always contradict, so it is waited for; once.
#[tokio::test]
async fn hole_23_whoever_has_just_not_answered_is_not_asked_about_the_next_block() {
    let (_anvil, proxies) = voters::<2>().await;
    let pool = pool_with(proxies.iter().map(RpcProxy::url), patient(Duration::from_secs(1)));
    let head: Header = *pool.view().await.unwrap().head();
    proxies[1].hold("eth_getTransactionReceipt");
    for _ in 0..5 {
        pool.receipts_by_each(&head, &[signed(0).hash], &[true; 2]).await;
    }
    assert_eq!(proxies[0].count("eth_getTransactionReceipt"), 5);
    assert_eq!(proxies[1].count("eth_getTransactionReceipt"), 1);
}
