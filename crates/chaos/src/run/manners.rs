//! Endpoints that are not like others: some take no transactions, some say strange things, some never
//! answer to an estimate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{Reaction, RpcProxy};

use super::ENDPOINTS;
use crate::schedule::ReadOnly;

const SEND: &str = "eth_sendRawTransaction";
const ESTIMATE: &str = "eth_estimateGas";

/// In what the chain says of a transaction that it has.
const ALREADY_THERE: &str = "already imported";

/// The data of a transaction whose estimate is never answered to, on any endpoint.
pub(super) const NEVER_ESTIMATED: &str = "0xe57114a7e0";

/// The data of a transaction with less gas than it needs. Most nodes refuse it, and so does every endpoint
/// here: anvil takes it, and never mines it.
pub(super) const NEVER_TAKEN: &str = "0x7007117713";

/// How all endpoints of a run behave.
#[derive(Debug, Default)]
pub(super) struct Manners {
    /// Nodes whose last endpoint takes no transactions.
    read_only: Mutex<Vec<(usize, ReadOnly)>>,
    no_estimates: AtomicBool,
    /// What the chain has already is said to be so in words that nobody knows.
    unknown_words: AtomicBool,
}

impl Manners {
    /// Makes an endpoint of a node behave like this from now on.
    pub(super) fn teach(self: &Arc<Self>, node: usize, endpoint: usize, proxy: &RpcProxy) {
        let manners = Arc::clone(self);
        proxy.is_like(move |method, params| manners.reaction(node, endpoint, method, params));
    }

    /// The last endpoint of a node takes no transactions from now on.
    pub(super) fn is_read_only(&self, node: usize, how: ReadOnly) {
        let mut read_only = self.read_only.lock().unwrap();
        read_only.retain(|(known, _)| *known != node);
        read_only.push((node, how));
    }

    pub(super) fn answer_to_estimates(&self, answer: bool) {
        self.no_estimates.store(!answer, Ordering::Release);
    }

    pub(super) fn speak_in_unknown_words(&self, speak: bool) {
        self.unknown_words.store(speak, Ordering::Release);
    }

    /// Ends what passes. An endpoint that is read-only stays it.
    pub(super) fn calm(&self) {
        self.answer_to_estimates(true);
        self.speak_in_unknown_words(false);
    }

    fn reaction(
        &self,
        node: usize,
        endpoint: usize,
        method: &str,
        params: &Value,
    ) -> Option<Reaction> {
        match method {
            SEND => self.taken(node, endpoint, params[0].as_str()?),
            ESTIMATE => {
                let data = params[0]["data"].as_str().or(params[0]["input"].as_str());
                let never = data == Some(NEVER_ESTIMATED);
                (never || self.no_estimates.load(Ordering::Acquire)).then_some(Reaction::Silence)
            }
            _ => None,
        }
    }

    fn taken(&self, node: usize, endpoint: usize, raw: &str) -> Option<Reaction> {
        let read_only = self.read_only.lock().unwrap();
        let how = read_only.iter().find(|(known, _)| *known == node && endpoint + 1 == ENDPOINTS);
        match how {
            Some((_, ReadOnly::NoMethod)) => {
                return Some(Reaction::Error(-32601, format!("the method {SEND} does not exist")));
            }
            Some((_, ReadOnly::Forbidden)) => return Some(Reaction::Status(403)),
            None => {}
        }
        if raw.contains(NEVER_TAKEN.trim_start_matches("0x")) {
            return Some(Reaction::Error(-32000, "intrinsic gas too low".to_owned()));
        }
        // One is said by a family of chains, the other by nobody.
        let words = match raw.bytes().last() {
            Some(b'0'..=b'7') => "tx already exists in cache",
            _ => "the clerk has seen this paper before",
        };
        let speaks = self.unknown_words.load(Ordering::Acquire);
        speaks.then(|| Reaction::Reword(ALREADY_THERE, -32000, words.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_last_endpoint_of_a_node_is_read_only_and_it_stays_so() {
        let manners = Manners::default();
        manners.is_read_only(1, ReadOnly::Forbidden);
        manners.calm();
        let send = |node, endpoint| manners.reaction(node, endpoint, SEND, &json!(["0x00"]));
        assert_eq!(send(1, ENDPOINTS - 1), Some(Reaction::Status(403)));
        assert_eq!((send(1, 0), send(0, ENDPOINTS - 1)), (None, None));
        let refused = manners.reaction(0, 0, SEND, &json!(["0x02f8aa857007117713c0"]));
        assert!(matches!(refused, Some(Reaction::Error(-32000, _))), "{refused:?}");
        manners.is_read_only(1, ReadOnly::NoMethod);
        assert!(matches!(send(1, ENDPOINTS - 1), Some(Reaction::Error(-32601, _))));
    }

    #[test]
    fn what_the_chain_has_already_is_told_strangely_for_a_while() {
        let manners = Manners::default();
        let send = |raw: &str| manners.reaction(0, 0, SEND, &json!([raw]));
        assert_eq!(send("0x01"), None);
        manners.speak_in_unknown_words(true);
        let said = |raw: &str| match send(raw) {
            Some(Reaction::Reword(ALREADY_THERE, -32000, words)) => words,
            other => panic!("{other:?}"),
        };
        assert_eq!(said("0x01"), "tx already exists in cache");
        assert!(said("0x0f").contains("clerk"));
        manners.calm();
        assert_eq!(send("0x01"), None);
    }

    #[test]
    fn some_are_never_estimated_and_others_not_for_a_while() {
        let manners = Manners::default();
        let estimate = |data: &str| manners.reaction(0, 0, ESTIMATE, &json!([{ "data": data }]));
        assert_eq!(estimate(NEVER_ESTIMATED), Some(Reaction::Silence));
        assert_eq!(estimate("0x"), None);
        manners.answer_to_estimates(false);
        assert_eq!(estimate("0x"), Some(Reaction::Silence));
        manners.calm();
        assert_eq!((estimate("0x"), estimate(NEVER_ESTIMATED)), (None, Some(Reaction::Silence)));
    }
}
