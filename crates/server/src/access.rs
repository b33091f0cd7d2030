//! Who is asking, what that lets them do, and what each call needs.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::{Extensions, Method, request};
use stile_domain::{Address, KeyId, Networks, Operation, Scope, SignerScope, TokenHash};

use crate::code::Code;
use crate::key_use::KeyUse;
use crate::problem::Problem;

/// What lets its owner in: a key, as it is kept in memory.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) id: KeyId,
    pub(crate) hash: TokenHash,
    pub(crate) scope: Scope,
    /// Where it may be used from; `None` for anywhere.
    pub(crate) networks: Option<Networks>,
    /// When it was used.
    pub(crate) used: Arc<KeyUse>,
    /// When it ends; `None` for never.
    pub(crate) until: Option<Instant>,
}

impl Pass {
    pub(crate) fn in_time(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// On whose behalf a call is made. The layer in `bearer` puts it into every request that it lets
/// through; a handler that needs a lane cannot ask for one without it.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    /// There are no keys, and only this machine can ask.
    Open,
    /// By this key.
    Key(Arc<Pass>),
}

impl Access {
    /// On whose behalf a request is made that was let through.
    pub(crate) fn of(parts: &request::Parts) -> Result<Self, Problem> {
        // Absent only if a handler of an open path asks for it, which is a mistake in this crate.
        let absent = || Problem::new(Code::Internal, "nobody checked who is asking");
        parts.extensions.get::<Self>().cloned().ok_or_else(absent)
    }

    /// The key, if there is one.
    pub(crate) fn key(&self) -> Option<KeyId> {
        match self {
            Self::Open => None,
            Self::Key(pass) => Some(pass.id),
        }
    }

    /// Whether this signer's transactions and nonces exist, as far as the caller may know.
    pub(crate) fn sees(&self, signer: Address) -> bool {
        match self {
            Self::Open => true,
            Self::Key(pass) => pass.scope.signers().covers(signer),
        }
    }

    /// Whether all signers may be seen.
    pub(crate) fn sees_all(&self) -> bool {
        match self {
            Self::Open => true,
            Self::Key(pass) => *pass.scope.signers() == SignerScope::All,
        }
    }

    /// Whether it may be used from the address that the call comes from. What has no address, so
    /// nobody knows where it comes from, is let in by no key that is bound to some.
    pub(crate) fn is_from(&self, peer: Option<IpAddr>) -> bool {
        let Self::Key(pass) = self else { return true };
        let Some(networks) = &pass.networks else { return true };
        if peer.is_some_and(|peer| networks.cover(peer)) {
            return true;
        }
        if pass.used.may_warn() {
            let from = peer.map(tracing::field::display);
            tracing::warn!(key = %pass.id, from, "an API key was used from where it may not be");
        }
        false
    }

    /// The key is used, and that is told to whoever lists keys.
    pub(crate) fn note_use(&self) {
        if let Self::Key(pass) = self {
            pass.used.note();
        }
    }

    /// Refuses what the key is not for.
    pub(crate) fn check(&self, need: Need) -> Result<(), Problem> {
        let Self::Key(pass) = self else { return Ok(()) };
        if !pass.scope.permits(need.operation) {
            let detail = format!("this call needs the operation {}", need.operation);
            return Err(Problem::new(Code::Forbidden, detail));
        }
        if need.all_signers && !self.sees_all() {
            let detail =
                format!("this call needs the operation {} for all signers", need.operation);
            return Err(Problem::new(Code::Forbidden, detail));
        }
        Ok(())
    }
}

impl fmt::Display for Access {
    /// For logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("none"),
            Self::Key(pass) => pass.id.fmt(f),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut request::Parts, _: &S) -> Result<Self, Problem> {
        Self::of(parts)
    }
}

/// The address at the other end of the connection.
pub(crate) fn peer(extensions: &Extensions) -> Option<IpAddr> {
    let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
    Some(peer.ip())
}

/// What a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) operation: Operation,
    pub(crate) all_signers: bool,
}

/// Paths that need no key. They say nothing about anybody's transactions.
const OPEN: [&str; 8] = [
    "/",
    "/docs",
    "/docs/",
    "/docs/swagger-ui.css",
    "/docs/swagger-ui.js",
    "/health/live",
    "/health/ready",
    "/openapi.json",
];

/// What a call to this path needs; `None` for what is open to everybody. Whatever nobody thought
/// of is for admins.
pub(crate) fn needed(method: &Method, path: &str) -> Option<Need> {
    if OPEN.contains(&path) {
        return None;
    }
    let under = |place: &str| {
        path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let look = [Method::GET, Method::HEAD].contains(method);
    let tell = *method == Method::POST;
    let operation = match () {
        () if under("/api/v1/keys") => Operation::Admin,
        // A connection is for nodes, which speak of themselves.
        () if path == "/api/v1/nodes/connect" => Operation::Operate,
        () if look => Operation::Read,
        // A person's word about what was sent before a restore.
        () if tell && under("/api/v1/tx") && path.ends_with("/restored") => Operation::Operate,
        () if tell && (under("/api/v1/tx") || under("/api/v1/nonces")) => Operation::Send,
        () if tell && (under("/api/v1/dispatch") || under("/api/v1/jobs")) => Operation::Send,
        () if tell && under("/api/v1/signers") => Operation::Operate,
        () if under("/api/v1/nodes") || under("/api/v1/registry") => Operation::Operate,
        () => Operation::Admin,
    };
    // Metrics add up what all signers do.
    Some(Need { operation, all_signers: path == "/metrics" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn need(method: &str, path: &str) -> Option<(Operation, bool)> {
        let need = needed(&method.parse().unwrap(), path);
        need.map(|need| (need.operation, need.all_signers))
    }

    /// Every call of the API; one that is added must be added here.
    #[test]
    fn every_call_needs_what_it_should() {
        use Operation::{Admin, Operate, Read, Send};
        let table = [
            ("GET", "/api/v1/chains", Some((Read, false))),
            ("GET", "/api/v1/chains/{chainId}", Some((Read, false))),
            ("GET", "/api/v1/events", Some((Read, false))),
            ("GET", "/api/v1/keys", Some((Admin, false))),
            ("POST", "/api/v1/keys", Some((Admin, false))),
            ("DELETE", "/api/v1/keys/{keyId}", Some((Admin, false))),
            ("POST", "/api/v1/keys/{keyId}/rotate", Some((Admin, false))),
            ("POST", "/api/v1/dispatch", Some((Send, false))),
            ("POST", "/api/v1/jobs/{id}/complete", Some((Send, false))),
            ("GET", "/api/v1/nodes", Some((Read, false))),
            ("GET", "/api/v1/nodes/connect", Some((Operate, false))),
            ("GET", "/api/v1/nodes/{id}", Some((Read, false))),
            ("PUT", "/api/v1/nodes/{id}", Some((Operate, false))),
            ("DELETE", "/api/v1/nodes/{id}", Some((Operate, false))),
            ("POST", "/api/v1/nodes/{id}/heartbeat", Some((Operate, false))),
            ("GET", "/api/v1/pools/{id}/members", Some((Read, false))),
            ("GET", "/api/v1/pools/{id}/select", Some((Read, false))),
            ("GET", "/api/v1/registry/config/{name}", Some((Read, false))),
            ("PUT", "/api/v1/registry/config/{name}", Some((Operate, false))),
            ("GET", "/api/v1/nonces/{signer}", Some((Read, false))),
            ("POST", "/api/v1/nonces/{signer}/allocate", Some((Send, false))),
            ("POST", "/api/v1/nonces/{signer}/{nonce}/recyclable", Some((Send, false))),
            ("POST", "/api/v1/nonces/{signer}/{nonce}/used", Some((Send, false))),
            ("GET", "/api/v1/route", Some((Read, false))),
            ("GET", "/api/v1/signers", Some((Read, false))),
            ("GET", "/api/v1/signers/{signer}", Some((Read, false))),
            ("GET", "/api/v1/signers/{signer}/doctor", Some((Read, false))),
            ("GET", "/api/v1/signers/{signer}/history", Some((Read, false))),
            ("POST", "/api/v1/signers/{signer}/pause", Some((Operate, false))),
            ("POST", "/api/v1/signers/{signer}/reconcile", Some((Operate, false))),
            ("POST", "/api/v1/signers/{signer}/repair", Some((Operate, false))),
            ("GET", "/api/v1/signers/{signer}/restored", Some((Read, false))),
            ("POST", "/api/v1/signers/{signer}/restored", Some((Operate, false))),
            ("POST", "/api/v1/signers/{signer}/resume", Some((Operate, false))),
            ("GET", "/api/v1/tx", Some((Read, false))),
            ("POST", "/api/v1/tx", Some((Send, false))),
            ("POST", "/api/v1/tx/batch", Some((Send, false))),
            ("GET", "/api/v1/tx/by-request", Some((Read, false))),
            ("GET", "/api/v1/tx/{txId}", Some((Read, false))),
            ("GET", "/api/v1/tx/{txId}/attempts", Some((Read, false))),
            ("POST", "/api/v1/tx/{txId}/cancel", Some((Send, false))),
            ("GET", "/api/v1/tx/{txId}/confirmations", Some((Read, false))),
            ("GET", "/api/v1/tx/{txId}/history", Some((Read, false))),
            ("POST", "/api/v1/tx/{txId}/restored", Some((Operate, false))),
            ("POST", "/api/v1/tx/{txId}/speed-up", Some((Send, false))),
            ("GET", "/health/live", None),
            ("GET", "/health/ready", None),
            ("GET", "/metrics", Some((Read, true))),
        ];
        let document = serde_json::to_value(crate::openapi()).unwrap();
        let mut calls = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            for method in methods.as_object().unwrap().keys() {
                calls.push((method.to_uppercase(), path.clone()));
            }
        }
        calls.sort_by(|(a, one), (b, other)| (one, a).cmp(&(other, b)));
        let mut listed = table.map(|(method, path, _)| (method.to_owned(), path.to_owned()));
        listed.sort_by(|(a, one), (b, other)| (one, a).cmp(&(other, b)));
        assert_eq!(calls, listed);
        for (method, path, expected) in table {
            assert_eq!(need(method, path), expected, "{method} {path}");
        }
    }

    #[test]
    fn what_nobody_thought_of_is_for_admins() {
        for (method, path) in [
            ("PUT", "/api/v1/tx"),
            ("DELETE", "/api/v1/tx/1"),
            ("POST", "/rpc"),
            ("POST", "/api/v1/txs"),
            ("PATCH", "/metrics"),
        ] {
            assert_eq!(need(method, path).unwrap().0, Operation::Admin, "{method} {path}");
        }
        for path in ["/nowhere", "/docs/../api/v1/tx", "//", "/health/live/"] {
            assert!(need("GET", path).is_some(), "{path}");
        }
    }
}
