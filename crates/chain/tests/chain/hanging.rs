//! Chains and endpoints that take connections and never answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::join_all;
use stile_chain::{EstimateError, PoolOptions, TxSigner};
use stile_domain::{Address, Payload};
use testkit::{Anvil, RpcProxy, TcpProxy};
use tokio::net::TcpListener;

use crate::support::*;

const LIMIT: Duration = Duration::from_secs(2);

fn options() -> PoolOptions {
    PoolOptions { answer_timeout: LIMIT, ..PoolOptions::default() }
}

/// Fifty callers of a dead chain wait for one look between them, not for one each.
#[tokio::test]
async fn hole_26_one_look_at_a_hanging_chain_is_shared_by_all_who_wait() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let silent = tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            kept.push(stream);
        }
    });
    let pool = pool_with([url], options());
    let begun = Instant::now();
    let payload = Payload::default();
    let callers = (0..50).map(|_| pool.estimate_gas(Address::ZERO, &payload));
    for answer in join_all(callers).await {
        let error = answer.unwrap_err();
        assert!(matches!(error, EstimateError::Unavailable(_)), "{error:?}");
        let words = error.to_string();
        assert!(words.contains("no answer in 2s to eth_chainId"), "{words}");
    }
    // One after the other it would be a hundred seconds.
    assert!(begun.elapsed() < LIMIT * 5, "{:?}", begun.elapsed());
    assert_eq!(connections.load(Ordering::SeqCst), 1, "one look, one question");
    // What was found a moment ago is believed.
    if begun.elapsed() < LIMIT + Duration::from_millis(500) {
        assert!(pool.estimate_gas(Address::ZERO, &payload).await.is_err());
        assert_eq!(connections.load(Ordering::SeqCst), 1);
    }
    silent.abort();
}

/// A caller that goes away leaves the look to those who still wait.
#[tokio::test]
async fn a_look_goes_on_without_whoever_began_it() {
    let anvil = anvil().await;
    let proxy = TcpProxy::start(address_of(anvil.url())).await;
    proxy.freeze();
    let url = format!("http://{}", proxy.addr());
    let options = PoolOptions { answer_timeout: Duration::from_secs(20), ..options() };
    let pool = pool_with([url], options);
    let mut second = Box::pin(pool.view());
    {
        let mut first = Box::pin(pool.view());
        assert!(futures::poll!(&mut first).is_pending());
        assert!(futures::poll!(&mut second).is_pending());
    }
    proxy.heal().await;
    second.await.unwrap();
}

/// A node that answers everything but estimates.
async fn never_estimates() -> (Anvil, RpcProxy) {
    let anvil = anvil().await;
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.hold("eth_estimateGas");
    (anvil, proxy)
}

/// One endpoint that is slow to estimate does not hold up the estimate: the next is asked.
#[tokio::test]
async fn hole_26_a_slow_endpoint_does_not_hold_up_estimates() {
    let quick = anvil().await;
    let (_anvil, slow) = never_estimates().await;
    let options = PoolOptions { answer_timeout: Duration::from_secs(8), ..options() };
    let pool = pool_with([slow.url(), quick.url().to_owned()], options);
    assert_eq!(pool.view().await.unwrap().endpoint(), shown(&slow.url()));
    let payload = Payload { to: Some(Address::repeat_byte(0x22)), ..Payload::default() };
    for _ in 0..2 {
        let estimate = pool.estimate_gas(signer(KEYS[0]).address(), &payload).await;
        assert_eq!(estimate, Ok(21_000));
    }
    let usable: Vec<bool> = pool.endpoints().iter().map(|endpoint| endpoint.usable).collect();
    assert_eq!(usable, [true, true], "nobody is set aside for one question");
}

/// An estimate that no endpoint answers takes one time limit, and says who did not answer to what.
#[tokio::test]
async fn hole_26_an_estimate_that_nobody_answers_takes_one_limit() {
    let nodes = [never_estimates().await, never_estimates().await, never_estimates().await];
    let pool = pool_with(nodes.iter().map(|(_, proxy)| proxy.url()), options());
    pool.view().await.unwrap();
    let begun = Instant::now();
    let error = pool.estimate_gas(Address::ZERO, &Payload::default()).await.unwrap_err();
    assert!(begun.elapsed() < LIMIT * 2, "{:?}", begun.elapsed());
    for (_, node) in &nodes {
        let words = format!("{}: no answer in 2s to eth_estimateGas", shown(&node.url()));
        assert!(error.to_string().contains(&words), "{error}");
    }
    assert!(pool.is_reachable().await, "the chain itself is there");
}
