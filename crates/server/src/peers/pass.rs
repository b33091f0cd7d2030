//! What a call that is passed on carries, and what proves that a node has sent it.
//!
//! A statement says who passes the call on to whom, when, under which number, with which body and on
//! whose behalf. An HMAC-SHA256 by a key that is made from the cluster's secret is over the statement
//! and the call itself. So neither the secret nor the caller's token leaves a node, and what was
//! signed for one call at one node is good for no other call, at no other node, and not twice.
//!
//! Nothing here reads a clock, knows a key or remembers anything: `hop` does.

use std::time::Duration;

use axum::http::{HeaderMap, Method};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use stile_domain::{Holder, Incarnation, KeyId, NodeId, Operation, Scope, SignerScope, Timestamp};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::ClusterSecret;
use super::original::TRAVELLING;

/// How old a statement may be, and how far ahead. By the database's clock, which all nodes go by: it
/// has to cover how long a call is on its way, and how far two nodes may misjudge that clock.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// What the first version of all this is called.
const VERSION: u8 = 1;

/// What a key is made for, so that the same secret never makes the same key for anything else.
const PURPOSE: &[u8] = b"stile: calls between nodes, version 1";

type HmacSha256 = Hmac<Sha256>;

/// The key that statements are signed by.
pub(super) struct PassKey(Zeroizing<[u8; 32]>);

/// On whose behalf a call is made: nobody's, where there are no keys, or a key's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Caller {
    key_id: Uuid,
    /// The operations of the key, by name.
    operations: Vec<String>,
    /// `all`, or the SHA-256 of the signers in their order: a key may be for thousands.
    signers: String,
}

impl Caller {
    pub(super) fn new(id: KeyId, scope: &Scope) -> Self {
        let operations = scope.operations().map(Operation::name).map(str::to_owned).collect();
        let signers = match scope.signers() {
            SignerScope::All => "all".to_owned(),
            SignerScope::Only(signers) => {
                let all = signers.iter().fold(Sha256::new(), Sha256::chain_update);
                hex(&all.finalize())
            }
        };
        Self { key_id: id.0, operations, signers }
    }

    pub(super) fn key(&self) -> KeyId {
        KeyId(self.key_id)
    }
}

/// What the sender states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Statement {
    version: u8,
    pub(super) from: String,
    from_start: Uuid,
    to: String,
    to_start: Uuid,
    at_ms: i64,
    pub(super) number: u64,
    body_sha256: String,
    /// `None` where there are no keys.
    pub(super) caller: Option<Caller>,
}

impl Statement {
    pub(super) fn new(
        from: &Holder,
        to: &Holder,
        at: Timestamp,
        number: u64,
        body: &[u8],
        caller: Option<Caller>,
    ) -> Self {
        Self {
            version: VERSION,
            from: from.node.0.clone(),
            from_start: from.incarnation.0,
            to: to.node.0.clone(),
            to_start: to.incarnation.0,
            at_ms: at.as_millisecond(),
            number,
            body_sha256: hex(&Sha256::digest(body)),
            caller,
        }
    }

    pub(super) fn sender(&self) -> Incarnation {
        Incarnation(self.from_start)
    }

    /// Whether it is meant for this start of this node.
    pub(super) fn is_for(&self, me: &Holder) -> bool {
        me.node == NodeId(self.to.clone()) && me.incarnation.0 == self.to_start
    }

    /// Whether it is neither too old nor from the future.
    pub(super) fn is_in_time(&self, now: Timestamp) -> bool {
        let apart = now.as_millisecond().abs_diff(self.at_ms);
        u128::from(apart) <= WINDOW.as_millis()
    }

    /// Whether this is the body that it was made for.
    pub(super) fn is_about(&self, body: &[u8]) -> bool {
        // Nothing secret is compared: the hash is in the statement, and both are the sender's.
        self.body_sha256 == hex(&Sha256::digest(body))
    }
}

/// Of a call, what is signed beside the statement.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) method: &'a Method,
    /// With the query.
    pub(super) path: &'a str,
    pub(super) headers: &'a HeaderMap,
}

impl PassKey {
    pub(super) fn new(secret: &ClusterSecret) -> Self {
        let made = mac(secret.as_bytes(), [PURPOSE].into_iter()).finalize();
        Self(Zeroizing::new(made.into_bytes().into()))
    }

    /// The statement and what proves it, as one header's value.
    pub(super) fn sign(&self, statement: &Statement, call: Call<'_>) -> String {
        // Its fields are texts and numbers, and there is no other way to fail.
        let text = serde_json::to_vec(statement).unwrap_or_default();
        let mut value = URL_SAFE_NO_PAD.encode(text);
        let proof = self.mac(&value, call).finalize().into_bytes();
        value.push('.');
        URL_SAFE_NO_PAD.encode_string(proof, &mut value);
        value
    }

    /// The statement in a header's value, if it was signed by this key for this call.
    pub(super) fn read(&self, value: &str, call: Call<'_>) -> Option<Statement> {
        let (text, proof) = value.split_once('.')?;
        let proof = URL_SAFE_NO_PAD.decode(proof).ok()?;
        // In a time that says nothing about where they differ.
        self.mac(text, call).verify_slice(&proof).ok()?;
        let statement = URL_SAFE_NO_PAD.decode(text).ok()?;
        let statement: Statement = serde_json::from_slice(&statement).ok()?;
        (statement.version == VERSION).then_some(statement)
    }

    fn mac(&self, statement: &str, call: Call<'_>) -> HmacSha256 {
        let parts = [statement, call.method.as_str(), call.path].map(str::as_bytes);
        let headers = TRAVELLING.iter().flat_map(|name| {
            let values = call.headers.get_all(*name).into_iter();
            values.flat_map(|value| [name.as_bytes(), value.as_bytes()])
        });
        mac(&*self.0, parts.into_iter().chain(headers))
    }
}

/// Each part goes in with its length, so that no two lists of parts look the same.
fn mac<'a>(key: &[u8], parts: impl Iterator<Item = &'a [u8]>) -> HmacSha256 {
    // An HMAC takes a key of any length.
    #[expect(clippy::expect_used, reason = "see above")]
    let mut mac = <HmacSha256 as Mac>::new_from_slice(key).expect("any length will do");
    for part in parts {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl std::fmt::Debug for PassKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PassKey(…)")
    }
}
