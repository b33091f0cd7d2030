//! Passing a call on.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::de::DeserializeOwned;
use stile_domain::NodeId;

use super::hop::{FORWARDED, SECRET};
use super::original::Original;
use super::{ClusterOptions, NotHolder};
use crate::code::Code;
use crate::measure;

/// How long another node may take to answer. Above what it takes to notice that a database is away.
pub(super) const TIMEOUT: Duration = Duration::from_secs(15);

/// How long it may take to be there at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// Of an answer, what is passed back.
const TRAVELLING_BACK: [&str; 3] = ["content-type", "retry-after", "stile-owner-url"];

/// Why there is no answer from another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// Nobody was there: it has not heard of the call.
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

    /// Whether the other node does not take us for one.
    pub(super) fn is_distrust(&self) -> bool {
        self.status == StatusCode::FORBIDDEN && self.says(&[Code::NotANode])
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

/// Passes calls on to other nodes.
#[derive(Debug)]
pub(crate) struct Forwarder {
    pub(super) options: ClusterOptions,
    /// `None` if it could not be made: then nothing is passed on.
    client: Option<reqwest::Client>,
    me: HeaderValue,
}

impl Forwarder {
    pub(crate) fn new(options: ClusterOptions, me: &NodeId) -> Self {
        let builder = || {
            // A redirect would carry the caller's key elsewhere.
            let none = reqwest::redirect::Policy::none();
            let client = reqwest::Client::builder().redirect(none).no_proxy();
            client.timeout(TIMEOUT).connect_timeout(CONNECT_TIMEOUT)
        };
        // Without certificates installed there is plain HTTP still.
        let client = builder().build().or_else(|_| builder().tls_certs_only([]).build());
        if let Err(error) = &client {
            tracing::warn!(%error, "calls for lanes of other nodes cannot be passed on");
        }
        let me = HeaderValue::try_from(&me.0).unwrap_or(HeaderValue::from_static("node"));
        Self { options, client: client.ok(), me }
    }

    pub(crate) fn secret(&self) -> Option<&super::ClusterSecret> {
        self.options.secret.as_ref()
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

    /// Passes a call on, unchanged.
    pub(super) async fn pass_on(&self, url: &str, original: &Original) -> Result<Answer, NoAnswer> {
        let answer = self.exchange(url, original).await;
        if answer.as_ref().is_ok_and(Answer::is_distrust) {
            measure::passed_on("refused");
            tracing::warn!(
                url,
                "another node does not take calls from this one: give all nodes the \
                            same cluster.secret"
            );
            return Err(NoAnswer::Refused);
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

    async fn exchange(&self, url: &str, original: &Original) -> Result<Answer, NoAnswer> {
        let client = self.client.as_ref().ok_or(NoAnswer::Absent)?;
        let to = format!("{}{}", url.trim_end_matches('/'), original.path);
        let mut request = client
            .request(original.method.clone(), to)
            .headers(original.headers.clone())
            .header(FORWARDED, self.me.clone())
            .body(original.body.clone());
        if let Some(secret) = self.secret() {
            let mut value = HeaderValue::try_from(secret.reveal()).map_err(|_| NoAnswer::Absent)?;
            value.set_sensitive(true);
            request = request.header(SECRET, value);
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
}
