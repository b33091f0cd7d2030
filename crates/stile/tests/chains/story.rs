//! The steps of the story. Each answers with what came of it, and fails if that is not as it has to
//! be.

use std::time::Instant;

use serde_json::json;
use testkit::{Anvil, DevNode, Signal, eventually_within};

use crate::common::run;
use crate::page::Row;
use crate::stage::{LONG, Stage};
use crate::support::{SINK, text};

/// Who sends what. The accounts are apart, so that no step waits for another one's.
const ONE: &[usize] = &[0];
const THREE: &[usize] = &[1, 2, 3];
const CONTRACTS: usize = 4;
const RESET: usize = 5;

/// Transactions that are under way when something is killed.
const UNDER_WAY: u64 = 100;

fn seconds(since: Instant) -> String {
    format!("{:.0} s", since.elapsed().as_secs_f64().ceil())
}

/// So many transfers of one signer, and what they cost in calls.
pub(crate) async fn one_signer(stage: &mut Stage, row: &mut Row, count: u64) {
    let few = calls(stage, 10).await;
    let began = Instant::now();
    let many = calls(stage, count).await;
    row.add("one signer", format!("each once ({count} in {})", seconds(began)));
    let by_block = stage.answers("eth_getBlockReceipts", json!(["latest"])).await;
    let how = if by_block { "by block" } else { "by transaction" };
    row.add(
        "receipts",
        format!(
            "{how} (with 10 and {count}: {} and {} calls of eth_getBlockReceipts, {} and {} of \
             eth_getTransactionReceipt; {} and {} calls a block in {} and {} requests)",
            few.by_block,
            many.by_block,
            few.one_by_one,
            many.one_by_one,
            few.calls,
            many.calls,
            few.requests,
            many.requests
        ),
    );
}

struct Calls {
    /// Calls a block, but for what sends.
    calls: u64,
    /// Requests a block; a batch is one.
    requests: u64,
    /// Receipts of whole blocks, in all.
    by_block: u64,
    /// Receipts of single transactions, in all.
    one_by_one: u64,
}

async fn calls(stage: &mut Stage, count: u64) -> Calls {
    stage.proxy.reset();
    let before = stage.node.height().await;
    stage.hand_over(count, ONE).await;
    stage.all_done(ONE).await;
    let blocks = (stage.node.height().await - before).max(1);
    let seen = stage.proxy.calls();
    stage.each_once(ONE).await;
    let asked = || seen.iter().filter(|call| call.method != "eth_sendRawTransaction");
    let requests: f64 = asked().map(|call| 1.0 / call.batch as f64).sum();
    Calls {
        calls: asked().count() as u64 / blocks,
        requests: requests.round() as u64 / blocks,
        by_block: stage.proxy.count("eth_getBlockReceipts"),
        one_by_one: stage.proxy.count("eth_getTransactionReceipt"),
    }
}

/// What nobody can know is told as that.
pub(crate) async fn outcomes_are_unknown(stage: &Stage) {
    for account in ONE {
        for tx in stage.stile.txs(DevNode::address(*account)).await {
            assert_eq!(tx["outcome"], "unknown", "{tx:#}");
        }
    }
}

/// So many transfers, dealt out to three signers.
pub(crate) async fn three_signers(stage: &mut Stage, row: &mut Row, count: u64) {
    let began = Instant::now();
    stage.hand_over(count, THREE).await;
    stage.all_done(THREE).await;
    stage.each_once(THREE).await;
    row.add("three signers", format!("each once ({count} in {})", seconds(began)));
}

/// A contract is made, called, called so that it reverts, and called with too little gas.
pub(crate) async fn contracts(stage: &mut Stage, row: &mut Row, large: usize) {
    let began = Instant::now();
    let made = stage.done(CONTRACTS, json!({ "data": Anvil::contract_creation() })).await;
    assert_eq!(made["outcome"], "success", "{made:#}");
    let contract = text(&made["receipt"]["contractAddress"]).to_owned();
    let call = |number: u64| json!({ "to": contract, "data": Anvil::contract_call(number) });
    let stored = stage.done(CONTRACTS, call(42)).await;
    assert_eq!(stored["outcome"], "success", "{stored:#}");
    assert_eq!(stage.node.contract_value(&contract).await.to_string(), "42");
    row.add("creation and call", format!("success ({})", seconds(began)));

    let began = Instant::now();
    let with_gas = |number: u64, gas: &str| {
        let mut payload = call(number);
        payload["gasLimit"] = json!(gas);
        payload
    };
    let reverted = stage.done(CONTRACTS, with_gas(0, "100000")).await;
    assert_eq!(reverted["outcome"], "reverted", "{reverted:#}");
    let body = json!({ "signer": DevNode::address(CONTRACTS), "payload": call(0) });
    let refused = stage.stile.send(&body).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    let code = refused.problem();
    row.add(
        "a call that reverts",
        format!("with a gas limit: reverted; without: 422 {code} ({})", seconds(began)),
    );

    // Any data but the word that the contract looks at, to nobody.
    let began = Instant::now();
    let data = format!("0x{}", "ab".repeat(large));
    let carried = stage.done(CONTRACTS, json!({ "to": SINK, "data": data })).await;
    assert_eq!(carried["outcome"], "success", "{carried:#}");
    row.add("large data", format!("{} kB: success ({})", large / 1000, seconds(began)));

    // Enough to begin with, and too little to store a number.
    let began = Instant::now();
    let out_of_gas = stage.done(CONTRACTS, with_gas(43, "25000")).await;
    assert_eq!(out_of_gas["outcome"], "reverted", "{out_of_gas:#}");
    assert_eq!(stage.node.contract_value(&contract).await.to_string(), "42");
    stage.each_once(&[CONTRACTS]).await;
    row.add("out of gas", format!("reverted ({})", seconds(began)));
}

/// What `stile chain check` says about the node, kept beside the tables.
pub(crate) async fn check(stage: &Stage, name: &str) {
    let said = run(&["chain", "check", &stage.node.url()]).await;
    let text = format!("{}{}", said.stdout, said.stderr);
    assert_eq!(said.code, Some(0), "{name}: {text}");
    crate::page::keep_text(&format!("check-{name}.txt"), &text);
}

/// Waits until some of what was handed over has been sent, so that what is killed is killed in the
/// middle of it.
async fn some_are_sent(stage: &Stage) {
    eventually_within(LONG, "some to be sent", async || {
        (!stage.proxy.sent_raw().is_empty()).then_some(())
    })
    .await;
}

/// Stile is killed in the middle, and started again.
pub(crate) async fn stile_is_killed(stage: &mut Stage, row: &mut Row) {
    let began = Instant::now();
    stage.proxy.reset();
    stage.hand_over(UNDER_WAY, THREE).await;
    some_are_sent(stage).await;
    stage.restart_stile().await;
    stage.all_done(THREE).await;
    stage.each_once(THREE).await;
    row.add("Stile killed", format!("each once ({UNDER_WAY} in {})", seconds(began)));
}

/// The chain is killed in the middle and started again with its data; where a program keeps none,
/// it is frozen instead.
pub(crate) async fn chain_is_killed(stage: &mut Stage, row: &mut Row) {
    let began = Instant::now();
    stage.proxy.reset();
    stage.hand_over(UNDER_WAY, THREE).await;
    some_are_sent(stage).await;
    let keeps_data = stage.node.kind().keeps_data();
    match keeps_data {
        true => stage.node.kill().await,
        false => stage.node.process().signal(Signal::Stop),
    }
    eventually_within(LONG, "the doctor to say that nothing answers", async || {
        stage.findings(THREE[0]).await.iter().any(|code| code == "no-endpoint").then_some(())
    })
    .await;
    match keeps_data {
        true => stage.node.start_again().await,
        false => stage.node.process().signal(Signal::Cont),
    }
    stage.all_done(THREE).await;
    stage.each_once(THREE).await;
    let how = if keeps_data { "killed" } else { "frozen" };
    row.add("chain killed", format!("{how}: each once ({UNDER_WAY} in {})", seconds(began)));
}

/// The chain loses everything. Told by a Stile that has done nothing else, since all of it comes
/// again.
pub(crate) async fn chain_is_emptied(stage: Stage, row: &mut Row) {
    let mut stage = stage.with_another_store().await;
    let began = Instant::now();
    stage.hand_over(20, &[RESET]).await;
    stage.all_done(&[RESET]).await;
    stage.each_once(&[RESET]).await;
    stage.node.reset().await;
    let signer = DevNode::address(RESET);
    let again = eventually_within(LONG, "the signer to be paused", async || {
        let is_paused = stage.stile.signer(signer).await["paused"].is_string();
        let all_there = stage.node.nonce(signer, "latest").await == 20;
        (is_paused || all_there).then_some(is_paused)
    });
    let is_paused = again.await;
    if is_paused {
        let path = format!("/api/v1/signers/{signer}/resume");
        let answer = stage.stile.post(&path, json!({})).await.ok();
        assert_eq!(answer["paused"], json!(null), "{answer:#}");
    }
    let again = eventually_within(LONG * 2, "all of it to come again", async || {
        (stage.node.nonce(signer, "latest").await == 20).then_some(())
    });
    if tokio::time::timeout(LONG, again).await.is_err() {
        stage.tell_what_is_open(signer).await;
    }
    stage.all_done(&[RESET]).await;
    stage.each_once(&[RESET]).await;
    let how = if is_paused { "paused, resumed" } else { "sent again by itself" };
    row.add("chain emptied", format!("each once again ({how}; 20 in {})", seconds(began)));
}
