//! A node's calls for transactions.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{DEADLINE, eventually, eventually_within};

use crate::common::{Answer, StileProcess};

/// An account that nobody uses.
pub(crate) const SINK: &str = "0x000000000000000000000000000000000000dead";

/// As many as one call takes.
const BATCH: usize = 1000;

/// How long a thousand transactions may take on a busy machine.
const LONG: Duration = Duration::from_secs(120);

/// A transfer that is told from all others by the wei it carries. Its gas is given, so that nothing
/// is estimated.
pub(crate) fn transfer(signer: &str, wei: u64) -> Value {
    json!({
        "signer": signer,
        "requestId": format!("request-{wei}"),
        "payload": { "to": SINK, "value": wei.to_string(), "gasLimit": "21000" },
    })
}

/// The name of a transaction.
#[track_caller]
pub(crate) fn id(tx: &Value) -> &str {
    text(&tx["txId"])
}

/// A text in an answer.
#[track_caller]
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

impl StileProcess {
    /// Hands over a transaction.
    pub(crate) async fn send(&self, body: &Value) -> Answer {
        self.post("/api/v1/tx", body.clone()).await
    }

    /// Hands over a transaction that must be new, and returns it.
    pub(crate) async fn send_new(&self, body: &Value) -> Value {
        let answer = self.send(body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.json()
    }

    /// Hands over many, all of which must be new, and returns them in order.
    pub(crate) async fn send_all(&self, bodies: &[Value]) -> Vec<Value> {
        let mut taken = Vec::new();
        for chunk in bodies.chunks(BATCH) {
            let mut answer = self.post("/api/v1/tx/batch", json!({ "items": chunk })).await.ok();
            let items = answer["items"].as_array_mut().expect("a list");
            assert_eq!(items.len(), chunk.len());
            for item in items {
                assert_eq!(item["status"], 202, "{item}");
                taken.push(item["tx"].take());
            }
        }
        taken
    }

    /// A transaction as it stands.
    pub(crate) async fn tx(&self, id: &str) -> Value {
        self.get(&format!("/api/v1/tx/{id}")).await.ok()
    }

    /// A transaction's history, whose numbers must not have gaps.
    pub(crate) async fn history(&self, id: &str) -> Vec<Value> {
        let events = self.items(&format!("/api/v1/tx/{id}/history")).await;
        let numbers = events.iter().map(|event| event["seq"].as_u64());
        assert!(numbers.eq((1..=events.len() as u64).map(Some)), "{events:#?}");
        events
    }

    /// The last entry of this kind in a transaction's history, if there is one.
    pub(crate) async fn last_event(&self, id: &str, kind: &str) -> Option<Value> {
        self.history(id).await.into_iter().rfind(|event| event["kind"] == kind)
    }

    /// A transaction's signed attempts.
    pub(crate) async fn attempts(&self, id: &str) -> Vec<Value> {
        self.items(&format!("/api/v1/tx/{id}/attempts")).await
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        let list = self.get(path).await.ok();
        list["items"].as_array().expect("a list").clone()
    }

    /// Waits until a transaction is in this state, and returns it.
    pub(crate) async fn reaches(&self, id: &str, state: &str) -> Value {
        self.becomes(id, state, |tx| tx["state"] == state).await
    }

    /// Waits until a transaction is like this, and returns it.
    pub(crate) async fn becomes(
        &self,
        id: &str,
        what: &str,
        like: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let reached = eventually_within(DEADLINE, what, async || {
            last = self.tx(id).await;
            like(&last).then(|| last.clone())
        });
        match tokio::time::timeout(DEADLINE - Duration::from_secs(1), reached).await {
            Ok(tx) => tx,
            Err(_) => {
                let history = self.history(id).await;
                panic!("waited for {what}:\n{:#}\n{history:#?}", self.tx(id).await)
            }
        }
    }

    /// Every transaction of a signer, in the order of acceptance.
    pub(crate) async fn txs(&self, signer: &str) -> Vec<Value> {
        let (mut txs, mut cursor) = (Vec::new(), String::new());
        loop {
            let path = format!("/api/v1/tx?signer={signer}&limit=500{cursor}");
            let page = self.get(&path).await.ok();
            txs.extend(page["items"].as_array().expect("a list").iter().cloned());
            let Some(next) = page["next"].as_u64() else { break };
            cursor = format!("&cursor={next}");
        }
        txs.reverse();
        txs
    }

    /// Whether a signer has a transaction in this state.
    pub(crate) async fn has_any(&self, signer: &str, state: &str) -> bool {
        let path = format!("/api/v1/tx?signer={signer}&state={state}&limit=1");
        !self.items(&path).await.is_empty()
    }

    /// Waits until so many transactions of a signer are confirmed and none stands anywhere else,
    /// and returns them in the order of acceptance. Each must have succeeded.
    pub(crate) async fn all_confirmed(&self, signer: &str, count: usize) -> Vec<Value> {
        eventually_within(LONG, "no transaction to be open", async || {
            for state in ["CREATED", "ALLOCATED", "SUBMITTED", "TRACKING"] {
                if self.has_any(signer, state).await {
                    return None;
                }
            }
            Some(())
        })
        .await;
        let txs = self.txs(signer).await;
        assert_eq!(txs.len(), count);
        for tx in &txs {
            assert_eq!(
                (&tx["state"], &tx["outcome"]),
                (&json!("CONFIRMED"), &json!("success")),
                "{tx:#}"
            );
        }
        txs
    }

    /// Waits until the node has seen the chain's block at this height.
    pub(crate) async fn follows_to(&self, height: u64) {
        eventually("the node to see the newest block", async || {
            (self.metric("stile_chain_head").await == height as f64).then_some(())
        })
        .await;
    }
}
