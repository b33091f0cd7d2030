//! A caller that goes where it is sent.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;

use super::StileProcess;

/// Calls under way at one time. Each is a connection, on both sides, and a process is allowed 1024
/// open files unless somebody raised it.
const IN_FLIGHT: usize = 250;

/// Asks any node, and follows `Stile-Owner-Url` and `Retry-After`.
#[derive(Debug)]
pub(crate) struct RetryingClient {
    urls: Vec<String>,
    client: reqwest::Client,
    /// How often it was sent elsewhere.
    pub(crate) sent_on: AtomicUsize,
}

impl RetryingClient {
    pub(crate) fn new(nodes: &[StileProcess]) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(testkit::DEADLINE).build();
        Self {
            urls: nodes.iter().map(|node| node.url().to_owned()).collect(),
            client: client.expect("build an HTTP client"),
            sent_on: AtomicUsize::new(0),
        }
    }

    /// Allocates for each of these signers at once, each call starting at a random node; the
    /// nonces in the order of the signers.
    pub(crate) async fn allocate_all(&self, signers: &[&str]) -> Vec<u64> {
        let calls = signers.iter().map(|signer| self.allocate(signer));
        futures::stream::iter(calls).buffered(IN_FLIGHT).collect().await
    }

    async fn allocate(&self, signer: &str) -> u64 {
        let mut url = self.urls[random(self.urls.len())].clone();
        let attempts = async {
            loop {
                let path = format!("{url}/api/v1/nonces/{signer}/allocate");
                let response = self
                    .client
                    .post(path)
                    .json(&serde_json::json!({}))
                    .send()
                    .await
                    .expect("an answer");
                let answer = super::Answer::of(response).await.expect("a whole answer");
                if answer.status == 200 {
                    return answer.nonce();
                }
                let code = answer.problem();
                assert!(code == "not-holder" || code == "fenced", "{answer:?}");
                let wait = answer.header("retry-after").and_then(|text| text.parse().ok());
                let wait = Duration::from_secs(wait.expect("Retry-After, in seconds"));
                self.sent_on.fetch_add(1, Ordering::Relaxed);
                match answer.header("stile-owner-url") {
                    Some(owner) if owner != url => url = owner.to_owned(),
                    _ => tokio::time::sleep(wait).await,
                }
            }
        };
        tokio::time::timeout(testkit::DEADLINE, attempts).await.expect("a nonce in time")
    }
}

/// A number below this one, from a hasher that every process and call seeds anew.
fn random(below: usize) -> usize {
    use std::hash::{BuildHasher, Hasher};
    let random = std::collections::hash_map::RandomState::new().build_hasher().finish();
    usize::try_from(random % below as u64).expect("below a usize")
}
