//! Sending signed transactions: to one endpoint, or to all of them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{B256, Bytes, keccak256};
use futures::future::join_all;
use serde::Serialize;
use serde_json::json;

use crate::ChainPool;
use crate::calls::Method;
use crate::capability::Capability;
use crate::classify::{self, SendClass};
use crate::endpoint::Endpoint;
use crate::rpc::{Answer, Call, CallError, read_some};
use crate::taking::{Exchange, Turn};

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
    /// No answer came, and the endpoint may have the transaction all the same.
    #[serde(skip)]
    pub answer_lost: bool,
    /// It is set aside, and its head has not risen for a minute: what it refuses it may judge by a
    /// state of long ago.
    #[serde(skip)]
    pub stands_still: bool,
    /// It rejects it by a rule of its own, and not by one of the chain: another one may take it.
    #[serde(skip)]
    pub own_rule: bool,
}

/// Why an endpoint was not asked to take transactions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAsked {
    /// It does not answer, for this reason.
    NotInUse(String),
    /// It takes none, in its own words.
    ReadOnly(String),
    /// It is given time, for as long as this.
    Paused(Duration),
}

impl NotAsked {
    /// What is told of it in the place of an answer.
    fn text(&self) -> String {
        match self {
            Self::NotInUse(why) => why.clone(),
            Self::ReadOnly(why) => format!("takes no transactions: {why}"),
            Self::Paused(left) => {
                format!("is not asked for {left:.1?}, after it failed or said so")
            }
        }
    }

    fn class(&self) -> SendClass {
        match self {
            Self::ReadOnly(_) => SendClass::ReadOnly,
            Self::NotInUse(_) | Self::Paused(_) => SendClass::Transient,
        }
    }
}

impl ChainPool {
    /// How many endpoints there are. Those who send call them by their places, from 0, in the order
    /// of the configuration.
    pub fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// An endpoint's host and port.
    pub fn endpoint_name(&self, place: usize) -> &str {
        self.endpoints.get(place).map_or("", |endpoint| endpoint.shown())
    }

    /// Sends signed transactions to one endpoint, in order, in batches: it gets its next batch when
    /// it has answered the one before, so that it sees a lane's nonces rise. As many answers as
    /// transactions, in the same order. What it says of itself is remembered: whether it takes
    /// transactions at all, and when it wants to be asked again.
    pub async fn send_to(
        &self,
        place: usize,
        raw: &[Bytes],
    ) -> Result<Vec<EndpointSaid>, NotAsked> {
        let Some(endpoint) = self.endpoints.get(place) else {
            return Err(NotAsked::NotInUse("is not configured".to_owned()));
        };
        // One that answers is asked although it is set aside: whoever made it look late, or doubtful,
        // is not the only one to say what becomes of a transaction.
        let _ = self.usable().await;
        // What wants to be left alone is asked later: nobody decides in its place meanwhile.
        if let Some(left) = endpoint.rests() {
            return Err(NotAsked::Paused(left));
        }
        if !endpoint.answers() {
            let why = endpoint.status().why.unwrap_or_else(|| "is not in use".to_owned());
            return Err(NotAsked::NotInUse(why));
        }
        match endpoint.turn(self.is_read_only()) {
            Turn::Ask => {
                let mut said = send(endpoint, raw, self.batch_limit()).await;
                let stands_still = endpoint.stands_still();
                said.iter_mut().for_each(|said| said.stands_still = stands_still);
                Ok(said)
            }
            Turn::ReadOnly(why) => Err(NotAsked::ReadOnly(why)),
            Turn::Wait { left, .. } => Err(NotAsked::Paused(left)),
        }
    }

    /// Whether an endpoint is known to take no transactions.
    pub fn takes_none(&self, place: usize) -> bool {
        self.endpoints.get(place).is_some_and(|endpoint| endpoint.read_only().is_some())
    }

    /// Whether every endpoint that answers is known to take no transactions.
    pub fn is_read_only(&self) -> bool {
        let mut answering = self.endpoints.iter().filter(|endpoint| endpoint.answers());
        answering.all(|endpoint| endpoint.read_only().is_some())
    }

    /// Sends signed transactions to every endpoint that may be asked, and waits for all of them. As
    /// many answers as transactions, in the same order.
    pub async fn send_raw(&self, raw: &[Bytes]) -> Vec<SendAnswer> {
        if raw.is_empty() {
            return Vec::new();
        }
        let places = 0..self.endpoints.len();
        let sent = join_all(places.map(|place| self.send_to(place, raw))).await;
        if sent.iter().all(Result::is_err) {
            let said = sent.iter().zip(&self.endpoints).filter_map(|(sent, endpoint)| {
                let not_asked = sent.as_ref().err()?;
                Some(EndpointSaid::instead(endpoint.shown(), not_asked))
            });
            let said: Vec<EndpointSaid> = said.collect();
            return vec![SendAnswer { verdict: SendClass::Transient, said }; raw.len()];
        }
        let mut said: Vec<Vec<EndpointSaid>> = raw.iter().map(|_| Vec::new()).collect();
        for answers in sent.into_iter().flatten() {
            said.iter_mut().zip(answers).for_each(|(said, answer)| said.push(answer));
        }
        let answer = |said: Vec<EndpointSaid>| SendAnswer {
            verdict: SendClass::of_all(said.iter().map(|said| said.class)),
            said,
        };
        said.into_iter().map(answer).collect()
    }
}

impl EndpointSaid {
    /// What is told of an endpoint that was not asked.
    pub fn instead(endpoint: &str, not_asked: &NotAsked) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            class: not_asked.class(),
            text: not_asked.text(),
            answer_lost: false,
            stands_still: false,
            own_rule: false,
        }
    }
}

async fn send(endpoint: &Arc<Endpoint>, raw: &[Bytes], limit: usize) -> Vec<EndpointSaid> {
    let mut said = Vec::with_capacity(raw.len());
    for batch in raw.chunks(limit) {
        let call = |raw: &Bytes| Call::new(Method::SendRaw, json!([raw]));
        let calls: Vec<Call> = batch.iter().map(call).collect();
        let answers = endpoint.rpc.batch(&calls).await;
        for exchange in exchanges(&answers) {
            endpoint.note_sending(exchange);
        }
        for (answer, raw) in answers.into_iter().zip(batch) {
            if let Err(error) = &answer {
                endpoint.note(error);
            }
            let (hash, refused_type) =
                (keccak256(raw), answer.as_ref().err().is_some_and(classify::is_about_the_type));
            let one = judge(endpoint.shown(), answer, hash);
            note_kind(endpoint, raw, hash, one.class, refused_type);
            said.push(one);
        }
        // Whoever has fallen silent, takes none or wants a rest gets no later nonces after missing
        // earlier ones.
        if !endpoint.answers() || said.last().is_some_and(|last| last.class == SendClass::ReadOnly)
        {
            said.resize_with(raw.len(), || EndpointSaid {
                endpoint: endpoint.shown().to_owned(),
                class: SendClass::Transient,
                text: "was not asked after it stopped answering".to_owned(),
                answer_lost: false,
                stands_still: false,
                own_rule: false,
            });
            break;
        }
    }
    said
}

/// What the answer to a transaction shows of what the endpoint can do.
fn note_kind(endpoint: &Endpoint, raw: &[u8], hash: B256, class: SendClass, refused_type: bool) {
    let kind = match raw.first() {
        Some(1) => Capability::AccessListTransactions,
        Some(2) => Capability::FeeMarketTransactions,
        Some(0xc0..) => Capability::LegacyTransactions,
        _ => return,
    };
    if class == SendClass::Accepted {
        endpoint.learn(kind, true);
        if endpoint.knows(Capability::PendingTransactions) != Some(true) {
            endpoint.asked().note_taken(hash, Instant::now());
        }
    } else if refused_type {
        endpoint.learn(kind, false);
    }
}

/// What a batch shows of the endpoint itself.
fn exchanges(answers: &[Answer]) -> Vec<Exchange> {
    let each = answers.iter().map(|answer| match answer {
        Ok(_) => Exchange::Heard,
        Err(error) => exchange(error),
    });
    let each: Vec<Exchange> = each.collect();
    let first = |wanted: fn(&Exchange) -> bool| each.iter().find(|one| wanted(one)).cloned();
    // One word about a transaction is enough to know that it takes them. That it is asked too often
    // may be true at the same time.
    let heard = first(|one| *one == Exchange::Heard);
    let limited = first(|one| matches!(one, Exchange::Limited(_)));
    let takes_none = first(|one| matches!(one, Exchange::ReadOnly(_)));
    let failed = first(|one| *one == Exchange::Failed);
    match (heard, limited) {
        (None, None) => takes_none.or(failed).into_iter().collect(),
        (heard, limited) => heard.into_iter().chain(limited).collect(),
    }
}

fn exchange(error: &CallError) -> Exchange {
    if let Some(retry_after) = classify::rate_limit(error) {
        return Exchange::Limited(retry_after);
    }
    match error {
        CallError::Crowded(_) | CallError::Resting(_) => Exchange::Nothing,
        _ if classify::send_class(error) == SendClass::ReadOnly => {
            Exchange::ReadOnly(error.to_string())
        }
        CallError::Said { .. } => Exchange::Heard,
        _ => Exchange::Failed,
    }
}

fn judge(endpoint: &str, answer: Answer, hash: B256) -> EndpointSaid {
    let endpoint = endpoint.to_owned();
    let error = match read_some::<B256>(answer) {
        Ok(told) if told == hash => {
            let (class, text) = (SendClass::Accepted, "accepted".to_owned());
            return EndpointSaid {
                endpoint,
                class,
                text,
                answer_lost: false,
                stands_still: false,
                own_rule: false,
            };
        }
        Ok(_) => CallError::Garbled("with the hash of another transaction"),
        Err(error) => error,
    };
    EndpointSaid {
        endpoint,
        class: classify::send_class(&error),
        text: error.to_string().chars().take(300).collect(),
        answer_lost: may_have_arrived(&error),
        stands_still: false,
        own_rule: classify::is_own_rule(&error),
    }
}

/// Whether the endpoint may have taken the transaction although it did not say so.
fn may_have_arrived(error: &CallError) -> bool {
    match error {
        CallError::Timeout(_) | CallError::Unreachable | CallError::Garbled(_) => true,
        CallError::Http(status) => *status >= 500,
        CallError::Said { .. } => classify::may_have_been_passed_on(error),
        CallError::Crowded(_) | CallError::Limited(_) | CallError::Resting(_) => false,
    }
}
