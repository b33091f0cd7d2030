//! Finding out what an endpoint can do.
//!
//! A few cheap questions, once an endpoint was seen well, beside the work: whoever calls
//! [`ChainPool::learn`] does so in a task of its own. What comes of them says nothing about the
//! endpoint's health, and an endpoint that gives no answer is asked again later. They are asked
//! again when the node behind the address is another one by its own word (`web3_clientVersion`),
//! and else once in a long while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use alloy::primitives::{Address, B256, Bytes, U256};
use futures::future::join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use stile_domain::shows_dear_data;

use crate::ChainPool;
use crate::blocks::{With, latest_call, quantity, read_block, tag_call};
use crate::calls::Method;
use crate::capability::{Capability, CapabilityRow};
use crate::classify;
use crate::endpoint::Endpoint;
use crate::estimate::{estimate_anew, estimate_of, stated_gas};
use crate::known::known_call;
use crate::pool::one;
use crate::rpc::{Answer, Call, read, read_some};
use crate::tags::{Tag, tag_word};

/// How often the node's version is asked for.
const VERSION_ASKED: Duration = Duration::from_secs(300);

/// How often everything is asked, whatever the version.
const ALL_ASKED: Duration = Duration::from_secs(1800);

/// How soon an endpoint is asked again that did not answer everything.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// The longest that the questions to one endpoint may take together.
const WITHIN: Duration = Duration::from_secs(60);

/// How long after an endpoint took a transaction it is asked whether it shows it: it may take a
/// moment, and not long after that the transaction is in a block.
const SHOWN_AFTER: Duration = Duration::from_millis(100);
const SHOWN_UNTIL: Duration = Duration::from_secs(10);

/// How many transactions in a row an endpoint does not show that it has taken, before it is said to
/// hide them: it may have dropped one.
const HIDDEN: u32 = 3;

/// The longest version that is kept.
const VERSION_LIMIT: usize = 80;

/// What one endpoint can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointCapabilities {
    /// Host and port, as in [`crate::EndpointStatus`].
    pub shown: String,
    /// What the node calls itself, not more than 80 characters of it.
    pub client_version: Option<String>,
    /// Everything that nodes differ in.
    pub rows: Vec<CapabilityRow>,
}

/// What is due at an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Version,
    All,
}

/// When an endpoint was asked what it can do. Pure: time is an argument.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked {
    all: Option<Instant>,
    version: Option<Instant>,
    /// It was away since it was asked for its version.
    was_away: bool,
    /// It left something unanswered.
    is_incomplete: bool,
    pub(crate) client_version: Option<String>,
    /// The newest transaction that it took and may be asked to show.
    taken: Option<(B256, Instant)>,
    /// How many of them in a row it did not show.
    hidden: u32,
}

impl Asked {
    /// What is due now, for an endpoint that answers or does not.
    pub(crate) fn due(&mut self, answers: bool, now: Instant) -> Option<Due> {
        if !answers {
            self.was_away = true;
            return None;
        }
        let again = if self.is_incomplete { ASKED_AGAIN } else { ALL_ASKED };
        let passed = |since: Option<Instant>, time| {
            since.is_none_or(|since| now.duration_since(since) >= time)
        };
        if passed(self.all, again) {
            Some(Due::All)
        } else if self.was_away || passed(self.version, VERSION_ASKED) {
            Some(Due::Version)
        } else {
            None
        }
    }

    /// It was asked for its version. Whether it is another node than before.
    fn note_version(&mut self, version: Option<String>, now: Instant) -> bool {
        (self.version, self.was_away) = (Some(now), false);
        let Some(version) = version else { return false };
        let before = self.client_version.replace(version);
        before.is_some() && before != self.client_version
    }

    fn note_all(&mut self, is_complete: bool, now: Instant) {
        (self.all, self.is_incomplete) = (Some(now), !is_complete);
    }

    /// It took a transaction.
    pub(crate) fn note_taken(&mut self, hash: B256, now: Instant) {
        if self.taken.is_none_or(|(_, at)| now.duration_since(at) >= SHOWN_UNTIL) {
            self.taken = Some((hash, now));
        }
    }

    /// The transaction that it is to show now.
    fn take_due_to_show(&mut self, now: Instant) -> Option<B256> {
        let (hash, at) = self.taken?;
        if now.duration_since(at) < SHOWN_AFTER {
            return None;
        }
        self.taken = None;
        (now.duration_since(at) < SHOWN_UNTIL).then_some(hash)
    }

    /// Whether it shows transactions that are not mined, by what it said about one that it took.
    fn note_shown(&mut self, shown: Shown) -> Option<bool> {
        match shown {
            Shown::Pending => {
                self.hidden = 0;
                Some(true)
            }
            Shown::Nothing => {
                self.hidden += 1;
                (self.hidden >= HIDDEN).then_some(false)
            }
            Shown::Mined | Shown::Unanswered => None,
        }
    }
}

/// What an endpoint shows of a transaction that it took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Pending,
    Mined,
    Nothing,
    Unanswered,
}

fn read_shown(answer: Answer) -> Shown {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Told {
        #[serde(default)]
        block_number: Option<IgnoredAny>,
    }
    match read::<Told>(answer) {
        Ok(Some(Told { block_number: Some(_) })) => Shown::Mined,
        Ok(Some(_)) => Shown::Pending,
        Ok(None) => Shown::Nothing,
        Err(_) => Shown::Unanswered,
    }
}

impl ChainPool {
    /// Finds out what the endpoints can do, as far as that is due; at most times it asks nothing.
    /// Whoever runs the pool calls it now and then, in a task of its own.
    pub async fn learn(&self) {
        join_all(self.endpoints.iter().map(learn)).await;
    }

    /// What each endpoint can do, in the order of the configuration.
    pub fn capabilities(&self) -> Vec<EndpointCapabilities> {
        self.endpoints.iter().map(|endpoint| endpoint.capabilities()).collect()
    }
}

async fn learn(endpoint: &Arc<Endpoint>) {
    let (answers, now) = (endpoint.answers() && endpoint.rests().is_none(), Instant::now());
    let (due, shown) = {
        let mut asked = endpoint.asked();
        (asked.due(answers, now), asked.take_due_to_show(now).filter(|_| answers))
    };
    let work = async {
        if let Some(hash) = shown {
            let shown = read_shown(one(endpoint, &known_call(hash)).await);
            let shows = endpoint.asked().note_shown(shown);
            if let Some(shows) = shows {
                endpoint.learn(Capability::PendingTransactions, shows);
            }
        }
        match due {
            None => {}
            Some(Due::Version) if !ask_version(endpoint).await => {}
            Some(_) => ask_all(endpoint).await,
        }
    };
    if tokio::time::timeout(WITHIN, work).await.is_err() && due == Some(Due::All) {
        endpoint.asked().note_all(false, Instant::now());
    }
}

/// Asks what the node calls itself. Whether it is another one than before.
async fn ask_version(endpoint: &Endpoint) -> bool {
    let answer = one(endpoint, &Call::new(Method::ClientVersion, json!([]))).await;
    let version = read_some::<String>(answer).ok();
    let version = version.map(|it| endpoint.rpc.clean(it.trim(), VERSION_LIMIT));
    let version = version.filter(|it| !it.is_empty());
    let is_other = endpoint.asked().note_version(version, Instant::now());
    if is_other {
        let shown = endpoint.shown();
        let version = endpoint.asked().client_version.clone();
        tracing::info!(endpoint = shown, version, "another node is behind the address");
        endpoint.forget_capabilities();
    }
    is_other
}

/// Asks everything.
pub(crate) async fn ask_all(endpoint: &Endpoint) {
    let mut is_complete = true;
    ask_version(endpoint).await;
    let mut note = |capability, can: Option<bool>| match (capability, can) {
        // Asked of a block that is none, it shows only that the method is known.
        (Capability::BlockReceipts, Some(can)) => endpoint.learn_offered(capability, can),
        (_, Some(can)) => endpoint.learn(capability, can),
        (_, None) => is_complete = false,
    };
    if let Ok(Some(block)) = read_block(one(endpoint, &latest_call(With::Hashes)).await) {
        endpoint.note_block(&block);
    }
    for tag in Tag::ALL {
        let answer = one(endpoint, &tag_call(tag.name(), With::Hashes)).await;
        endpoint.note_tag(tag, tag_word(answer, tag));
    }
    let history = json!([quantity(1), "latest", [50.0]]);
    for (capability, method, params) in [
        (Capability::BlockReceipts, Method::BlockReceipts, json!([NO_BLOCK])),
        (Capability::FeeHistory, Method::FeeHistory, history),
        (Capability::MaxPriorityFee, Method::MaxPriorityFee, json!([])),
    ] {
        let answer = one(endpoint, &Call::new(method, params)).await;
        note(capability, offers_method(&answer));
    }
    // What it comes to is noted where it is asked. A refusal may have been learned in error, or may have
    // passed.
    let _ = estimate_anew(endpoint, &nothing_to_nobody()).await;
    ask_data_price(endpoint).await;
    endpoint.asked().note_all(is_complete, Instant::now());
}

/// Has a transfer with call data estimated, which shows what that costs, unless the blocks show it.
async fn ask_data_price(endpoint: &Endpoint) {
    if endpoint.knows(Capability::BaseFee) == Some(true) {
        return;
    }
    let estimate = stated_gas(estimate_of(endpoint, &data_to_nobody()).await);
    let is_dear = estimate.and_then(|gas| shows_dear_data(gas, DATA_BYTES as u64));
    is_dear.into_iter().for_each(|is_dear| endpoint.note_dear_data(is_dear));
}

/// How many bytes of call data are estimated.
const DATA_BYTES: usize = 100;

/// A transfer of nothing with call data, to an account that nobody has put code at.
fn data_to_nobody() -> Value {
    let data = Bytes::from(vec![0xff; DATA_BYTES]);
    json!({ "from": Address::ZERO, "to": Address::repeat_byte(0x5e), "value": U256::ZERO, "data": data })
}

/// A block that no chain has: whoever offers the method says so, and sends nothing large.
const NO_BLOCK: B256 = B256::repeat_byte(0x11);

/// A transfer of nothing, from nobody to nobody.
pub(crate) fn nothing_to_nobody() -> Value {
    json!({ "from": Address::ZERO, "to": Address::ZERO, "value": U256::ZERO })
}

/// Whether a method is offered, by an answer to it; `None` if that does not tell.
fn offers_method(answer: &Answer) -> Option<bool> {
    match answer {
        Ok(_) => Some(true),
        Err(error) if classify::is_unsupported(error) || classify::is_barred(error) => Some(false),
        Err(error) => classify::is_no_such_block(error).then_some(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::rpc::CallError;

    #[test]
    fn an_endpoint_is_asked_once_and_again_when_it_may_be_another() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        assert_eq!(asked.due(false, start), None);
        assert_eq!(asked.due(true, start), Some(Due::All));
        assert!(!asked.note_version(Some("geth/1".to_owned()), start));
        asked.note_all(true, start);
        assert_eq!(asked.due(true, start), None);
        assert_eq!(asked.due(true, start + VERSION_ASKED), Some(Due::Version));
        // It was away for a moment.
        assert_eq!(asked.due(false, start), None);
        assert_eq!(asked.due(true, start), Some(Due::Version));
        assert!(!asked.note_version(Some("geth/1".to_owned()), start));
        assert_eq!(asked.due(true, start), None);
        // It does not say for once.
        assert!(!asked.note_version(None, start));
        assert!(asked.note_version(Some("geth/2".to_owned()), start));
        assert_eq!(asked.due(true, start + ALL_ASKED), Some(Due::All));
        asked.note_all(false, start);
        assert_eq!(asked.due(true, start + ASKED_AGAIN), Some(Due::All));
    }

    #[test]
    fn whether_a_method_is_offered_is_read_from_its_answer() {
        let said = |code, message: &str| {
            Err(CallError::Said { code, message: message.to_owned(), data: None })
        };
        for (answer, expected) in [
            (Ok(to_raw_value(&json!(null)).unwrap().into()), Some(true)),
            (Ok(to_raw_value(&json!([])).unwrap().into()), Some(true)),
            (
                said(-32601, "the method eth_feeHistory does not exist/is not available"),
                Some(false),
            ),
            (said(-32600, "Unsupported method: eth_getBlockReceipts"), Some(false)),
            (said(-32000, "method not supported"), Some(false)),
            (said(-32000, "header not found"), Some(true)),
            (said(-32001, "unknown block"), Some(true)),
            (said(-32000, "block 0x11… not found"), Some(true)),
            (said(-32603, "Internal error"), None),
            (said(-32005, "rate limit reached"), None),
            (Err(CallError::Http(403)), Some(false)),
            (Err(CallError::Http(503)), None),
            (Err(CallError::Unreachable), None),
        ] {
            assert_eq!(offers_method(&answer), expected, "{answer:?}");
        }
    }

    #[test]
    fn an_endpoint_that_hides_what_is_not_mined_is_known_by_three() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        assert_eq!(asked.take_due_to_show(start), None);
        asked.note_taken(B256::ZERO, start);
        asked.note_taken(NO_BLOCK, start);
        assert_eq!(asked.take_due_to_show(start), None, "a moment later");
        assert_eq!(asked.take_due_to_show(start + SHOWN_AFTER), Some(B256::ZERO));
        assert_eq!(asked.take_due_to_show(start + SHOWN_AFTER), None, "once");
        asked.note_taken(NO_BLOCK, start);
        assert_eq!(asked.take_due_to_show(start + SHOWN_UNTIL), None, "too late to tell");
        let words = [Shown::Nothing, Shown::Mined, Shown::Unanswered, Shown::Nothing];
        assert!(words.into_iter().all(|shown| asked.note_shown(shown).is_none()));
        assert_eq!(asked.note_shown(Shown::Nothing), Some(false));
        assert_eq!(asked.note_shown(Shown::Pending), Some(true));
        assert_eq!(asked.note_shown(Shown::Nothing), None);
        for (told, expected) in [
            (json!(null), Shown::Nothing),
            (json!({ "hash": "0x1", "blockNumber": null }), Shown::Pending),
            (json!({ "hash": "0x1" }), Shown::Pending),
            (json!({ "hash": "0x1", "blockNumber": "0x1" }), Shown::Mined),
        ] {
            assert_eq!(read_shown(Ok(to_raw_value(&told).unwrap().into())), expected);
        }
    }
}
