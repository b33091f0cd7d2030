//! JSON-RPC over HTTP.

use std::sync::Arc;

use reqwest::header::{CONTENT_TYPE, HeaderValue};

use super::{CallError, LONGEST_ANSWER};
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
        if proper { Ok(text) } else { Err(CallError::Http(status.as_u16())) }
    }

    async fn post(&self, body: String) -> reqwest::Result<reqwest::Response> {
        let request = self
            .client
            .post(self.target.url.clone())
            .header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        request.body(body).send().await
    }
}

fn looks_like_json_rpc(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text)
        .is_ok_and(|value| value.is_array() || value.get("jsonrpc").is_some())
}
