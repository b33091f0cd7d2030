//! What was seen.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Instant;

use alloy_primitives::{B256, hex, keccak256};
use serde_json::Value;

/// The method that brings signed bytes to a chain node.
const SEND: &str = "eth_sendRawTransaction";

/// One call, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// When it came.
    pub at: Instant,
    /// Its method.
    pub method: String,
    /// Its parameters; null if it had none.
    pub params: Value,
    /// How many calls its request had: 1 outside a batch.
    pub batch: usize,
}

impl Seen {
    /// The signed transaction in it, if it brings one.
    pub(super) fn raw(&self) -> Option<&str> {
        (self.method == SEND).then(|| self.params[0].as_str()).flatten()
    }

    /// The hash of the signed transaction in it, if it brings one.
    pub(super) fn sent_hash(&self) -> Option<B256> {
        self.raw().map(hash)
    }
}

/// Signed bytes on their way to a chain node.
#[derive(Debug, Clone)]
pub struct SentRaw {
    /// When they came.
    pub at: Instant,
    /// The bytes, in hexadecimal, with a prefix.
    pub raw: String,
    /// The transaction's hash.
    pub hash: B256,
}

/// The hash of signed bytes; zero for what is no hexadecimal number.
fn hash(raw: &str) -> B256 {
    hex::decode(raw).map_or(B256::ZERO, keccak256)
}

/// All calls in the order they came.
#[derive(Debug, Default)]
pub(super) struct Log {
    calls: Mutex<Vec<Seen>>,
}

impl Log {
    pub(super) fn add(&self, calls: &[Seen]) {
        self.calls.lock().unwrap().extend_from_slice(calls);
    }

    pub(super) fn calls(&self) -> Vec<Seen> {
        self.calls.lock().unwrap().clone()
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for seen in &*self.calls.lock().unwrap() {
            *counts.entry(seen.method.clone()).or_insert(0) += 1;
        }
        counts
    }

    pub(super) fn sent_raw(&self) -> Vec<SentRaw> {
        let calls = self.calls.lock().unwrap();
        let sent = calls.iter().filter_map(|seen| Some((seen.at, seen.raw()?)));
        sent.map(|(at, raw)| SentRaw { at, raw: raw.to_owned(), hash: hash(raw) }).collect()
    }

    pub(super) fn reset(&self) {
        self.calls.lock().unwrap().clear();
    }
}
