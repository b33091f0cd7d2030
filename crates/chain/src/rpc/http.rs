//! JSON-RPC over HTTP.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{CallError, LONGEST_ANSWER};
use crate::classify;
use crate::target::{EndpointError, Target};

pub(super) struct Http {
    target: Arc<Target>,
    client: reqwest::Client,
}

impl Http {
    pub(super) fn new(target: Arc<Target>) -> Result<Self, EndpointError> {
        // A redirect would carry the access key elsewhere.
        let mut client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none());
        if target.url.scheme() == "http" {
            // No certificates, so that none need be installed.
            client = client.tls_certs_only([]);
        }
        let client = client.build().map_err(|_| target.unusable("TLS cannot be set up"))?;
        Ok(Self { target, client })
    }

    /// Posts a body and returns what comes back. The caller limits the time.
    pub(super) async fn exchange(&self, body: String) -> Result<Vec<u8>, CallError> {
        let mut response = match self.post(body.clone()).await {
            // A connection kept from before broke: nobody was asked yet, or nobody's answer came.
            // Everything Stile asks may be asked twice.
            Err(error) if !error.is_connect() => {
                self.post(body).await.map_err(|_| CallError::Unreachable)?
            }
            // reqwest's own errors print the whole URL.
            sent => sent.map_err(|_| CallError::Unreachable)?,
        };
        let status = response.status();
        let told = retry_after(response.headers());
        let mut text = Vec::new();
        while let Some(part) = response.chunk().await.map_err(|_| CallError::Unreachable)? {
            if text.len() + part.len() > LONGEST_ANSWER {
                return Err(CallError::Garbled("more than can be read"));
            }
            text.extend_from_slice(&part);
        }
        // Some nodes send a proper JSON-RPC error with an HTTP status to match. What a gateway says
        // of being busy or alone is not about the question, whatever its body says.
        let busy = matches!(status.as_u16(), 429 | 502 | 503 | 504);
        let proper = status.is_success() || (!busy && looks_like_json_rpc(&text));
        match status {
            _ if proper => Ok(text),
            StatusCode::TOO_MANY_REQUESTS => Err(CallError::Limited(told.or(told_inside(&text)))),
            status => Err(CallError::Http(status.as_u16())),
        }
    }

    async fn post(&self, body: String) -> reqwest::Result<reqwest::Response> {
        let request = self
            .client
            .post(self.target.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body(body).send().await
    }
}

/// When to come back, as the headers have it: so many seconds, or a date, which is held against the
/// server's own clock where it tells the time.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok();
    let told = text(RETRY_AFTER)?.trim();
    if let Ok(seconds) = told.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let moment = |text: &str| Some(rfc2822::parse(text).ok()?.timestamp());
    let now = text(DATE).and_then(moment).unwrap_or_else(Timestamp::now);
    Some(moment(told)?.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

/// The longest body in which it is looked for when to come back.
const LONGEST_REFUSAL: usize = 16 * 1024;

/// The same in the JSON-RPC error that came with it.
fn told_inside(text: &[u8]) -> Option<Duration> {
    if text.len() > LONGEST_REFUSAL {
        return None;
    }
    let value: serde_json::Value = serde_json::from_slice(text).ok()?;
    let reply = value.get(0).unwrap_or(&value);
    classify::retry_after(reply.pointer("/error/data")?)
}

fn looks_like_json_rpc(text: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Reply {
        #[serde(rename = "jsonrpc")]
        _version: IgnoredAny,
    }
    match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'[') => serde_json::from_slice::<IgnoredAny>(text).is_ok(),
        _ => serde_json::from_slice::<Reply>(text).is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hole_25_a_server_says_when_to_come_back_in_seconds_or_by_the_clock() {
        let date = "Wed, 21 Oct 2015 07:28:00 GMT";
        for (told, now, expected) in [
            ("120", None, Some(120)),
            (" 0 ", Some(date), Some(0)),
            ("Wed, 21 Oct 2015 07:29:30 GMT", Some(date), Some(90)),
            // Over already, by the server's clock, or by ours.
            ("Wed, 21 Oct 2015 07:27:00 GMT", Some(date), Some(0)),
            (date, None, Some(0)),
            ("soon", Some(date), None),
            ("-5", Some(date), None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(told));
            if let Some(now) = now {
                headers.insert(DATE, HeaderValue::from_static(now));
            }
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{told}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
        let body = br#"{"jsonrpc":"2.0","error":{"code":429,"data":{"retry_after":9}}}"#;
        assert_eq!(told_inside(body), Some(Duration::from_secs(9)));
        assert_eq!(told_inside(b"slow down"), None);
    }

    #[test]
    fn a_refusal_is_told_from_a_page() {
        for (text, expected) in [
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000}}"#, true),
            (r#"{"jsonrpc":null}"#, true),
            (r#" [{"jsonrpc":"2.0"}]"#, true),
            ("[]", true),
            ("[", false),
            (r#"{"error":"not here"}"#, false),
            (r#""jsonrpc""#, false),
            ("<html>", false),
            ("", false),
        ] {
            assert_eq!(looks_like_json_rpc(text.as_bytes()), expected, "{text}");
        }
        let refusal = |more: usize| {
            let (error, padding) = (r#"{"data":{"retry_after":9}}"#, " ".repeat(more));
            format!(r#"{{"error":{error}{padding}}}"#)
        };
        assert_eq!(told_inside(refusal(9).as_bytes()), Some(Duration::from_secs(9)));
        assert_eq!(told_inside(refusal(LONGEST_REFUSAL).as_bytes()), None);
    }
}
