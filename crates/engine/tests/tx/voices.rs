//! One endpoint whose words do not fit what the others say of a transaction.

use std::sync::Mutex;
use std::time::Duration;

use serde_json::json;
use stile_domain::{AttemptKind, SubState, TxId, TxState};
use stile_engine::{Node, Settings, TxSettings};
use testkit::{Anvil, AnvilOptions, RpcProxy};

use crate::common::{Bench, on, on_both_stores};
use crate::lies::MadeUp;
use crate::setup::{chain, send, settings, start, transfer, until};

on_both_stores!(
    hole_25_nonce_too_low_of_one_does_not_hide_that_two_want_more,
    hole_25_what_two_refuse_for_good_is_given_up_although_one_takes_it,
    hole_25_of_two_one_that_is_ahead_gives_nothing_up,
);

const SEND: &str = "eth_sendRawTransaction";

async fn three() -> (Anvil, [RpcProxy; 3]) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..AnvilOptions::default() };
    let anvil = Anvil::start(options).await;
    let proxy = || RpcProxy::start(anvil.url());
    let proxies = [proxy().await, proxy().await, proxy().await];
    (anvil, proxies)
}

async fn start_on(bench: &Bench, proxies: &[RpcProxy]) -> Node {
    let urls: Vec<String> = proxies.iter().map(RpcProxy::url).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let settings = settings(bench, "a");
    let resubmit_after = Some(Duration::from_millis(500));
    let tx = TxSettings { resubmit_after, ..settings.tx };
    start(bench, Settings { tx, ..settings }, &urls).await
}

/// Refuses the first attempt that comes, whenever it comes, and passes all others on.
fn refuse_the_first(proxy: &RpcProxy, words: &'static str) {
    let first = Mutex::new(None);
    proxy.refuse_sends(move |raw| {
        let is_first = first.lock().unwrap().get_or_insert(raw.to_owned()) == raw;
        is_first.then(|| (-32000, words.to_owned()))
    });
}

async fn kinds_of_attempts(node: &Node, id: TxId) -> Vec<AttemptKind> {
    let attempts = node.transactions().attempts(id).await.unwrap();
    attempts.iter().map(|attempt| attempt.kind).collect()
}

/// Fails if a transaction is never raised because one endpoint says that its nonce is used.
async fn hole_25_nonce_too_low_of_one_does_not_hide_that_two_want_more(bench: Bench) {
    let (_anvil, proxies) = three().await;
    for honest in &proxies[..2] {
        refuse_the_first(honest, "transaction underpriced");
    }
    proxies[2].fail(SEND, -32000, "nonce too low");
    let node = start_on(&bench, &proxies).await;
    let tx = send(&node, transfer(0, "one")).await;
    until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send, AttemptKind::Bump]);
    node.shutdown().await;
}

/// Fails if a lane waits for ever behind what one endpoint says it has, and the others never take.
async fn hole_25_what_two_refuse_for_good_is_given_up_although_one_takes_it(bench: Bench) {
    let (_anvil, proxies) = three().await;
    for honest in &proxies[..2] {
        refuse_the_first(honest, "intrinsic gas too low");
    }
    proxies[2].swallow_sends();
    proxies[2]
        .lie("eth_getTransactionByHash", |params, _| Some(json!({ "hash": params[0].clone() })));
    let node = start_on(&bench, &proxies).await;
    let hopeless = send(&node, transfer(0, "hopeless")).await;
    let behind = send(&node, transfer(0, "behind")).await;
    let failed = until(&node, hopeless.id, TxState::Failed).await;
    assert_eq!(failed.standing.sub_state, Some(SubState::Rejected), "{failed:?}");
    let attempts = kinds_of_attempts(&node, hopeless.id).await;
    assert_eq!(attempts, [AttemptKind::Send, AttemptKind::GiveUp]);
    until(&node, behind.id, TxState::Confirmed).await;
    node.shutdown().await;
}

/// Fails if one endpoint of two, by showing a few made-up blocks, is the only one that is asked to
/// take transactions, so that its refusals give them up.
async fn hole_25_of_two_one_that_is_ahead_gives_nothing_up(bench: Bench) {
    let anvil = chain(false).await;
    anvil.mine(5).await;
    let proxies = [RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await];
    let [liar, honest] = &proxies;
    let stranger = json!({
        "hash": format!("0x{}", "5a".repeat(32)),
        "from": "0x00000000000000000000000000000000000000aa",
        "nonce": "0x0",
    });
    MadeUp::on(&anvil, 3, stranger).await.tell(liar);
    liar.refuse_sends(|_| Some((-32000, "intrinsic gas too low".to_owned())));
    let node = start_on(&bench, &proxies).await;
    let tx = send(&node, transfer(0, "one")).await;
    until(&node, tx.id, TxState::Submitted).await;
    testkit::eventually("the liar to have refused it many times", async || {
        assert_eq!(kinds_of_attempts(&node, tx.id).await, [AttemptKind::Send]);
        (liar.count(SEND) > 5).then_some(())
    })
    .await;
    assert!(!honest.sent_raw().is_empty());
    node.shutdown().await;
}
