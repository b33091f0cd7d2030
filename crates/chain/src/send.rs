//! Sending signed transactions to every endpoint.

use std::sync::Arc;

use alloy::primitives::{B256, Bytes, keccak256};
use futures::future::join_all;
use serde::Serialize;
use serde_json::json;

use crate::ChainPool;
use crate::calls::Method;
use crate::classify::{self, SendClass};
use crate::endpoint::Endpoint;
use crate::rpc::{Answer, Call, CallError, read_some};

/// What became of one transaction that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SendAnswer {
    /// What all the endpoints' answers come to: [`SendClass::of_all`].
    pub verdict: SendClass,
    /// What each of them said.
    pub said: Vec<EndpointSaid>,
}

/// What one endpoint said to one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndpointSaid {
    /// Host and port.
    pub endpoint: String,
    /// What it means.
    pub class: SendClass,
    /// In its own words, not more than 300 characters of them.
    pub text: String,
}

impl ChainPool {
    /// Sends signed transactions to every endpoint in use, in order, in batches. An endpoint gets
    /// its next batch when it has answered the one before, so that it sees a lane's nonces rise.
    /// As many answers as transactions, in the same order.
    pub async fn send_raw(&self, raw: &[Bytes]) -> Vec<SendAnswer> {
        if raw.is_empty() {
            return Vec::new();
        }
        let Ok(endpoints) = self.usable().await else { return vec![self.nobody(); raw.len()] };
        let limit = self.batch_limit();
        let sent = join_all(endpoints.iter().map(|endpoint| send(endpoint, raw, limit))).await;
        let mut said: Vec<Vec<EndpointSaid>> = raw.iter().map(|_| Vec::new()).collect();
        for answers in sent {
            said.iter_mut().zip(answers).for_each(|(said, answer)| said.push(answer));
        }
        let answer = |said: Vec<EndpointSaid>| SendAnswer {
            verdict: SendClass::of_all(said.iter().map(|said| said.class)),
            said,
        };
        said.into_iter().map(answer).collect()
    }

    /// No endpoint is in use: what is wrong with each of them.
    fn nobody(&self) -> SendAnswer {
        let said = self.endpoints().into_iter().map(|endpoint| EndpointSaid {
            endpoint: endpoint.shown,
            class: SendClass::Transient,
            text: endpoint.why.unwrap_or_else(|| "is not in use".to_owned()),
        });
        SendAnswer { verdict: SendClass::Transient, said: said.collect() }
    }
}

async fn send(endpoint: &Arc<Endpoint>, raw: &[Bytes], limit: usize) -> Vec<EndpointSaid> {
    let mut said = Vec::with_capacity(raw.len());
    for batch in raw.chunks(limit) {
        let call = |raw: &Bytes| Call::new(Method::SendRaw, json!([raw]));
        let calls: Vec<Call> = batch.iter().map(call).collect();
        let answers = endpoint.rpc.batch(&calls).await;
        for (answer, raw) in answers.into_iter().zip(batch) {
            if let Err(error) = &answer {
                endpoint.note(error);
            }
            let (class, text) = judge(answer, keccak256(raw));
            said.push(EndpointSaid { endpoint: endpoint.shown().to_owned(), class, text });
        }
        // Whoever has fallen silent gets no later nonces after missing earlier ones.
        if !endpoint.is_usable() {
            said.resize_with(raw.len(), || EndpointSaid {
                endpoint: endpoint.shown().to_owned(),
                class: SendClass::Transient,
                text: "was not asked after it stopped answering".to_owned(),
            });
            break;
        }
    }
    said
}

fn judge(answer: Answer, hash: B256) -> (SendClass, String) {
    let error = match read_some::<B256>(answer) {
        Ok(told) if told == hash => return (SendClass::Accepted, "accepted".to_owned()),
        Ok(_) => CallError::Garbled("with the hash of another transaction"),
        Err(error) => error,
    };
    (classify::send_class(&error), error.to_string().chars().take(300).collect())
}
