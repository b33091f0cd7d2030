//! Counts of transactions that an endpoint hides, or lies about.

use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::{Lane, LaneEventKind, TxState};
use stile_engine::{Node, NonceError, Settings};
use stile_store::LaneView;
use testkit::{Anvil, RpcProxy, eventually, eventually_within};

use crate::common::{Bench, on, on_both_stores};
use crate::lies::{Trio, finding, quantity, shown};
use crate::setup::{LONG, chain, get, lane, mined, send, settings, start, transfer, until};

on_both_stores!(
    hole_20_an_endpoint_that_hides_its_count_does_not_hide_a_restored_copy,
    hole_13_of_two_none_alone_says_where_a_lane_begins,
    hole_13_one_voter_of_three_pauses_nobody,
);

const COUNT: &str = "eth_getTransactionCount";

async fn start_at(bench: &Bench, settings: Settings, proxies: &[RpcProxy]) -> Node {
    let urls: Vec<String> = proxies.iter().map(RpcProxy::url).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    start(bench, settings, &urls).await
}

async fn view(bench: &Bench, lane: Lane) -> LaneView {
    bench.store.lanes(&[lane]).await.unwrap().pop().flatten().unwrap()
}

/// What the lost history has sent: the database knows nothing of it.
async fn sent_before(anvil: &Anvil, lane: Lane, nonces: std::ops::Range<u64>) {
    for nonce in nonces {
        let transaction = json!({
            "from": lane.signer, "to": lane.signer, "value": "0x7", "gas": "0x5208",
            "nonce": quantity(nonce), "maxFeePerGas": "0x2540be40000",
            "maxPriorityFeePerGas": "0x2540be400",
        });
        let hash: Value = anvil.rpc("eth_sendTransaction", json!([transaction])).await;
        assert!(hash.is_string(), "{hash}");
    }
    anvil.mine(1).await;
}

/// A database whose cursor is behind its chain, and a process that starts on it while endpoints
/// hang on one question. Nothing gets a nonce before the question is answered, and two of three
/// answer it.
///
/// Fails if a lane goes on when its count is not known, or if one endpoint that hangs keeps it from
/// being known.
async fn hole_20_an_endpoint_that_hides_its_count_does_not_hide_a_restored_copy(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_at(&bench, settings(&bench, "a"), &trio.proxies).await;
    let known = send(&node, transfer(0, "known")).await;
    until(&node, known.id, TxState::Submitted).await;
    trio.anvil.mine(2).await;
    until(&node, known.id, TxState::Confirmed).await;
    node.shutdown().await;
    sent_before(&trio.anvil, lane(0), 1..4).await;

    trio.proxies.iter().for_each(|proxy| proxy.hold(COUNT));
    let node = start_at(&bench, settings(&bench, "a"), &trio.proxies).await;
    let waits = send(&node, transfer(0, "waits")).await;
    let words = eventually_within(LONG, "the doctor to say that it waits", async || {
        Some(finding(&node, "not-compared").await?.words)
    })
    .await;
    assert!(words.contains("no answer"), "{words}");
    let refused = node.nonces().allocate(lane(0)).await.unwrap_err();
    assert!(matches!(refused, NonceError::Uncompared { .. }), "{refused}");
    let stands = get(&node, waits.id).await;
    assert_eq!((stands.standing.state, stands.nonce), (TxState::Created, None));

    trio.proxies[0].release();
    trio.proxies[2].release();
    eventually_within(LONG, "the lane to be realigned", async || {
        let history = bench.store.lane_history(lane(0), None, 100).await.unwrap();
        history.iter().any(|event| event.kind == LaneEventKind::Realigned).then_some(())
    })
    .await;
    let lane_view = view(&bench, lane(0)).await;
    assert_eq!(lane_view.next_nonce, Some(4));
    assert!(lane_view.restored.is_some_and(|mark| mark.is_open()), "{lane_view:?}");
    let stands = get(&node, waits.id).await;
    assert_eq!((stands.standing.state, stands.nonce), (TxState::Created, None));
    trio.proxies[1].release();
    node.shutdown().await;
}

/// Fails if the higher of two counts is believed: the lane's nonces would begin there for ever.
async fn hole_13_of_two_none_alone_says_where_a_lane_begins(bench: Bench) {
    let anvil = chain(true).await;
    let proxies = [RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await];
    proxies[0].lie(COUNT, |_, _| Some(json!("0xf4240")));
    let node = start_at(&bench, settings(&bench, "a"), &proxies).await;
    let waits = send(&node, transfer(0, "first")).await;
    let refused = node.nonces().allocate(lane(0)).await.unwrap_err();
    assert!(matches!(refused, NonceError::ChainUnavailable { .. }), "{refused}");
    let words = refused.to_string();
    for proxy in &proxies {
        assert!(words.contains(&shown(proxy)), "{words}");
    }
    assert_eq!(get(&node, waits.id).await.nonce, None);
    proxies[0].heal().await;
    assert_eq!(mined(&node, waits.id).await.nonce, Some(0));
    node.shutdown().await;
}

/// Fails if most of those that answer are enough where that is one.
async fn hole_13_one_voter_of_three_pauses_nobody(bench: Bench) {
    let trio = Trio::start().await;
    let quick = Settings { state_timeout: Duration::from_secs(1), ..settings(&bench, "a") };
    let node = start_at(&bench, quick, &trio.proxies).await;
    let tx = send(&node, transfer(0, "one")).await;
    until(&node, tx.id, TxState::Submitted).await;
    trio.anvil.mine(2).await;
    until(&node, tx.id, TxState::Confirmed).await;
    trio.liar().lie(COUNT, |_, _| Some(json!("0xf4240")));
    for honest in &trio.proxies[1..] {
        honest.refuse().await;
    }
    trio.liar().reset();
    eventually_within(LONG, "several comparisons", async || {
        (trio.liar().count(COUNT) > 12).then_some(())
    })
    .await;
    let stands = view(&bench, lane(0)).await;
    assert_eq!((stands.paused, stands.next_nonce), (None, Some(1)));
    // The others are back: the lane goes on.
    for honest in &trio.proxies[1..] {
        honest.heal().await;
    }
    let next = send(&node, transfer(0, "two")).await;
    let next = until(&node, next.id, TxState::Submitted).await;
    assert_eq!(next.nonce, Some(1));
    eventually("it to be known", async || {
        (trio.anvil.rpc(COUNT, json!([lane(0).signer, "pending"])).await == json!("0x2"))
            .then_some(())
    })
    .await;
    node.shutdown().await;
}
