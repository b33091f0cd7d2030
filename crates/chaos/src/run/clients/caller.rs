//! How a call is made, written down and repeated.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::evidence::{Answer, Ask, Call, Gas};
use crate::random::Random;
use crate::run::chain::SINK;
use crate::run::diary::now;
use crate::run::manners::{NEVER_ESTIMATED, NEVER_TAKEN};
use crate::run::stage::Stage;

/// How long a client waits for an answer. A stopped node gives none.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it waits where a node may ask one endpoint after the other for what none of them answers.
const UNTIL_NO_ESTIMATE: Duration = Duration::from_secs(20);

/// What is repeated: these problems pass.
const PASSING: [&str; 4] = ["not-holder", "fenced", "lane-paused", "queue-full"];

/// What a transfer needs that carries no data, and less than one with data does.
const TRANSFER_GAS: &str = "21000";

/// One client.
#[derive(Debug)]
pub(super) struct Caller {
    pub(super) stage: Arc<Stage>,
    pub(super) number: u64,
    pub(super) random: Random,
    client: reqwest::Client,
    made: u64,
}

impl Caller {
    pub(super) fn new(stage: Arc<Stage>, seed: u64, number: u64) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build();
        Self {
            stage,
            number,
            random: Random::part(seed, number),
            client: client.expect("build an HTTP client"),
            made: 0,
        }
    }

    /// A name that this client has not used.
    pub(super) fn fresh_name(&mut self) -> String {
        self.made += 1;
        format!("c{}-{}", self.number, self.made)
    }

    /// Sleeps for a random time.
    pub(super) async fn pause(&mut self, first_ms: u64, last_ms: u64) {
        let time = self.random.between(first_ms, last_ms);
        tokio::time::sleep(Duration::from_millis(time)).await;
    }

    /// Asks a random node once, and writes down what came of it.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Answer {
        let node = self.random.place(self.stage.nodes.len());
        let (path, body, key) = written(ask);
        let url = format!("{}{path}", self.stage.nodes[node].url);
        let mut request = self.client.post(url).json(&body);
        if let Some(key) = key {
            request = request.header("Idempotency-Key", key);
        }
        if matches!(ask, Ask::Send { gas: Gas::NeverEstimated, .. }) {
            request = request.timeout(UNTIL_NO_ESTIMATE);
        }
        let at = now();
        let answer = read(request).await.unwrap_or(Answer::Lost);
        let (ask, ended_at) = (ask.clone(), now());
        self.stage.diary.call(Call { at, ended_at, node, ask, answer: answer.clone() });
        answer
    }

    /// Asks any node, again and again, until there is an answer that is not going to change.
    pub(super) async fn insist(&mut self, ask: &Ask) -> Answer {
        loop {
            let answer = self.ask(ask).await;
            let final_refusal = answer.status().is_some_and(|status| status / 100 == 4)
                && !answer.code().is_some_and(|code| PASSING.contains(&code));
            if answer.is_success() || final_refusal {
                return answer;
            }
            self.pause(50, 300).await;
        }
    }
}

async fn read(request: reqwest::RequestBuilder) -> Option<Answer> {
    let response = request.send().await.ok()?;
    let status = response.status().as_u16();
    let body: Value = response.json().await.ok()?;
    let text = |name: &str| body[name].as_str().map(str::to_owned);
    Some(Answer::Said {
        status,
        code: text("code"),
        tx_id: text("txId"),
        hold_id: text("holdId"),
        nonce: body["nonce"].as_u64(),
    })
}

/// Path, body and idempotency key of a call.
fn written(ask: &Ask) -> (String, Value, Option<&str>) {
    match ask {
        Ask::Send { signer, request_id, wei, gas } => {
            let mut payload = json!({ "to": SINK, "value": wei.to_string() });
            match gas {
                Gas::Stated => payload["gasLimit"] = json!(TRANSFER_GAS),
                Gas::Estimated => {}
                Gas::NeverEstimated => payload["data"] = json!(NEVER_ESTIMATED),
                Gas::TooLittle => {
                    payload["gasLimit"] = json!(TRANSFER_GAS);
                    payload["data"] = json!(NEVER_TAKEN);
                    // Stated, so that it is about gas alone: what outsiders pay drives the market up for
                    // a while, and an offer from then is hard to outbid once it has come down.
                    payload["maxFeePerGas"] = json!("3000000000");
                    payload["maxPriorityFeePerGas"] = json!("1500000000");
                }
            }
            let body = json!({ "signer": signer, "requestId": request_id, "payload": payload });
            ("/api/v1/tx".to_owned(), body, None)
        }
        Ask::Cancel { tx_id } => (format!("/api/v1/tx/{tx_id}/cancel"), json!({}), None),
        Ask::SpeedUp { tx_id } => (format!("/api/v1/tx/{tx_id}/speed-up"), json!({}), None),
        Ask::Allocate { signer, key } => {
            (format!("/api/v1/nonces/{signer}/allocate"), json!({}), Some(key))
        }
        Ask::Used { signer, nonce, hold_id, tx_hash } => {
            let body = json!({ "holdId": hold_id, "txHash": tx_hash });
            (format!("/api/v1/nonces/{signer}/{nonce}/used"), body, None)
        }
        Ask::Recyclable { signer, nonce, hold_id } => {
            let body = json!({ "holdId": hold_id, "reason": "not sent" });
            (format!("/api/v1/nonces/{signer}/{nonce}/recyclable"), body, None)
        }
    }
}
