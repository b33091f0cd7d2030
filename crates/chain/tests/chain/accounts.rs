//! What accounts have done and have.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use stile_chain::{At, BlockTag, PoolOptions, TxSigner};
use stile_domain::{Address, Bytes, Counted, U256};
use testkit::RpcProxy;

use crate::support::*;

#[tokio::test]
async fn many_accounts_are_counted_at_once_at_any_height() {
    let anvil = quiet_anvil().await;
    let options = PoolOptions { batch_limit: 2, ..PoolOptions::default() };
    let pool = pool_with([anvil.url()], options);
    let raw: Vec<Bytes> = (0..3).map(|nonce| signed(nonce).raw).collect();
    pool.send_raw(&raw[..2]).await;
    anvil.mine(1).await;
    pool.send_raw(&raw[2..]).await;
    let (first, second) = (signer(KEYS[0]).address(), signer(KEYS[1]).address());
    let accounts = [second, first, Address::repeat_byte(0x22), first, second];
    for (at, count) in [(At::Latest, 2), (At::Pending, 3), (At::Height(0), 0), (At::Height(1), 2)] {
        assert_eq!(pool.counts(&accounts, at).await.unwrap(), [0, count, 0, count, 0], "{at:?}");
    }
    assert!(pool.counts(&accounts, At::Height(9)).await.is_err(), "there is no such block");
    anvil.mine(2).await;
    let view = pool.view().await.unwrap();
    assert_eq!(view.counts_at(first, &[0, 3, 1, 2, 0]).await.unwrap(), [0, 3, 2, 3, 0]);
    assert_eq!(view.counts_at(second, &[3]).await.unwrap(), [0]);
    assert!(view.counts_at(first, &[0, 9]).await.is_err());
}

#[tokio::test]
async fn many_accounts_are_asked_what_they_have() {
    let anvil = quiet_anvil().await;
    let pool = pool_with([anvil.url()], PoolOptions { batch_limit: 2, ..Default::default() });
    pool.send_raw(&[signed(0).raw]).await;
    anvil.mine(1).await;
    let rich = signer(KEYS[1]).address();
    let accounts = [Address::repeat_byte(0x22), rich, signer(POOR_KEY).address()];
    let told = anvil.rpc("eth_getBalance", json!([rich, "latest"])).await;
    let told: U256 = told.as_str().unwrap().parse().unwrap();
    assert!(!told.is_zero());
    assert_eq!(pool.balances(&accounts).await.unwrap(), [U256::from(1), told, U256::ZERO]);
}

/// A cursor moves by it, and never back: one endpoint that says too much or too little is not
/// believed alone.
#[tokio::test]
async fn hole_23_the_count_of_mined_transactions_is_what_a_quorum_says() {
    let cases: [(&[Option<u64>], Option<u64>); 9] = [
        (&[Some(5), Some(5), Some(1_000_000)], Some(5)),
        (&[Some(1_000_000), Some(5), Some(5)], Some(5)),
        (&[Some(0), Some(5), Some(5)], Some(5)),
        (&[None, Some(5), Some(5)], Some(5)),
        // Who is right cannot be told.
        (&[None, Some(5), Some(2)], None),
        (&[None, None, Some(5)], None),
        (&[Some(5), Some(1_000_000)], None),
        (&[Some(1_000_000), Some(5)], None),
        (&[Some(5), None], Some(5)),
    ];
    for (told, agreed) in cases {
        let mut nodes = Vec::new();
        for count in told.iter().copied() {
            let node = Fake::start(move |method, _| match (method, count) {
                ("eth_getTransactionCount", Some(count)) => Ok(json!(format!("{count:#x}"))),
                _ => look(method, 5).ok_or_else(not_found),
            });
            nodes.push(node.await);
        }
        let pool = pool(nodes.iter().map(|node| node.url()));
        let counted = pool.transaction_count(Address::ZERO, BlockTag::Latest).await;
        assert_eq!(counted.ok(), agreed, "{told:?}");
    }
}

/// Two that are apart may be honest ones, a block apart: what is certain is told as bounds, and they
/// are asked again.
#[tokio::test]
async fn hole_13_endpoints_that_are_apart_are_asked_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let asked_by_node = Arc::clone(&asked);
    let late = Fake::start(move |method, _| match method {
        "eth_getTransactionCount" => {
            let behind = asked_by_node.fetch_add(1, Ordering::Relaxed) < 2;
            Ok(json!(if behind { "0x5" } else { "0x6" }))
        }
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let newest = Fake::start(|method, _| match method {
        "eth_getTransactionCount" => Ok(json!("0x6")),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([late.url(), newest.url()]);
    let bounds = pool.counted(Address::ZERO).await;
    assert_eq!(bounds, Ok(Counted { at_least: 5, at_most: 6 }));
    assert_eq!(pool.transaction_count(Address::ZERO, BlockTag::Latest).await, Ok(6));
    assert_eq!(asked.load(Ordering::Relaxed), 3);
}

#[tokio::test]
async fn hole_13_endpoints_that_stay_apart_are_named() {
    let mut nodes = Vec::new();
    for count in ["0x5", "0xf4240"] {
        let node = Fake::start(move |method, _| match method {
            "eth_getTransactionCount" => Ok(json!(count)),
            _ => look(method, 5).ok_or_else(not_found),
        });
        nodes.push(node.await);
    }
    let pool = pool(nodes.iter().map(Fake::url));
    let error = pool.transaction_count(Address::ZERO, BlockTag::Latest).await.unwrap_err();
    let words = error.to_string();
    for (node, count) in nodes.iter().zip([5, 1_000_000]) {
        assert!(words.contains(&format!("{}: has {count}", shown(node.url()))), "{words}");
    }
}

/// What two of three say is not changed by the third, so nobody waits for it.
#[tokio::test]
async fn hole_20_one_endpoint_that_hangs_does_not_keep_the_others_from_counting() {
    let anvil = quiet_anvil().await;
    let proxies = [
        RpcProxy::start(anvil.url()).await,
        RpcProxy::start(anvil.url()).await,
        RpcProxy::start(anvil.url()).await,
    ];
    let patient = PoolOptions { answer_timeout: Duration::from_secs(3600), ..Default::default() };
    let pool = pool_with(proxies.iter().map(RpcProxy::url), patient);
    pool.view().await.unwrap();
    proxies[1].hold("eth_getTransactionCount");
    let counted = pool.transaction_count(Address::ZERO, BlockTag::Latest);
    let counted = tokio::time::timeout(Duration::from_secs(60), counted).await;
    assert_eq!(counted.expect("the third is not waited for"), Ok(0));
    assert_eq!(proxies[1].count("eth_getTransactionCount"), 1, "it was asked");
    proxies[1].release();
}

/// One endpoint answers for all, or another is asked for all.
#[tokio::test]
async fn answers_of_different_endpoints_are_not_mixed() {
    let asked = Arc::new(AtomicUsize::new(0));
    let asked_by_node = Arc::clone(&asked);
    let halfway = Fake::start(move |method, _| match method {
        "eth_getTransactionCount" | "eth_getBalance" => {
            match asked_by_node.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => Ok(json!("0x7")),
                _ => Err(json!({ "code": -32000, "message": "missing trie node" })),
            }
        }
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let whole = Fake::start(|method, _| match method {
        "eth_getTransactionCount" | "eth_getBalance" => Ok(json!("0x1")),
        _ => look(method, 5).ok_or_else(not_found),
    })
    .await;
    let pool = pool([halfway.url(), whole.url()]);
    let accounts = [Address::ZERO, Address::repeat_byte(1)];
    assert_eq!(pool.counts(&accounts, At::Latest).await.unwrap(), [1, 1]);
    assert_eq!(pool.balances(&accounts).await.unwrap(), [U256::from(1); 2]);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
}

#[tokio::test]
async fn absurd_counts_and_balances_are_errors() {
    let huge = format!("0x1{}", "0".repeat(64));
    for answer in [json!(huge), json!("-1"), json!(null), json!({}), json!("0xg")] {
        let told = answer.clone();
        let node = Fake::start(move |method, _| match method {
            "eth_getTransactionCount" | "eth_getBalance" => Ok(told.clone()),
            _ => look(method, 5).ok_or_else(not_found),
        })
        .await;
        let pool = pool([node.url()]);
        assert!(pool.counts(&[Address::ZERO], At::Latest).await.is_err(), "{answer}");
        assert!(pool.balances(&[Address::ZERO]).await.is_err(), "{answer}");
        let view = pool.view().await.unwrap();
        assert!(view.counts_at(Address::ZERO, &[1]).await.is_err(), "{answer}");
    }
}

/// Row 20: a node in trouble may have something in its pool, and only one without the tag says that it counts
/// none.
#[tokio::test]
async fn hole_20_an_error_is_no_word_about_a_pool() {
    for (pending, is_word) in [
        (Ok(json!("0x7")), true),
        (Err(json!({ "code": -32602, "message": "unknown block tag pending" })), true),
        (Err(json!({ "code": -32603, "message": "Internal error" })), false),
        (Err(json!({ "code": -32000, "message": "missing trie node" })), false),
        (Ok(json!({})), false),
        (Ok(json!(null)), false),
    ] {
        let told = pending.clone();
        let node = Fake::start(move |method, params| match (method, params[1].as_str()) {
            ("eth_getTransactionCount", Some("pending")) => told.clone(),
            ("eth_getTransactionCount", _) => Ok(json!("0x5")),
            _ => look(method, 5).ok_or_else(not_found),
        })
        .await;
        let pool = pool([node.url()]);
        let told = pool.pools(Address::ZERO, 9, Duration::from_secs(10)).await.unwrap();
        assert_eq!(told.all.len(), usize::from(is_word), "{pending:?}");
        assert_eq!(told.silent.is_empty(), is_word, "{pending:?}");
    }
}
