//! A thousand at once, contracts, and calls that revert.

use serde_json::json;
use testkit::{Anvil, AnvilOptions};

use crate::support::{Backend, assert_all_mined_once, id, text, transfer};

const COUNT: u64 = 1000;

fn every_second() -> AnvilOptions {
    AnvilOptions { block_time_seconds: Some(1), ..Default::default() }
}

/// A thousand transfers in one call, dealt out to so many signers.
async fn a_thousand(backend: Backend, signers: usize) {
    let anvil = Anvil::start(every_second()).await;
    let accounts = anvil.accounts().await;
    let node = backend.node(anvil.url()).development_keys(signers).start().await;
    let signers = &accounts[..signers];
    let dealt = (1..=COUNT).zip(signers.iter().cycle());
    let bodies: Vec<_> = dealt.map(|(wei, signer)| transfer(signer, wei)).collect();
    node.send_all(&bodies).await;
    let mut confirmed = Vec::new();
    for signer in signers {
        let txs = node.all_confirmed(signer, COUNT as usize / signers.len()).await;
        confirmed.push((signer.as_str(), txs));
    }
    assert_all_mined_once(&anvil, &confirmed).await;
}

async fn a_thousand_transfers_from_one_signer_are_mined_once_each(backend: Backend) {
    a_thousand(backend, 1).await;
}

async fn a_thousand_transfers_from_ten_signers_are_mined_once_each(backend: Backend) {
    a_thousand(backend, 10).await;
}

async fn contracts_are_made_and_called_and_may_revert(backend: Backend) {
    let anvil = Anvil::start(every_second()).await;
    let signer = anvil.accounts().await.remove(0);
    let node = backend.node(anvil.url()).development_keys(1).start().await;
    let made = json!({ "signer": signer, "payload": { "data": Anvil::contract_creation() } });
    let made = node.send_new(&made).await;
    let made = node.reaches(id(&made), "CONFIRMED").await;
    assert_eq!(made["outcome"], "success");
    let contract = text(&made["receipt"]["contractAddress"]);

    let call = |number, gas: Option<&str>| {
        let mut body = json!({
            "signer": signer,
            "payload": { "to": contract, "data": Anvil::contract_call(number) },
        });
        if let Some(gas) = gas {
            body["payload"]["gasLimit"] = json!(gas);
        }
        body
    };
    let stored = node.send_new(&call(42, None)).await;
    let stored = node.reaches(id(&stored), "CONFIRMED").await;
    assert_eq!((&stored["outcome"], &stored["subState"]), (&json!("success"), &json!(null)));
    assert_eq!(anvil.contract_value(contract).await.to_string(), "42");

    // With a gas limit nothing is estimated: it is mined, and reverts there.
    let reverted = node.send_new(&call(0, Some("100000"))).await;
    let reverted = node.reaches(id(&reverted), "CONFIRMED").await;
    assert_eq!(
        (&reverted["outcome"], &reverted["subState"]),
        (&json!("reverted"), &json!("REVERTED"))
    );
    assert_eq!(reverted["receipt"]["status"], 0);

    let refused = node.send(&call(0, None)).await;
    assert_eq!((refused.status, refused.problem().as_str()), (422, "estimation-reverted"));
    assert!(refused.text.contains("zero"), "its reason: {refused:?}");
    assert_eq!(node.txs(&signer).await.len(), 3, "it is not on record");
    assert_eq!(anvil.nonce(&signer, "latest").await, 3, "and cost nothing");
}

on_both_stores!(
    a_thousand_transfers_from_one_signer_are_mined_once_each,
    a_thousand_transfers_from_ten_signers_are_mined_once_each,
    contracts_are_made_and_called_and_may_revert,
);
