//! Every refusal that a chain node is known to make, word for word.
//!
//! Each transaction is refused once in words of its own, and taken from then on. Each kind of
//! refusal has a signer of its own, and the first of its transactions is refused until the doctor
//! has looked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use futures::future::join_all;
use serde_json::{Value, json};
use stile_chain::{SendClass, WORDINGS};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually_within};

use crate::care::assert_remedy;
use crate::common::StileProcess;
use crate::support::{Backend, assert_all_mined_once, id, text, transfer};

const CLASSES: [SendClass; 8] = [
    SendClass::Known,
    SendClass::NonceTooLow,
    SendClass::NonceTooHigh,
    SendClass::Underpriced,
    SendClass::ReplacementUnderpriced,
    SendClass::InsufficientFunds,
    SendClass::Rejected,
    SendClass::Transient,
];

/// Whom the transaction pays that is refused in these words.
fn payee(wording: usize) -> String {
    format!("0xc0ffee{wording:034x}")
}

/// The wordings of a class, by their places.
fn of_class(class: SendClass) -> Vec<usize> {
    let wordings = WORDINGS.iter().enumerate().filter(|(_, wording)| wording.1 == class);
    wordings.map(|(place, _)| place).collect()
}

/// A chain node that says all of it.
#[derive(Debug)]
struct Play {
    refusals: Vec<AtomicU32>,
    /// Whether the first of each class is taken after its first refusal.
    goes_on: AtomicBool,
}

impl Play {
    fn new() -> Arc<Self> {
        let refusals = WORDINGS.iter().map(|_| AtomicU32::new(0)).collect();
        Arc::new(Self { refusals, goes_on: AtomicBool::new(false) })
    }

    fn judge(&self, raw: &str) -> Option<(i64, String)> {
        let place = (0..WORDINGS.len()).find(|place| raw.contains(&payee(*place)[2..]))?;
        let (_, class, code, message) = WORDINGS[place];
        let is_first = of_class(class).first() == Some(&place);
        let refused = self.refusals[place].fetch_add(1, Ordering::Relaxed);
        if refused == 0 {
            return Some((code, message.to_owned()));
        }
        if !is_first || self.goes_on.load(Ordering::Relaxed) {
            return None;
        }
        // What is refused for good three times is given up.
        let given_up = class == SendClass::Rejected && refused >= 2;
        let other = (-32005, "request rate limited".to_owned());
        Some(if given_up { other } else { (code, message.to_owned()) })
    }
}

fn bodies(class: SendClass, signer: &str) -> Vec<Value> {
    let body = |place: usize| {
        let mut body = transfer(signer, place as u64 + 1);
        body["payload"]["to"] = json!(payee(place));
        body
    };
    of_class(class).into_iter().map(body).collect()
}

/// What the doctor says while the first transaction of a class is refused.
async fn doctor_knows(node: &StileProcess, class: SendClass, signer: &str, first: &Value) {
    let (code, remedy, automatic) = match class {
        SendClass::Known => ("dropped", "resend", true),
        SendClass::Underpriced | SendClass::ReplacementUnderpriced => ("underpriced", "bump", true),
        SendClass::InsufficientFunds => ("insufficient-funds", "fund", false),
        SendClass::Rejected => ("rejected", "give-up", true),
        _ => ("not-taken", "resend", true),
    };
    let mut words = vec!["nonce 0", id(first)];
    if class != SendClass::InsufficientFunds {
        // In the node's own words.
        words.push(WORDINGS[of_class(class)[0]].3);
    }
    let finding = node.blocked_by(signer, code, &words).await;
    assert_remedy(&finding, remedy, automatic);
}

/// What is on record of a transaction that was refused once and is confirmed.
async fn record_is_right(node: &StileProcess, class: SendClass, tx: &Value) {
    let attempts = node.attempts(id(tx)).await;
    let kinds: Vec<&str> = attempts.iter().map(|attempt| text(&attempt["kind"])).collect();
    let held_up = node.last_event(id(tx), "HELD_UP").await;
    match class {
        SendClass::Underpriced | SendClass::ReplacementUnderpriced => {
            assert!(kinds.len() > 1 && kinds[1..].iter().all(|kind| *kind == "BUMP"), "{tx:#}");
            assert_ne!(tx["txHash"], attempts[0]["txHash"], "{tx:#}");
            assert!(held_up.is_some(), "{tx:#}");
        }
        SendClass::InsufficientFunds | SendClass::Rejected => {
            assert_eq!(kinds, ["SEND"], "{tx:#}");
            assert!(held_up.is_some(), "{tx:#}");
        }
        _ => {
            assert_eq!(kinds, ["SEND"], "{tx:#}");
            assert!(held_up.is_none(), "{tx:#}");
        }
    }
    assert_eq!(tx["error"], Value::Null, "{tx:#}");
}

/// Money comes in until a signer has nothing open.
async fn fund_until_done(anvil: &Anvil, node: &StileProcess, signer: &str) {
    let mut balance = anvil.balance(signer).await;
    eventually_within(4 * testkit::DEADLINE, "the signer to go on", async || {
        balance += "1000000000000000000".parse::<alloy::primitives::U256>().unwrap();
        anvil.set_balance(signer, balance).await;
        for state in ["CREATED", "ALLOCATED", "SUBMITTED"] {
            if node.has_any(signer, state).await {
                return None;
            }
        }
        Some(())
    })
    .await;
    let history = node.get(&format!("/api/v1/signers/{signer}/history")).await.ok();
    let kinds: Vec<&str> =
        history["items"].as_array().unwrap().iter().map(|item| text(&item["kind"])).collect();
    assert!(kinds.contains(&"UNFUNDED") && kinds.contains(&"FUNDED"), "{kinds:?}");
}

/// Fails if a refusal is taken for something else than what it means, so that a transaction is
/// given up, signed again without need, or never sent again.
async fn whatever_a_node_says_each_transaction_is_mined_once(backend: Backend) {
    let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
    let anvil = Anvil::start(options).await;
    let (proxy, play) = (RpcProxy::start(anvil.url()).await, Play::new());
    let judge = Arc::clone(&play);
    proxy.refuse_sends(move |raw| judge.judge(raw));
    let options = backend.node(&proxy.url()).development_keys(CLASSES.len());
    let node = options.set("tx.resubmit.interval", "1s").start().await;
    let signers = anvil.accounts().await;
    let lanes: Vec<(SendClass, &str)> =
        CLASSES.into_iter().zip(signers.iter().map(String::as_str)).collect();

    join_all(lanes.iter().map(async |(class, signer)| {
        let txs = node.send_all(&bodies(*class, signer)).await;
        doctor_knows(&node, *class, signer, &txs[0]).await;
    }))
    .await;
    play.goes_on.store(true, Ordering::Relaxed);
    let (_, unfunded) = lanes[5];
    fund_until_done(&anvil, &node, unfunded).await;

    let mut all = Vec::new();
    for (class, signer) in &lanes {
        let confirmed = node.all_confirmed(signer, of_class(*class).len()).await;
        for tx in &confirmed {
            record_is_right(&node, *class, tx).await;
        }
        all.push((*signer, confirmed));
    }
    assert_all_mined_once(&anvil, &all).await;
    for (refusals, wording) in play.refusals.iter().zip(WORDINGS) {
        assert!(refusals.load(Ordering::Relaxed) > 1, "{wording:?} was said, and heard");
    }
}

on_both_stores!(whatever_a_node_says_each_transaction_is_mined_once);
