//! An endpoint that lies about pending transactions.

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::NodeOptions;
use crate::stage::{Other, Stage, assert_says, fillers};
use crate::support::{Backend, text, transfer};

const COUNT: &str = "eth_getTransactionCount";

/// How many transactions each account has when its lane starts.
const MINED: u64 = 3;

fn every_second() -> AnvilOptions {
    AnvilOptions { block_time_seconds: Some(1), ..Default::default() }
}

fn from_pending(options: NodeOptions) -> NodeOptions {
    options.set("nonce.chain_query.mode", "pending")
}

/// From now on the proxy tells this of an account's pending count, from what is true.
fn lie(proxy: &RpcProxy, account: &str, told: impl Fn(u64) -> u64 + Send + Sync + 'static) {
    let account = account.to_owned();
    proxy.lie(COUNT, move |params, result| {
        let of_account = text(&params[0]).eq_ignore_ascii_case(&account);
        let pending = params[1] == "pending";
        let truth = u64::from_str_radix(text(result).trim_start_matches("0x"), 16).unwrap();
        (of_account && pending).then(|| json!(format!("{:#x}", told(truth))))
    });
}

/// Three accounts, and a lie about each: nothing was ever sent, less than is mined, a billion more.
///
/// Fails if a lane starts where an endpoint says without asking whether that can be, or if the
/// cursor of one that has started follows `pending`.
async fn hole_13_what_cannot_be_pending_is_not_believed(backend: Backend) {
    let lies: [fn(u64) -> u64; 3] = [|_| 0, |_| MINED - 1, |truth| truth + 1_000_000_000];
    let anvil = Anvil::start(AnvilOptions::default()).await;
    let proxy = RpcProxy::start(anvil.url()).await;
    let signers: Vec<String> = anvil.accounts().await.into_iter().take(lies.len()).collect();
    let mut before = Vec::new();
    for (signer, told) in signers.iter().zip(lies) {
        for nonce in 0..MINED {
            before.push((signer.clone(), nonce, anvil.send_transfer(signer, Some(nonce)).await));
        }
        eventually("what the outsider sent to be mined", async || {
            (anvil.nonce(signer, "latest").await == MINED).then_some(())
        })
        .await;
        lie(&proxy, signer, told);
    }
    anvil.set_automine(false).await;
    anvil.set_interval_mining(1).await;
    let options = from_pending(backend.node(&proxy.url()).development_keys(lies.len()));
    let node = options.set("nonce.state_timeout", "1s").start().await;

    let burst = async |wei: std::ops::RangeInclusive<u64>| {
        for signer in &signers {
            let bodies: Vec<Value> = wei.clone().map(|wei| transfer(signer, wei)).collect();
            node.send_all(&bodies).await;
        }
        for signer in &signers {
            node.all_confirmed(signer, *wei.end() as usize - 1).await;
        }
    };
    // One wei is what the outsider's carry.
    burst(2..=11).await;
    // The lies change places after the lanes have started.
    proxy.heal().await;
    for (signer, told) in signers.iter().rev().zip(lies) {
        lie(&proxy, signer, told);
    }
    burst(12..=21).await;

    for signer in &signers {
        let path = format!("/api/v1/signers/{signer}");
        let diagnosis = node.get(&format!("{path}/doctor")).await.ok();
        assert_eq!(
            (&diagnosis["healthy"], &diagnosis["summary"]),
            (&json!(true), &json!("nothing keeps this signer from moving")),
            "{diagnosis:#}"
        );
        let pending = &diagnosis["facts"]["endpoints"][0]["pending"];
        assert_ne!(pending, &diagnosis["facts"]["chainNonce"], "the lie goes on");
        let history = node.get(&format!("{path}/history")).await.ok();
        let history = history["items"].as_array().unwrap();
        assert_eq!(history.len(), 1, "nothing but its start: {history:#?}");
        assert_eq!(history[0]["kind"], "STARTED");
    }
    assert_eq!(fillers(&backend).await, 0);
    let mut of_signers = Vec::new();
    for signer in &signers {
        let mut txs = node.txs(signer).await;
        assert_eq!(txs[0]["nonce"], MINED, "it starts after what is mined");
        let others = before.iter().filter(|(of, _, _)| of == signer);
        txs.extend(others.map(|(_, nonce, hash)| {
            // As the node would show it; the outsider's carry one wei each.
            let value = "1".to_owned();
            json!({ "nonce": nonce, "txHash": hash, "payload": { "value": value } })
        }));
        of_signers.push((signer.as_str(), txs));
    }
    for (signer, txs) in of_signers {
        let mined = anvil.transactions_of(signer).await;
        let shown: Vec<(u64, &str)> = mined.iter().map(|m| (m.nonce, m.hash.as_str())).collect();
        let mut told: Vec<(u64, &str)> =
            txs.iter().map(|tx| (tx["nonce"].as_u64().unwrap(), text(&tx["txHash"]))).collect();
        told.sort_unstable();
        assert_eq!(shown, told, "of {signer}");
        assert!(mined.iter().map(|mined| mined.nonce).eq(0..MINED + 20), "no gap");
    }
}

/// A lane that started five nonces too high, since that many could have been pending, and still
/// can, as the endpoint goes on to say.
async fn too_high(backend: &Backend) -> Stage {
    let stage = Stage::on(every_second(), backend, from_pending).await;
    lie(&stage.proxy, &stage.signer, |truth| truth + 5);
    stage.in_flight(1..=10).await;
    assert_eq!(stage.node.signer(&stage.signer).await["nextNonce"], 15, "it was believed");
    let finding = stage.finding("gap").await;
    assert_says(&finding["words"], "nonce 0 is missing: Stile has nothing for it");
    assert_says(&finding["words"], "counts 5 transactions with those in its pool");
    assert_eq!(finding["remedy"]["automatic"], false, "{finding:#}");
    assert_eq!(finding["remedy"]["needsAttestation"], true, "{finding:#}");
    let mismatches = "stile_reconcile_mismatch_total{kind=\"gap\"}";
    eventually("the lane to be looked at again", async || {
        (stage.node.metric(mismatches).await >= 2.0).then_some(())
    })
    .await;
    assert_eq!(stage.events_of("GAP_FILLED").await, [] as [Value; 0], "it may be somebody else's");
    stage
}

/// The gap is filled, and the rest is mined.
async fn is_filled(stage: &Stage, backend: &Backend) {
    let txs = stage.all_confirmed(10).await;
    assert_eq!(txs[0]["nonce"], 5);
    let others: Vec<(u64, Other)> = (0..5).map(|nonce| (nonce, Other::Empty)).collect();
    stage.assert_mined_once(&txs, &others).await;
    let filled = stage.events_of("GAP_FILLED").await;
    let nonces = filled.iter().map(|event| event["data"]["nonce"].as_u64());
    let mut nonces: Vec<u64> = nonces.map(Option::unwrap).collect();
    nonces.sort_unstable();
    assert_eq!(nonces, [0, 1, 2, 3, 4]);
    assert_eq!(fillers(backend).await, 5);
    assert_eq!(stage.node.metric("stile_gaps_filled_total").await, 5.0);
    stage.is_healthy().await;
}

/// Fails if a gap below the first nonce that was given out is not found, or not filled.
async fn hole_13_a_gap_from_a_lie_is_filled_when_the_lie_ends(backend: Backend) {
    let stage = too_high(&backend).await;
    stage.proxy.heal().await;
    is_filled(&stage, &backend).await;
    assert_eq!(stage.events_of("REPAIRED").await, [] as [Value; 0], "nobody had to do anything");
}

/// Fails if an endpoint that goes on lying can hold a lane up for ever.
async fn hole_13_a_gap_from_a_lie_is_filled_on_a_persons_word(backend: Backend) {
    let stage = too_high(&backend).await;
    let repair = stage.repair(json!({ "apply": true })).await;
    assert_eq!(repair["steps"][0]["done"], false, "{repair:#}");
    assert_says(&repair["steps"][0]["result"], "nobody has said that it was never sent");
    assert_eq!(stage.events_of("GAP_FILLED").await, [] as [Value; 0]);
    // A word for one nonce is no word for the next.
    let repair = stage.repair(json!({ "apply": true, "attest": [0, 1] })).await;
    assert_eq!(repair["steps"][0]["done"], true, "{repair:#}");
    eventually("what was vouched for to be mined", async || {
        (stage.anvil.nonce(&stage.signer, "latest").await == 2).then_some(())
    })
    .await;
    assert_says(&stage.finding("gap").await["words"], "nonce 2 is missing");
    let repair = stage.repair(json!({ "apply": true, "attest": [2, 3, 4] })).await;
    assert_eq!(repair["steps"][0]["done"], true, "{repair:#}");
    is_filled(&stage, &backend).await;
}

on_both_stores!(
    hole_13_what_cannot_be_pending_is_not_believed,
    hole_13_a_gap_from_a_lie_is_filled_when_the_lie_ends,
    hole_13_a_gap_from_a_lie_is_filled_on_a_persons_word,
);
