//! A transaction that no endpoint takes, ever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy};

use crate::care::assert_remedy;
use crate::support::{Backend, assert_mined_once, id, text, transfer};

/// Whom nobody is to pay.
const BANNED: &str = "0x00000000000000000000000000000000000bad00";
const WHY: &str = "exceeds block gas limit";

/// A chain node that does not take what goes to [`BANNED`].
async fn refusing(anvil: &Anvil, may_be_given_up: &Arc<AtomicBool>) -> RpcProxy {
    let proxy = RpcProxy::start(anvil.url()).await;
    let (refusals, may_be_given_up) = (AtomicU32::new(0), Arc::clone(may_be_given_up));
    proxy.refuse_sends(move |raw| {
        raw.contains(&BANNED[2..]).then(|| {
            // It is given up with the third refusal, which does not come before its time.
            let third = refusals.fetch_add(1, Ordering::Relaxed) >= 2;
            if third && !may_be_given_up.load(Ordering::Relaxed) {
                (-32005, "request rate limited".to_owned())
            } else {
                (-32000, WHY.to_owned())
            }
        })
    });
    proxy
}

fn to_banned(signer: &str, wei: u64) -> Value {
    let mut body = transfer(signer, wei);
    body["payload"]["to"] = json!(BANNED);
    body
}

/// Fails if it is tried for ever, if it is called failed before an empty transaction has its nonce
/// for good, or if its nonce stays empty.
async fn a_transaction_that_every_endpoint_refuses_gives_way(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let may_be_given_up = Arc::new(AtomicBool::new(false));
    let (one, other) =
        (refusing(&anvil, &may_be_given_up).await, refusing(&anvil, &may_be_given_up).await);
    let node = backend.node(&one.url()).endpoint(&other.url()).development_keys(1).start().await;
    let signer = anvil.accounts().await.remove(0);
    let mut bodies: Vec<Value> = (1..=10).map(|wei| transfer(&signer, wei)).collect();
    bodies[3] = to_banned(&signer, 4);
    let txs = node.send_all(&bodies).await;

    let words = &["every endpoint refuses nonce 3", id(&txs[3]), WHY];
    let finding = node.blocked_by(&signer, "rejected", words).await;
    assert_remedy(&finding, "give-up", true);
    let attempts = node.attempts(id(&txs[3])).await;
    assert_eq!(attempts.len(), 1, "{attempts:#?}");
    may_be_given_up.store(true, Ordering::Relaxed);

    let failed = node.reaches(id(&txs[3]), "FAILED").await;
    assert_eq!((&failed["subState"], &failed["nonce"]), (&json!("REJECTED"), &json!(3)));
    assert_eq!(failed["rival"]["by"], "give-up", "{failed:#}");
    assert!(text(&failed["error"]).contains(WHY), "{failed:#}");
    let attempts = node.attempts(id(&txs[3])).await;
    let kinds: Vec<&str> = attempts.iter().map(|attempt| text(&attempt["kind"])).collect();
    assert_eq!(kinds, ["SEND", "GIVE_UP"]);
    assert_eq!(attempts[1]["txHash"], failed["rival"]["txHash"], "{failed:#}");
    assert!(node.last_event(id(&txs[3]), "GIVEN_UP").await.is_some());

    let mut settled = Vec::new();
    for (place, tx) in txs.iter().enumerate() {
        if place != 3 {
            settled.push(node.reaches(id(tx), "CONFIRMED").await);
        }
    }
    // What is on the chain in its place carries nothing.
    let mut in_its_place = failed.clone();
    in_its_place["txHash"] = failed["rival"]["txHash"].clone();
    in_its_place["payload"]["value"] = json!("0");
    settled.push(in_its_place);
    assert_mined_once(&anvil, &signer, &settled).await;
    assert!(anvil.balance(BANNED).await.is_zero(), "nothing of it is on the chain");
}

/// Fails if one endpoint's refusal is enough to give up what another one takes.
async fn a_transaction_that_one_endpoint_refuses_is_mined_by_another(backend: Backend) {
    let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
    let refusing = refusing(&anvil, &Arc::new(AtomicBool::new(true))).await;
    let other = RpcProxy::start(anvil.url()).await;
    let options = backend.node(&refusing.url()).endpoint(&other.url()).development_keys(1);
    let node = options.start().await;
    let signer = anvil.accounts().await.remove(0);
    let tx = node.send_new(&to_banned(&signer, 1)).await;
    node.reaches(id(&tx), "SUBMITTED").await;
    let diagnosis = node.doctor(&signer).await;
    assert_eq!(diagnosis["healthy"], true, "{diagnosis:#}");
    assert_eq!(diagnosis["findings"][0]["code"], "waits-for-a-block", "{diagnosis:#}");
    anvil.set_interval_mining(1).await;
    node.reaches(id(&tx), "CONFIRMED").await;
    let attempts = node.attempts(id(&tx)).await;
    assert_eq!(attempts.len(), 1, "{attempts:#?}");
    assert_mined_once(&anvil, &signer, &node.txs(&signer).await).await;
}

on_both_stores!(
    a_transaction_that_every_endpoint_refuses_gives_way,
    a_transaction_that_one_endpoint_refuses_is_mined_by_another,
);
