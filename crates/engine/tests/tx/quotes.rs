//! What endpoints say that their chain asks for.

use serde_json::json;
use stile_domain::{AttemptKind, TxState};
use testkit::{RpcProxy, eventually};

use crate::common::{Bench, QUEUE};
use crate::setup::{chain, mined, send, settings, start, transfer, until};

const GWEI: u64 = 1_000_000_000;

/// Fails if one of two endpoints, which quotes next to nothing, has honest prices refused on a chain that
/// is dearer than the least limit, or has them cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_42_one_low_quote_of_two_keeps_no_honest_price_out() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(true).await;
    anvil.set_next_base_fee(150 * GWEI).await;
    anvil.mine(1).await;
    let (low, honest) = (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    low.lie("eth_feeHistory", |_, result| {
        let mut result = result.clone();
        result["baseFeePerGas"] = json!(["0x1", "0x1"]);
        result["reward"] = json!([["0x1"]]);
        Some(result)
    });
    let urls = [low.url(), honest.url()];
    let node = start(&bench, settings(&bench, "a"), &urls.each_ref().map(String::as_str)).await;
    let mut request = transfer(0, "dear");
    request.payload.gas_price = Some(u128::from(200 * GWEI));
    let tx = send(&node, request).await;
    mined(&node, tx.id).await;
    node.shutdown().await;
}

/// Nobody has said for long what the chain asks for, and no block comes by which it would be asked. The
/// cancellation has to offer more than is allowed without that.
///
/// Fails if nobody asks: then it is looked at for ever, and never made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_42_a_cancellation_has_the_chain_asked_what_it_asks_for() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    anvil.set_next_base_fee(60 * GWEI).await;
    anvil.mine(1).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let absurd = json!({ "baseFeePerGas": [format!("0x{}", "f".repeat(64))] });
    proxy.lie("eth_feeHistory", move |_, _| Some(absurd.clone()));
    let node = start(&bench, settings(&bench, "a"), &[&proxy.url()]).await;
    let mut request = transfer(0, "stated");
    request.payload.gas_price = Some(u128::from(95 * GWEI));
    let tx = send(&node, request).await;
    until(&node, tx.id, TxState::Submitted).await;
    node.transactions().cancel(tx.id).await.unwrap();
    proxy.heal().await;
    eventually("the empty transaction", async || {
        let newest = node.transactions().attempts(tx.id).await.unwrap().pop()?;
        (newest.kind == AttemptKind::Cancel).then_some(())
    })
    .await;
    node.shutdown().await;
}
