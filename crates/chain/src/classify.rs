//! What chain nodes mean by what they say. The only place that reads error texts.

use std::time::Duration;

use alloy::primitives::Bytes;
use alloy::sol_types::decode_revert_reason;
use serde::Serialize;
use serde_json::Value;

use crate::rpc::{CallError, TEXT_LIMIT};

/// What an endpoint's answer to a sent transaction means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendClass {
    /// It took the transaction.
    Accepted,
    /// It has it already, in its pool or on its chain.
    Known,
    /// The nonce is used up. By whom is for the receipts to tell.
    NonceTooLow,
    /// Earlier nonces are missing, and it keeps no transactions for later.
    NonceTooHigh,
    /// It offers less than the node or the next block asks for.
    Underpriced,
    /// Another transaction with this nonce is waiting, and this one does not offer enough more.
    ReplacementUnderpriced,
    /// The account cannot pay.
    InsufficientFunds,
    /// It will never be taken as it is.
    Rejected,
    /// An error about the transaction, in words that nobody has used before. To bytes that nobody
    /// has taken it is a no; to bytes that somebody may have, it means nothing.
    Unrecognised,
    /// The endpoint takes no transactions, whatever they are.
    ReadOnly,
    /// No answer, or none about the transaction: sending again may work.
    Transient,
}

impl SendClass {
    /// The name, as it is written down.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Known => "known",
            Self::NonceTooLow => "nonce-too-low",
            Self::NonceTooHigh => "nonce-too-high",
            Self::Underpriced => "underpriced",
            Self::ReplacementUnderpriced => "replacement-underpriced",
            Self::InsufficientFunds => "insufficient-funds",
            Self::Rejected => "rejected",
            Self::Unrecognised => "unrecognised",
            Self::ReadOnly => "read-only",
            Self::Transient => "transient",
        }
    }

    /// Whether a node has it now.
    pub fn is_taken(self) -> bool {
        matches!(self, Self::Accepted | Self::Known)
    }

    /// What several endpoints' answers come to.
    ///
    /// One endpoint that took or has the transaction is enough: nodes pass it on. Failing that, as
    /// long as one gave no answer it may yet take it. Failing that, the answer that says most
    /// counts: used-up nonces are facts of the chain, then what money can mend, then what time can
    /// mend. Rejected is the verdict only if everybody rejects who takes transactions at all.
    pub fn of_all(classes: impl IntoIterator<Item = Self>) -> Self {
        classes.into_iter().min_by_key(|class| class.rank()).unwrap_or(Self::Transient)
    }

    fn rank(self) -> u8 {
        match self {
            Self::Accepted => 0,
            Self::Known => 1,
            Self::Transient => 2,
            Self::NonceTooLow => 3,
            Self::InsufficientFunds => 4,
            Self::Underpriced => 5,
            Self::ReplacementUnderpriced => 6,
            Self::NonceTooHigh => 7,
            Self::Unrecognised => 8,
            Self::Rejected => 9,
            Self::ReadOnly => 10,
        }
    }
}

/// What a sent transaction's error means.
pub(crate) fn send_class(error: &CallError) -> SendClass {
    let (code, message, data) = match error {
        CallError::Said { code, message, data } => (code, message, data),
        CallError::Http(401 | 403 | 405) => return SendClass::ReadOnly,
        _ => return SendClass::Transient,
    };
    if *code == METHOD_NOT_FOUND {
        return SendClass::ReadOnly;
    }
    let text = words(message, data.as_deref());
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if says(&READ_ONLY)
        || NOT_FOR_YOU.iter().any(|phrase| text.starts_with(phrase))
        || (says(&METHOD) && says(&NOT_OFFERED))
    {
        return SendClass::ReadOnly;
    }
    for (class, phrases) in PHRASES {
        if says(phrases) {
            return *class;
        }
    }
    if let Some(class) = compare_nonces(&text) {
        return class;
    }
    match code {
        -32000 | -32003 | -32010 | -32602 => SendClass::Unrecognised,
        _ => SendClass::Transient,
    }
}

const METHOD_NOT_FOUND: i64 = -32601;

/// What endpoints say that take no transactions from anybody.
const READ_ONLY: [&str; 4] =
    ["read-only", "read only mode", "readonly", "publishing transactions not supported"];

/// The same, where an answer begins with it. In the middle it may be about a signature: Cosmos ends
/// with it what it does not like about one.
const NOT_FOR_YOU: [&str; 2] = ["unauthorized", "forbidden"];

/// The same about the method, in two parts.
const METHOD: [&str; 2] = ["method", "eth_sendrawtransaction"];
const NOT_OFFERED: [&str; 9] = [
    "not found",
    "not supported",
    "unsupported",
    "does not exist",
    "not available",
    "not allowed",
    "not whitelisted",
    "not enabled",
    "disabled",
];

/// Whether an endpoint says that it is asked too often, and if so when to come back, where it says
/// that too.
pub(crate) fn rate_limit(error: &CallError) -> Option<Option<Duration>> {
    match error {
        CallError::Limited(retry_after) => Some(*retry_after),
        CallError::Said { code, message, data } => {
            // Besu has this code for something else.
            if send_class(error) != SendClass::Transient {
                return None;
            }
            let text = words(message, data.as_deref());
            let limited = matches!(code, -32005 | 429)
                || TOO_OFTEN.iter().any(|phrase| text.contains(phrase));
            limited.then(|| data.as_deref().and_then(retry_after))
        }
        _ => None,
    }
}

const TOO_OFTEN: [&str; 5] =
    ["rate limit", "ratelimit", "too many requests", "request count exceeded", "throttle"];

/// When to come back, in an error's data: in seconds, as gateways put it there.
pub(crate) fn retry_after(data: &Value) -> Option<Duration> {
    let told = [
        // No provider documents these for certain; one that uses none of them gets our own pauses.
        data.pointer("/rate/backoff_seconds"),
        data.get("backoff_seconds"),
        data.get("retry_after"),
        data.get("retryAfter"),
        data.get("retry-after"),
    ];
    let seconds = told.into_iter().flatten().find_map(|told| {
        told.as_f64().or_else(|| told.as_str()?.trim().trim_end_matches('s').parse().ok())
    })?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// What nodes say, in lower case. The first row that fits decides, so the more particular rows
/// come first: "replacement transaction underpriced" before "transaction underpriced", and what
/// gateways say of themselves before anything that gives a transaction up.
const PHRASES: &[(SendClass, &[&str])] = &[
    (
        SendClass::Known,
        &[
            "already known",
            "alreadyknown",
            "already imported",
            "already in the system",
            "known transaction",
            "existing txn with same hash",
            "existing tx with same hash",
            "tx already exists in cache",
            "tx already in mempool",
        ],
    ),
    (
        SendClass::ReplacementUnderpriced,
        &[
            "replacement transaction underpriced",
            "replacementnotallowed",
            "replacement gas too low",
            "could not replace existing tx",
            "there is another transaction with same nonce in the queue",
        ],
    ),
    (
        SendClass::NonceTooLow,
        &[
            "nonce too low",
            "nonce is too low",
            "oldnonce",
            "below sender account nonce",
            "nonce is lower than account nonce",
        ],
    ),
    (
        SendClass::NonceTooHigh,
        &[
            "nonce too high",
            "nonce is too high",
            "noncegap",
            "noncetoofarinfuture",
            "nonce too far in future",
            "nonce is too distant",
            "gapped-nonce",
            "gapped nonce",
            "does not match sender account nonce",
            "nonce is higher than account nonce",
        ],
    ),
    (
        SendClass::InsufficientFunds,
        &[
            "insufficient funds",
            "insufficientfunds",
            "insufficient balance",
            "insufficient sender balance",
            "insufficient maxfeepergas",
            "doesn't have enough funds",
            "does not have enough balance",
            "not enough balance",
            "upfront cost exceeds account balance",
            "up-front cost",
            "overdraft",
        ],
    ),
    (
        SendClass::Underpriced,
        &[
            "underpriced",
            "feetoolow",
            "fee too low",
            "fee cap less than block base fee",
            "max fee per gas less than block base fee",
            "is too low for the next block",
            "gas price below",
            "gas price too low",
            "below minimum: gas tip cap",
            "does not pay the minimum gas price",
            "cannot pay basefee",
            "insufficient fee",
        ],
    ),
    (
        SendClass::Transient,
        &[
            "rate limit",
            "ratelimit",
            "too many requests",
            "request count exceeded",
            "capacity",
            "quota",
            "response too large",
            "batch",
            "upstream",
            "gateway",
            "connection",
            "overloaded",
            "internal error",
            "api key",
            "throttle",
            "header not found",
            "missing trie node",
            "syncing",
            "sync is still in progress",
            "timeout",
            "timed out",
            "try again",
            "unavailable",
            "is full",
            "pool not enabled",
            "account limit exceeded",
            "in-flight transaction limit",
            "future transaction tries to replace pending",
            "already reserved",
            "temporarily",
            "deadline exceeded",
            "to any of the forwarding targets",
            "currently not accepting",
            "same nonce is in progress",
            "shutting down",
            "queue full",
            "filtered out",
        ],
    ),
    (
        SendClass::Rejected,
        &[
            "intrinsic gas",
            "intrinsicgas",
            "exceeds block gas limit",
            "exceeds the block gas limit",
            "gaslimitexceeded",
            "gas limit reached",
            "oversized data",
            "initcode",
            "invalid sender",
            "nonce has max value",
            "rlp: ",
            "typed transaction too short",
            "transaction type not supported",
            "invalid signature",
            "invalidtxsignature",
            "invalid chain id",
            "wrong chain id",
            "sender not an eoa",
            "senderiscontract",
            "not authorized to send",
            "transaction type not supported",
            "exceeds the configured cap",
            "fee cap exceeded",
            "max priority fee per gas higher than max fee per gas",
            "only replay-protected",
            "out of gas",
            "tx too large",
            "sender is not eoa",
            "sender is not on the whitelist",
            "is not in the allow list",
            "non-allow listed address",
            "exceeds maximum per-transaction gas limit",
            "transaction gas limit too high",
            "insufficient gas for floor data",
            "in black list",
        ],
    ),
];

/// Of what is rejected, what a node has against it by its own settings: another one may take it.
const OWN_RULES: [&str; 10] = [
    "exceeds the configured cap",
    "fee cap exceeded",
    "only replay-protected",
    "oversized data",
    "tx too large",
    "not authorized to send",
    "sender is not on the whitelist",
    "is not in the allow list",
    "non-allow listed address",
    "in black list",
];

/// Whether an endpoint rejects a transaction by a rule of its own, and not by one of the chain.
pub(crate) fn is_own_rule(error: &CallError) -> bool {
    let CallError::Said { message, data, .. } = error else { return false };
    let text = words(message, data.as_deref());
    send_class(error) == SendClass::Rejected && OWN_RULES.iter().any(|phrase| text.contains(phrase))
}

/// Ganache, EthereumJS and Cosmos name both nonces and leave the comparison to the reader. Where
/// Cosmos names none, it is tried again: blocks tell if the nonce is used up.
fn compare_nonces(text: &str) -> Option<SendClass> {
    let (account, transaction) = if let Some((_, numbers)) = text.split_once("correct nonce") {
        let mut numbers = numbers
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse::<u64>().ok());
        (numbers.next()?, numbers.next()?)
    } else if text.contains("invalid nonce") || text.contains("account sequence") {
        match (number_after(text, "expected "), number_after(text, "got ")) {
            (Some(expected), Some(got)) => (expected, got),
            _ if text.contains("incorrect account sequence") => {
                return Some(SendClass::NonceTooHigh);
            }
            _ => return None,
        }
    } else {
        return None;
    };
    Some(if transaction < account { SendClass::NonceTooLow } else { SendClass::NonceTooHigh })
}

fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Whether a node or a gateway says that it did not hear in time from whoever it passed a
/// transaction on to, so that it may have arrived.
pub(crate) fn may_have_been_passed_on(error: &CallError) -> bool {
    let CallError::Said { message, data, .. } = error else { return false };
    let text = words(message, data.as_deref());
    send_class(error) == SendClass::Transient
        && ["timeout", "timed out", "deadline exceeded", "upstream", "gateway", "connection"]
            .iter()
            .any(|phrase| text.contains(phrase))
}

/// Message and, where it has words, data: some nodes put the reason there.
fn words(message: &str, data: Option<&Value>) -> String {
    let more = match data {
        Some(Value::String(text)) if !text.starts_with("0x") => text.as_str(),
        Some(Value::Object(fields)) => fields.get("message").and_then(Value::as_str).unwrap_or(""),
        _ => "",
    };
    format!("{message} {more}").to_lowercase()
}

/// A node's no to a transaction that was only tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    Reverted {
        reason: String,
        data: Option<Bytes>,
    },
    /// In words that are known to be about the transaction.
    Refused(String),
    /// In words that nobody has used before: it may be about the transaction, or about the node.
    Unrecognised(String),
}

/// The code that geth and those who follow it use for reverts.
const REVERTED: i64 = 3;

/// What a node has against a transaction; `None` if the error says nothing about it.
pub(crate) fn refusal(error: &CallError) -> Option<Refusal> {
    let CallError::Said { code, message, data } = error else { return None };
    let returned = data.as_deref().and_then(revert_data);
    let text = words(message, data.as_deref());
    if *code == REVERTED || returned.is_some() || text.contains("revert") {
        let decoded = returned.as_ref().and_then(|data| decode_revert_reason(data));
        let reason = decoded.as_deref().unwrap_or(message);
        let reason = reason.strip_prefix("revert: ").unwrap_or(reason);
        return Some(Refusal::Reverted { reason: shorten(reason), data: returned });
    }
    let in_trouble = IN_TROUBLE_CODES.contains(code)
        || message.trim().eq_ignore_ascii_case("internal error")
        || IN_TROUBLE.iter().any(|phrase| text.contains(phrase));
    if in_trouble {
        return None;
    }
    let is_known = TRIED.iter().any(|phrase| text.contains(phrase))
        || PHRASES.iter().any(|(class, phrases)| {
            matches!(class, SendClass::InsufficientFunds | SendClass::Rejected)
                && phrases.iter().any(|phrase| text.contains(phrase))
        });
    let words = shorten(message);
    Some(if is_known { Refusal::Refused(words) } else { Refusal::Unrecognised(words) })
}

/// Whether the words are known to be about a transaction that was sent.
pub(crate) fn is_about_a_transaction(error: &CallError) -> bool {
    !matches!(
        send_class(error),
        SendClass::Unrecognised | SendClass::ReadOnly | SendClass::Transient
    )
}

/// What nodes say of a transaction that was tried and failed inside the machine, besides what they
/// say of one that was sent.
const TRIED: [&str; 12] = [
    "gas required exceeds",
    "always failing transaction",
    "opcode",
    "bad instruction",
    "bad jump",
    "invalid jump",
    "stack underflow",
    "stack limit reached",
    "write protection",
    "max code size",
    "evm error",
    "vm exception",
];

/// Codes of errors that are about the node or the question's form, not about the transaction.
const IN_TROUBLE_CODES: [i64; 8] = [-32700, -32600, -32601, -32001, -32002, -32005, -32016, 429];

/// The same in words.
const IN_TROUBLE: [&str; 16] = [
    "rate limit",
    "too many requests",
    "header not found",
    "missing trie node",
    "unknown block",
    "timeout",
    "timed out",
    "try again",
    "temporarily",
    "unavailable",
    "not ready",
    "syncing",
    "busy",
    "overloaded",
    "capacity",
    "connection",
];

/// What a contract returned, wherever a node puts it: as `data`, behind a word, or one level down.
fn revert_data(data: &Value) -> Option<Bytes> {
    match data {
        Value::String(text) => {
            let hex = text.strip_prefix("Reverted ").unwrap_or(text).trim();
            hex.starts_with("0x").then(|| hex.parse().ok()).flatten()
        }
        Value::Object(fields) => {
            ["data", "result"].iter().find_map(|name| match fields.get(*name)? {
                text @ Value::String(_) => revert_data(text),
                _ => None,
            })
        }
        _ => None,
    }
}

fn shorten(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_LIMIT).collect()
}

/// Whether an endpoint does not offer a method, or not in this form.
pub(crate) fn is_unsupported(error: &CallError) -> bool {
    let CallError::Said { code, message, .. } = error else { return false };
    let text = message.to_lowercase();
    let is_about_a_method = ["method", "eth_", "web3_"].iter().any(|name| text.contains(name));
    matches!(code, -32601 | -32602 | -32004)
        || (is_about_a_method && NOT_OFFERED.iter().any(|phrase| text.contains(phrase)))
}

/// Whether an endpoint that answers other questions shuts out this one, by its HTTP status.
pub(crate) fn is_barred(error: &CallError) -> bool {
    matches!(error, CallError::Http(401 | 403 | 404 | 405 | 410 | 501))
}

/// Whether a transaction is refused for its kind, whatever is in it.
pub(crate) fn is_about_the_type(error: &CallError) -> bool {
    let CallError::Said { message, .. } = error else { return false };
    let text = message.to_lowercase();
    let phrases = [
        "transaction type not supported",
        "transaction type is not supported",
        "unsupported transaction type",
        "unknown transaction type",
        "invalid transaction type",
        "tx type not supported",
    ];
    phrases.iter().any(|phrase| text.contains(phrase))
}

/// Whether an endpoint says that it does not have a block, and so that it has looked for it.
pub(crate) fn is_no_such_block(error: &CallError) -> bool {
    let CallError::Said { message, .. } = error else { return false };
    let text = message.to_lowercase();
    let says = |phrase| text.contains(phrase);
    says("header not found") || (says("block") && (says("not found") || says("unknown")))
}

#[cfg(test)]
mod tests {
    use SendClass::*;
    use serde_json::json;

    use super::*;
    use crate::WORDINGS;

    fn said(code: i64, message: &str) -> CallError {
        CallError::Said { code, message: message.to_owned(), data: None }
    }

    /// What says nothing, what nobody has said before, and what nodes say to other questions.
    const STRANGE: &[(&str, SendClass, i64, &str)] = &[
        ("Nethermind", InsufficientFunds, -32000, "insufficient sender balance"),
        ("any", Transient, -32603, "Internal error"),
        ("any", Transient, 0, ""),
        ("any", Unrecognised, -32000, "words that nobody has used before"),
        ("any", Unrecognised, -32602, "invalid argument 0: json: cannot unmarshal"),
    ];

    #[test]
    fn every_node_is_understood() {
        for (node, class, code, message) in WORDINGS.iter().chain(STRANGE) {
            assert_eq!(send_class(&said(*code, message)), *class, "{node}: {message}");
        }
    }

    #[test]
    fn no_answer_says_nothing_about_the_transaction() {
        let timeout = CallError::Timeout(std::time::Duration::from_secs(3).into());
        for error in
            [timeout, CallError::Unreachable, CallError::Http(502), CallError::Limited(None)]
        {
            assert_eq!(send_class(&error), Transient);
            assert_eq!(refusal(&error), None);
        }
    }

    /// Fails if an endpoint that takes no transactions is taken for one that may yet take this one.
    #[test]
    fn hole_25_an_endpoint_that_takes_no_transactions_says_so_in_many_ways() {
        for status in [401, 403, 405] {
            assert_eq!(send_class(&CallError::Http(status)), ReadOnly);
        }
        for (code, message) in [
            (-32601, "Method not found"),
            (-32601, "the method eth_sendRawTransaction does not exist/is not available"),
            (-32004, "Method not supported"),
            (-32000, "Unsupported method: eth_sendRawTransaction"),
            (-32000, "eth_sendRawTransaction is not allowed on this endpoint"),
            (-32600, "method is not whitelisted"),
            (-32000, "this node is read-only"),
            // OffchainLabs/nitro: execution/gethexec/forwarder.go.
            (-32000, "publishing transactions not supported by this endpoint"),
            (-32000, "Forbidden"),
        ] {
            assert_eq!(send_class(&said(code, message)), ReadOnly, "{message}");
        }
        // The same numbers and words, about a transaction.
        assert_eq!(
            send_class(&said(-32004, "Upfront cost exceeds account balance")),
            InsufficientFunds
        );
        assert_eq!(send_class(&said(-32000, "transaction type not supported")), Rejected);
        let signature = "signature verification failed: unauthorized";
        assert_eq!(send_class(&said(-32000, signature)), Unrecognised);
    }

    #[test]
    fn hole_25_when_to_come_back_is_read_where_gateways_put_it() {
        let seconds = |count| Some(Some(Duration::from_secs(count)));
        for (code, message, data, expected) in [
            (-32005, "limit", json!({ "rate": { "backoff_seconds": 30 } }), seconds(30)),
            (429, "slow down", json!({ "retry_after": 7 }), seconds(7)),
            (-32000, "Too Many Requests", json!({ "retryAfter": "12s" }), seconds(12)),
            (-32000, "rate limit exceeded", json!({ "retry_after": -4 }), Some(None)),
            (-32005, "limit", Value::Null, Some(None)),
            (-32005, "Transaction gas limit exceeds block gas limit", Value::Null, None),
            (-32000, "nonce too low", json!({ "retry_after": 7 }), None),
        ] {
            let error =
                CallError::Said { code, message: message.to_owned(), data: Some(data.into()) };
            assert_eq!(rate_limit(&error), expected, "{message}");
        }
        assert_eq!(rate_limit(&CallError::Limited(Some(Duration::from_secs(3)))), seconds(3));
        assert_eq!(rate_limit(&CallError::Http(503)), None);
    }

    #[test]
    fn the_verdict_is_the_answer_that_says_most() {
        let all = [
            Accepted,
            Known,
            Transient,
            NonceTooLow,
            InsufficientFunds,
            Underpriced,
            ReplacementUnderpriced,
            NonceTooHigh,
            Unrecognised,
            Rejected,
            ReadOnly,
        ];
        // Each one prevails over all that come after it, in whatever order they come.
        for (place, class) in all.iter().enumerate() {
            assert_eq!(SendClass::of_all(all[place..].iter().copied()), *class);
            assert_eq!(SendClass::of_all(all[place..].iter().rev().copied()), *class);
        }
        assert_eq!(SendClass::of_all([Rejected, Rejected]), Rejected);
        assert_eq!(SendClass::of_all([]), Transient);
    }

    #[test]
    fn names_are_what_is_serialized() {
        for class in [Accepted, NonceTooLow, ReplacementUnderpriced, InsufficientFunds] {
            assert_eq!(serde_json::to_value(class).unwrap(), json!(class.name()));
        }
    }

    /// `Error("no luck")`, as a contract returns it.
    const NO_LUCK: &str = "0x08c379a00000000000000000000000000000000000000000000000000000000000000020\
        00000000000000000000000000000000000000000000000000000000000000076e6f206c75636b00000000000000\
        000000000000000000000000000000000000";

    #[test]
    fn reverts_are_read_wherever_nodes_put_them() {
        let nethermind = format!("Reverted {NO_LUCK}");
        for (code, message, data) in [
            (3, "execution reverted: no luck", json!(NO_LUCK)),
            (-32000, "Execution reverted", json!(NO_LUCK)),
            (-32015, "VM execution error.", json!(nethermind)),
            (-32603, "Error: VM Exception", json!({ "message": "reverted", "data": NO_LUCK })),
        ] {
            let error =
                CallError::Said { code, message: message.to_owned(), data: Some(data.into()) };
            let Some(Refusal::Reverted { reason, data }) = refusal(&error) else {
                panic!("{message}");
            };
            assert!(reason.contains("no luck"), "{reason}");
            assert!(data.is_some());
        }
    }

    #[test]
    fn panics_and_silent_reverts_are_reverts_too() {
        let overflow = format!("0x4e487b71{:064x}", 0x11);
        let error = CallError::Said {
            code: 3,
            message: "execution reverted".to_owned(),
            data: Some(json!(overflow).into()),
        };
        let Some(Refusal::Reverted { reason, .. }) = refusal(&error) else { panic!() };
        assert!(reason.contains("overflow"), "{reason}");
        let silent = refusal(&said(3, "execution reverted"));
        let reason = "execution reverted".to_owned();
        assert_eq!(silent, Some(Refusal::Reverted { reason, data: None }));
    }

    #[test]
    fn hole_25_a_rule_of_the_chain_is_told_from_one_of_a_node() {
        for (message, expected) in [
            ("tx fee (1.20 ether) exceeds the configured cap (1.00 ether)", true),
            ("only replay-protected (EIP-155) transactions allowed over RPC", true),
            ("intrinsic gas too low: gas 20000, minimum needed 21000", false),
            ("exceeds block gas limit", false),
            ("insufficient funds for gas * price + value", false),
            ("the oracle is out to lunch", false),
        ] {
            assert_eq!(is_own_rule(&said(-32000, message)), expected, "{message}");
        }
    }

    #[test]
    fn a_no_is_told_from_no_answer() {
        let anvil = said(-32603, "EVM error InvalidFEOpcode");
        assert!(matches!(refusal(&anvil), Some(Refusal::Refused(_))), "the machine's own word");
        for (code, message) in [
            (-32000, "gas required exceeds allowance (0)"),
            (-32000, "insufficient funds for transfer"),
            (-32003, "Out of gas: gas required exceeds allowance: 0"),
            (-32000, "invalid opcode: INVALID"),
        ] {
            let refused = Refusal::Refused(message.to_owned());
            assert_eq!(refusal(&said(code, message)), Some(refused));
        }
        let strange = "the oracle is out to lunch";
        let unrecognised = Some(Refusal::Unrecognised(strange.to_owned()));
        assert_eq!(refusal(&said(-32000, strange)), unrecognised);
        assert_eq!(refusal(&said(-32603, "Internal error")), None);
        assert_eq!(refusal(&said(-32005, "rate limit reached")), None);
    }

    #[test]
    fn a_method_that_is_not_offered_is_known_by_its_error() {
        let geth = "the method eth_getBlockReceipts does not exist/is not available";
        assert!(is_unsupported(&said(-32601, geth)));
        for (code, message) in [
            (-32000, "Unsupported method: eth_getBlockReceipts"),
            (-32600, "Unsupported method"),
            (-32000, "method not found"),
            (-32000, "the method eth_getBlockReceipts does not exist"),
            (-32000, "eth_getBlockReceipts is not available on this plan"),
            (-32603, "Method eth_getBlockReceipts not supported."),
            (-32000, "eth_feeHistory is disabled"),
        ] {
            assert!(is_unsupported(&said(code, message)), "{message}");
        }
        assert!(!is_unsupported(&said(-32000, "block not found")));
        assert!(!is_unsupported(&said(-32603, "Internal error")));
        assert!(!is_unsupported(&CallError::Unreachable));
    }
}
