//! Passing a call on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use reqwest::Url;
use serde::de::DeserializeOwned;
use stile_domain::{Holder, Timestamp};

use super::hop::{Door, FORWARDED, PASS};
use super::original::Original;
use super::pass::{Call, Caller, Statement};
use super::seldom::{Seldom, Warning};
use super::{ClusterOptions, NotHolder, is_private_way};
use crate::access::Access;
use crate::code::Code;
use crate::measure;

/// How long another node may take to answer. Above what it takes to notice that a database is away.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// How long it may take to be there at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Of an answer, what is passed back.
const TRAVELLING_BACK: [&str; 4] =
    ["content-type", "retry-after", "stile-owner-url", "www-authenticate"];

/// Why there is no answer from another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Nobody was there, or somebody else: it has not heard of the call.
    Absent,
    /// It does not take calls from us.
    Refused,
    /// It may have heard of the call, and done what was asked.
    Silent,
}

/// What another node answered.
#[derive(Debug)]
pub(super) struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: axum::body::Bytes,
}

impl Answer {
    /// Whether the lane has moved on from there, so that nothing was done.
    pub(super) fn has_moved(&self) -> bool {
        self.status == StatusCode::CONFLICT && self.says(&[Code::NotHolder, Code::Fenced])
    }

    /// Whether the other node does not take us for one. One of an earlier version looks for the
    /// caller's key first, and finds none.
    fn is_distrust(&self) -> bool {
        let asks_for_a_key = self.status == StatusCode::UNAUTHORIZED && !self.refuses_the_key();
        asks_for_a_key || self.says(&[Code::NotANode])
    }

    /// Whether the other node knows us, and that the caller's key is no longer good: it has heard of it
    /// a moment before us. Nothing was done.
    pub(super) fn refuses_the_key(&self) -> bool {
        self.says(&[Code::CallersKey])
    }

    /// Whether another node is there than the one that was meant, or another start of it.
    fn is_somebody_else(&self) -> bool {
        self.says(&[Code::NotAddressee])
    }

    /// What the other node says about it.
    fn detail(&self) -> String {
        let body: serde_json::Value = serde_json::from_slice(&self.body).unwrap_or_default();
        body["detail"].as_str().unwrap_or("nothing").to_owned()
    }

    fn says(&self, codes: &[Code]) -> bool {
        let body: Option<serde_json::Value> = serde_json::from_slice(&self.body).ok();
        body.is_some_and(|body| codes.iter().any(|code| body["code"] == code.text()))
    }

    /// The body of a success.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        self.status.is_success().then(|| serde_json::from_slice(&self.body).ok()).flatten()
    }

    pub(super) fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// A node that calls are passed on to: one that the database knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    node: Holder,
    url: Url,
}

impl Peer {
    /// Where it is, for people.
    pub(crate) fn url(&self) -> &str {
        self.url.as_str().trim_end_matches('/')
    }

    /// Where a path is at this node, and how the node itself sees it: whatever is in between takes
    /// off what its URL ends in.
    fn at(&self, path: &str) -> Option<(Url, String)> {
        let url = Url::parse(&format!("{}{path}", self.url())).ok()?;
        let below = self.url.path().trim_end_matches('/');
        let mut seen = url.path().strip_prefix(below)?.to_owned();
        if let Some(query) = url.query() {
            seen = format!("{seen}?{query}");
        }
        Some((url, seen))
    }
}

/// Passes calls on to other nodes.
#[derive(Debug)]
pub(crate) struct Forwarder {
    options: ClusterOptions,
    /// `None` if it could not be made: then nothing is passed on.
    client: Option<reqwest::Client>,
    door: Door,
    name: HeaderValue,
    /// How many calls were passed on.
    passed: AtomicU64,
    told: Seldom,
}

impl Forwarder {
    pub(crate) fn new(options: ClusterOptions, me: &Holder) -> Self {
        let builder = || {
            // A redirect would lead to whoever it names.
            let none = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().redirect(none).no_proxy();
            let client = client.timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT);
            match &options.identity {
                Some(identity) => client.identity(identity.0.clone()),
                None => client,
            }
        };
        let client = match &options.authorities {
            Some(authorities) => builder().tls_certs_only(authorities.0.clone()).build(),
            // Without certificates installed there is plain HTTP still.
            None => builder().build().or_else(|_| builder().tls_certs_only([]).build()),
        };
        if let Err(error) = &client {
            tracing::warn!(%error, "calls for lanes of other nodes cannot be passed on");
        }
        let name = HeaderValue::try_from(&me.node.0).unwrap_or(HeaderValue::from_static("node"));
        let door = Door::new(options.secret.as_ref(), me.clone());
        let (passed, told) = (AtomicU64::new(0), Seldom::default());
        Self { options, client: client.ok(), door, name, passed, told }
    }

    /// Who checks what comes from other nodes.
    pub(crate) fn door(&self) -> &Door {
        &self.door
    }

    pub(crate) fn not_holder(&self) -> NotHolder {
        self.options.not_holder
    }

    /// Whether a call may go to another node: once, and only where that one will believe us.
    pub(super) fn may_pass_on(&self, original: &Original, open: bool) -> bool {
        self.client.is_some()
            && !original.passed_on
            && self.options.not_holder != NotHolder::Reject
            && (self.options.secret.is_some() || open)
    }

    /// A node as calls are passed on to it; `None` if it cannot be reached, or if others could read
    /// what goes there.
    pub(super) fn peer(&self, node: Holder) -> Option<Peer> {
        let url = node.url.as_deref()?;
        if !self.options.trusted_network && !is_private_way(url) {
            measure::passed_on("unsafe");
            if self.told.is_due(&node.node, Warning::Unsafe, Instant::now()) {
                tracing::warn!(
                    node = %node.node,
                    "calls are not passed on: they would go to another machine without TLS. Give that node \
                     an https:// cluster.advertise_url, or set cluster.trusted_network = true"
                );
            }
            return None;
        }
        let url = Url::parse(url).ok()?;
        Some(Peer { node, url })
    }

    /// Passes a call on, unchanged but for the caller's key. `now` is by the database's clock.
    pub(super) async fn pass_on(
        &self,
        peer: &Peer,
        original: &Original,
        now: Timestamp,
    ) -> Result<Answer, NoAnswer> {
        let answer = self.exchange(peer, original, now).await;
        if let Ok(answer) = &answer
            && answer.is_distrust()
        {
            measure::passed_on("refused");
            if self.told.is_due(&peer.node.node, Warning::Refuses, Instant::now()) {
                tracing::warn!(
                    node = %peer.node.node,
                    said = answer.detail(),
                    "another node does not take calls from this one: give all nodes the same cluster.secret, \
                     and run the same version on all of them"
                );
            }
            return Err(NoAnswer::Refused);
        }
        if answer.as_ref().is_ok_and(Answer::is_somebody_else) {
            measure::passed_on("absent");
            return Err(NoAnswer::Absent);
        }
        measure::passed_on(match &answer {
            Ok(answer) if answer.has_moved() => "moved",
            Ok(answer) if answer.status.is_server_error() => "failed",
            Ok(_) => "answered",
            Err(NoAnswer::Silent) => "silent",
            Err(_) => "absent",
        });
        answer
    }

    async fn exchange(
        &self,
        peer: &Peer,
        original: &Original,
        now: Timestamp,
    ) -> Result<Answer, NoAnswer> {
        let client = self.client.as_ref().ok_or(NoAnswer::Absent)?;
        let (url, path) = peer.at(&original.path).ok_or(NoAnswer::Absent)?;
        let mut request = client
            .request(original.method.clone(), url)
            .headers(original.headers.clone())
            .header(FORWARDED, self.name.clone())
            .body(original.body.clone());
        if let Some(key) = self.door.key() {
            let (method, headers) = (&original.method, &original.headers);
            let statement = self.statement(peer, original, now);
            let pass = key.sign(&statement, Call { method, path: &path, headers });
            request = request.header(PASS, pass);
        }
        let absent_or_silent = |error: reqwest::Error| {
            if error.is_connect() || error.is_builder() {
                NoAnswer::Absent
            } else {
                NoAnswer::Silent
            }
        };
        let response = request.send().await.map_err(absent_or_silent)?;
        let status = response.status();
        let back = response.headers().iter();
        let back = back.filter(|(name, _)| TRAVELLING_BACK.contains(&name.as_str()));
        let headers = back.map(|(name, value)| (name.clone(), value.clone())).collect();
        let body = response.bytes().await.map_err(|_| NoAnswer::Silent)?;
        Ok(Answer { status, headers, body })
    }

    fn statement(&self, peer: &Peer, original: &Original, now: Timestamp) -> Statement {
        let caller = match &original.access {
            Access::Open => None,
            Access::Key(pass) => Some(Caller::new(pass.id, &pass.scope)),
        };
        let number = self.passed.fetch_add(1, Ordering::Relaxed);
        Statement::new(self.door.me(), &peer.node, now, number, &original.body, caller)
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Incarnation, NodeId};

    use super::*;

    fn forwarder(trusted_network: bool) -> Forwarder {
        let options = ClusterOptions { trusted_network, ..ClusterOptions::default() };
        Forwarder::new(options, &holder(None))
    }

    fn holder(url: Option<&str>) -> Holder {
        let (node, incarnation) = (NodeId("a".into()), Incarnation::fresh());
        Holder { node, incarnation, url: url.map(str::to_owned) }
    }

    #[test]
    fn calls_leave_the_machine_by_tls_or_by_declaration() {
        for (url, private, trusted) in [
            (Some("https://10.0.0.11:7420"), true, true),
            (Some("http://127.0.0.1:7420"), true, true),
            (Some("http://10.0.0.11:7420"), false, true),
            (Some("nowhere"), false, false),
            (None, false, false),
        ] {
            assert_eq!(forwarder(false).peer(holder(url)).is_some(), private, "{url:?}");
            assert_eq!(forwarder(true).peer(holder(url)).is_some(), trusted, "{url:?}");
        }
    }

    /// A revocation that the other node has heard of first is no sign of a wrong secret.
    #[test]
    fn hole_40_a_key_that_is_refused_there_is_not_distrust() {
        for (status, code, distrust) in [
            (401, Some(Code::CallersKey), false),
            (401, Some(Code::Unauthorized), true),
            (401, None, true),
            (403, Some(Code::NotANode), true),
            (403, Some(Code::Forbidden), false),
            (200, None, false),
        ] {
            let body = code.map(|code| serde_json::json!({ "code": code.text() }).to_string());
            let answer = Answer {
                status: StatusCode::from_u16(status).unwrap(),
                headers: HeaderMap::new(),
                body: body.unwrap_or_default().into(),
            };
            assert_eq!(answer.is_distrust(), distrust, "{status} {code:?}");
        }
    }

    /// What is signed is what the other node sees.
    #[test]
    fn a_path_is_signed_as_it_arrives() {
        for (url, path, to, seen) in [
            ("http://a:1", "/api/v1/tx", "http://a:1/api/v1/tx", "/api/v1/tx"),
            ("http://a:1/", "/api/v1/tx?a=b", "http://a:1/api/v1/tx?a=b", "/api/v1/tx?a=b"),
            ("https://a/stile/", "/api/v1/tx", "https://a/stile/api/v1/tx", "/api/v1/tx"),
            ("http://a:1", "/x?q='", "http://a:1/x?q=%27", "/x?q=%27"),
        ] {
            let peer = forwarder(true).peer(holder(Some(url))).unwrap();
            let (url, path) = peer.at(path).unwrap();
            assert_eq!((url.as_str(), path.as_str()), (to, seen));
        }
    }
}
