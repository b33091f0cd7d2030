//! V1 goes on where Stile left off, and when that is refused.

use std::collections::BTreeSet;

use serde_json::json;
use testkit::eventually;

use crate::common::StileProcess;
use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, refusals, report};
use crate::writer;

/// Nonces that V1 gives out, and what it thought of each before.
async fn continues(stage: &Stage, signer: &str, count: usize) -> Vec<u64> {
    let mut client = stage.v1_client().await;
    let mut given = Vec::new();
    for _ in 0..count {
        given.push(writer::allocate(&mut client, signer).await.unwrap());
    }
    given
}

async fn allocated(node: &StileProcess, signer: &str) -> (u64, String) {
    let answer = node.allocate(signer).await;
    let nonce = answer.nonce();
    (nonce, answer.json()["holdId"].as_str().unwrap().to_owned())
}

async fn mark(node: &StileProcess, signer: &str, hold: &(u64, String), what: &str) {
    let path = format!("/api/v1/nonces/{signer}/{}/{what}", hold.0);
    let body = match what {
        "used" => json!({ "holdId": hold.1, "txHash": format!("{:#066x}", 0xabc_u64 + hold.0) }),
        _ => json!({ "holdId": hold.1, "reason": "not sent" }),
    };
    node.post(&path, body).await.ok();
}

#[tokio::test]
async fn hole_19_v1_goes_on_without_giving_a_nonce_twice() {
    let amount = Amount { signers: 3, nonces: 60, mined: 10 };
    let stage = Stage::set(amount).await;
    report(stage.import(&[])).await;
    let node = stage.node("a").start().await;
    let (signer, address) = (make::signer(1), make::address(1).to_string());
    let mut used = BTreeSet::new();
    // What V1 had given back is given out first; then fresh ones.
    for turn in 0..12 {
        let hold = allocated(&node, &address).await;
        assert!(used.insert(hold.0), "given out twice: {}", hold.0);
        if turn % 4 == 3 {
            mark(&node, &address, &hold, "recyclable").await;
            used.remove(&hold.0);
        } else {
            mark(&node, &address, &hold, "used").await;
        }
    }
    let items = report(stage.export(&["--signer", &signer])).await;
    assert_eq!(outcomes(&items), ["with V1"]);
    let refused = node.allocate(&address).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "lane-not-owned"));

    // Whatever is on the wire or in somebody's hands, by either's word.
    let ledger = stage.ledger().await;
    let taken = ledger.iter().filter(|row| row[0].eq_ignore_ascii_case(&address));
    let taken: BTreeSet<u64> =
        taken.filter(|row| row[2] != "RELEASED").map(|row| row[1].parse().unwrap()).collect();
    let latest = stage.anvil.nonce(&address, "latest").await;
    let given = continues(&stage, &signer, 40).await;
    let mut seen = BTreeSet::new();
    for nonce in given {
        assert!(nonce >= latest, "{nonce} is used on chain");
        assert!(!taken.contains(&nonce), "{nonce} is taken");
        assert!(seen.insert(nonce), "{nonce} was given out twice");
    }
    // The others are Stile's still.
    assert_eq!(stage.moved("STILE").await, 2);
    assert_eq!(node.allocate(&make::address(0).to_string()).await.status, 200);

    // And back again: what V1 has done meanwhile is taken over.
    let rows = stage.v1_rows().await;
    let items = report(stage.import(&["--signer", &signer])).await;
    assert_eq!(outcomes(&items), ["imported"]);
    assert_eq!(stage.v1_rows().await, rows);
    let next = items[0]["nextNonce"].as_u64().unwrap();
    eventually("the node to know", async || {
        (node.allocate(&address).await.status == 200).then_some(())
    })
    .await;
    let highest = *seen.iter().next_back().unwrap();
    assert!(next > highest, "{next} {highest}");
    let hold = allocated(&node, &address).await;
    assert!(!seen.contains(&hold.0) && !taken.contains(&hold.0), "{hold:?}");
}

#[tokio::test]
async fn what_v1_could_not_know_keeps_a_signer_here() {
    let stage = Stage::set(Amount { signers: 1, nonces: 60, mined: 10 }).await;
    report(stage.import(&[])).await;
    let node = stage.node("a").start().await;
    let address = make::address(0).to_string();
    let hold = allocated(&node, &address).await;
    let (items, words) = refusals(stage.export(&[])).await;
    assert_eq!(outcomes(&items), ["stays with Stile"]);
    assert!(items[0]["why"].as_str().unwrap().contains("in a caller's hands"), "{items:?}");
    assert!(words.contains("1 of 1 signers stay with Stile"), "{words}");
    // It goes on here.
    eventually("the node to know", async || {
        let answer = node.allocate(&address).await;
        (answer.status == 200).then(|| answer.nonce())
    })
    .await;
    assert!(writer::allocate(&mut stage.v1_client().await, &make::signer(0)).await.is_err());
    mark(&node, &address, &hold, "used").await;
    let filter = format!("/api/v1/nonces/{address}?status=HELD");
    let held = node.get(&filter).await;
    for open in held.json()["items"].as_array().cloned().unwrap_or_default() {
        let hold = (open["nonce"].as_u64().unwrap(), open["holdId"].as_str().unwrap().to_owned());
        mark(&node, &address, &hold, "recyclable").await;
    }
    let dry = report(stage.export(&["--dry-run"])).await;
    assert_eq!(outcomes(&dry), ["would go back"]);
    let items = report(stage.export(&[])).await;
    assert_eq!(outcomes(&items), ["with V1"]);
    // What V1 had given out before Stile came is as V1 left it.
    assert!(!items[0]["unsettled"].as_array().unwrap().is_empty());
    assert_eq!(outcomes(&report(stage.export(&[])).await), ["with V1"], "twice is once");
}
