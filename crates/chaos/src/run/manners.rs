//! Endpoints that are not like others: some take no transactions, some say strange things, some never
//! answer to an estimate.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::{Reaction, RpcProxy};

use super::ENDPOINTS;
use crate::schedule::ReadOnly;

const SEND: &str = "eth_sendRawTransaction";
const ESTIMATE: &str = "eth_estimateGas";

/// The data of a transaction whose estimate is never answered to, on any endpoint.
pub(super) const NEVER_ESTIMATED: &str = "0xe57114a7e0";

/// How all endpoints of a run behave.
#[derive(Debug, Default)]
pub(super) struct Manners {
    /// Nodes whose last endpoint takes no transactions.
    read_only: Mutex<Vec<(usize, ReadOnly)>>,
    no_estimates: AtomicBool,
    /// Signed bytes that some endpoint has had, while they answer repeats in words that nobody knows.
    unknown_words: Mutex<Option<BTreeSet<String>>>,
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
        *self.unknown_words.lock().unwrap() = speak.then(BTreeSet::new);
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
        let mut known = self.unknown_words.lock().unwrap();
        let is_new = known.as_mut()?.insert(raw.to_owned());
        // One is said by a family of chains, the other by nobody.
        let words = match raw.bytes().last() {
            Some(b'0'..=b'7') => "tx already exists in cache",
            _ => "the clerk has seen this paper before",
        };
        (!is_new).then(|| Reaction::Error(-32000, words.to_owned()))
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
        manners.is_read_only(1, ReadOnly::NoMethod);
        assert!(matches!(send(1, ENDPOINTS - 1), Some(Reaction::Error(-32601, _))));
    }

    #[test]
    fn the_first_time_is_taken_and_repeats_are_answered_strangely() {
        let manners = Manners::default();
        let send = |raw: &str| manners.reaction(0, 0, SEND, &json!([raw]));
        assert_eq!((send("0x01"), send("0x01")), (None, None));
        manners.speak_in_unknown_words(true);
        assert_eq!(send("0x01"), None);
        let cache = Reaction::Error(-32000, "tx already exists in cache".to_owned());
        assert_eq!(send("0x01"), Some(cache));
        assert_eq!(send("0x0f"), None);
        assert!(matches!(send("0x0f"), Some(Reaction::Error(_, words)) if words.contains("clerk")));
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
