//! Calls that another node has passed on: whether it was a node, and on whose behalf.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue};
use stile_domain::{Holder, KeyId, Scope, Timestamp};

use super::pass::{Call, Caller, PassKey, Statement, WINDOW};
use super::replays::{Replays, Taken};
use crate::code::Code;
use crate::problem::Problem;

/// Says that a node has passed the call on, and which.
pub(super) const FORWARDED: &str = "stile-forwarded";

/// The sender's statement, and what proves it.
pub(super) const PASS: &str = "stile-pass";

/// The largest body that is passed on.
const LARGEST_BODY_BYTES: usize = crate::app::BATCH_LIMIT_BYTES;

/// Whether a call was passed on by another node. Marked on every request that is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hop(pub(crate) bool);

/// How a call came.
#[derive(Debug)]
pub(crate) enum Came {
    /// From a caller.
    Directly,
    /// By a node, it says, and no secret is agreed on to prove it by. That is believed only where
    /// everything is open to whoever is on this machine.
    ByNeighbour,
    /// By a node that has proved itself.
    ByNode(Behalf),
}

/// On whose behalf a node has passed a call on.
#[derive(Debug)]
pub(crate) struct Behalf(pub(super) Option<Caller>);

impl Behalf {
    /// The caller's key; `None` where there are no keys.
    pub(crate) fn key(&self) -> Option<KeyId> {
        self.0.as_ref().map(Caller::key)
    }

    /// Whether the key, with this scope, is what was stated.
    pub(crate) fn is_of(&self, id: KeyId, scope: &Scope) -> bool {
        self.0 == Some(Caller::new(id, scope))
    }
}

/// Who checks what comes from other nodes.
#[derive(Debug)]
pub(crate) struct Door {
    key: Option<PassKey>,
    me: Holder,
    replays: Mutex<Replays>,
    /// The latest that the database's clock has shown here, in milliseconds. If it is set back, what
    /// was too old before stays so: its number may be forgotten.
    latest_ms: AtomicI64,
}

impl Door {
    pub(super) fn new(secret: Option<&super::ClusterSecret>, me: Holder) -> Self {
        let (key, replays) = (secret.map(PassKey::new), Mutex::default());
        Self { key, me, replays, latest_ms: AtomicI64::new(i64::MIN) }
    }

    pub(super) fn key(&self) -> Option<&PassKey> {
        self.key.as_ref()
    }

    pub(super) fn me(&self) -> &Holder {
        &self.me
    }

    /// How a call came. Refuses one that says that it was passed on and does not prove it.
    pub(crate) async fn check(
        &self,
        request: Request,
        now: Timestamp,
    ) -> Result<(Came, Request), Problem> {
        if !request.headers().contains_key(FORWARDED) {
            return Ok((Came::Directly, request));
        }
        let Some(key) = &self.key else { return Ok((Came::ByNeighbour, request)) };
        let statement = self.proven(key, &request, self.onward(now))?;
        let taken = self.replays.lock().unwrap_or_else(PoisonError::into_inner).take(
            statement.sender(),
            statement.number,
            Instant::now(),
            WINDOW,
        );
        match taken {
            Taken::First => {}
            Taken::Again => return Err(refused("this very call was passed on before")),
            Taken::NoRoom => return Err(refused("too many starts of nodes have called lately")),
        }
        // Only a node makes this one read and keep a body, and only once.
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, LARGEST_BODY_BYTES).await;
        let body = body.map_err(|_| refused("the body did not come whole"))?;
        if !statement.is_about(&body) {
            return Err(refused("the body is not the one that was signed"));
        }
        let request = Request::from_parts(parts, Body::from(body));
        Ok((Came::ByNode(Behalf(statement.caller)), request))
    }

    /// The database's clock, which may be set back, as one that never goes back.
    fn onward(&self, now: Timestamp) -> Timestamp {
        let latest = self.latest_ms.fetch_max(now.as_millisecond(), Ordering::Relaxed);
        Timestamp::from_millisecond(latest).map_or(now, |latest| latest.max(now))
    }

    /// The statement of a call, if all is well with it but what is not read yet: its body.
    fn proven(
        &self,
        key: &PassKey,
        request: &Request,
        now: Timestamp,
    ) -> Result<Statement, Problem> {
        let unproven =
            || refused("a call that was passed on must be signed by the cluster's secret");
        let headers = request.headers();
        let (from, pass) = (only(headers, FORWARDED), only(headers, PASS));
        let (from, pass) = from.zip(pass).ok_or_else(unproven)?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let call = Call { method: request.method(), path, headers };
        let statement = key.read(pass, call).ok_or_else(unproven)?;
        if from != statement.from {
            return Err(unproven());
        }
        if !statement.is_for(&self.me) {
            let detail =
                format!("the call is for another node than {}, or another start", self.me.node);
            return Err(Problem::new(Code::NotAddressee, detail));
        }
        if !statement.is_in_time(now) {
            return Err(refused(&format!(
                "the call was signed more than {WINDOW:?} before or after now, by the database's clock"
            )));
        }
        Ok(statement)
    }
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut given = headers.get_all(name).iter();
    let (Some(only), None) = (given.next(), given.next()) else { return None };
    HeaderValue::to_str(only).ok()
}

/// A neighbour is not believed any more once there are keys.
pub(crate) fn unknown_neighbour() -> Problem {
    refused("this node has no cluster.secret to know other nodes by")
}

fn refused(detail: &str) -> Problem {
    Problem::new(Code::NotANode, detail)
}

#[cfg(test)]
mod tests;
