//! Chain nodes over HTTP.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use alloy::eips::BlockId;
use alloy::providers::{DynProvider, Provider, ProviderBuilder};
use alloy::transports::http::reqwest::Url;
use async_trait::async_trait;
use stile_domain::{ChainId, Lane, MAX_NONCE, Nonce};

use crate::{BlockTag, ChainError, NonceSource};

/// The longest one endpoint is waited for before the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);

/// An endpoint that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("endpoint {shown}: {why}")]
pub struct EndpointError {
    shown: String,
    why: &'static str,
}

/// Transaction counts over JSON-RPC. Endpoints of a chain are asked in the order given, the next
/// one when one fails; an endpoint that serves another chain is never believed.
#[derive(Debug)]
pub struct JsonRpcNonces {
    chains: HashMap<ChainId, Vec<Endpoint>>,
}

struct Endpoint {
    /// Host and port only: paths and queries of endpoints carry access keys.
    shown: String,
    provider: DynProvider,
    verified: AtomicBool,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown)
    }
}

impl JsonRpcNonces {
    /// Takes each chain's endpoint URLs. Connects only when first asked.
    pub fn new(
        chains: impl IntoIterator<Item = (ChainId, Vec<String>)>,
    ) -> Result<Self, EndpointError> {
        let chains = chains.into_iter().map(|(chain, urls)| {
            let endpoints: Result<Vec<_>, _> = urls.iter().map(|url| Endpoint::new(url)).collect();
            Ok((chain, endpoints?))
        });
        Ok(Self { chains: chains.collect::<Result<_, _>>()? })
    }
}

#[async_trait]
impl NonceSource for JsonRpcNonces {
    async fn transaction_count(&self, lane: Lane, at: BlockTag) -> Result<Nonce, ChainError> {
        let endpoints = self
            .chains
            .get(&lane.chain)
            .filter(|endpoints| !endpoints.is_empty())
            .ok_or(ChainError::NoEndpoint(lane.chain))?;
        let mut said = Vec::new();
        for endpoint in endpoints {
            match tokio::time::timeout(ANSWER_TIMEOUT, endpoint.transaction_count(lane, at)).await {
                Ok(Ok(count)) => return Ok(count),
                Ok(Err(why)) => said.push(format!("{}: {why}", endpoint.shown)),
                Err(_) => said.push(format!("{}: no answer in {ANSWER_TIMEOUT:?}", endpoint.shown)),
            }
        }
        Err(ChainError::Unreachable { chain: lane.chain, said })
    }
}

impl Endpoint {
    fn new(url: &str) -> Result<Self, EndpointError> {
        let error = |shown: &str, why| EndpointError { shown: shown.to_owned(), why };
        let url: Url = url.parse().map_err(|_| error("?", "is not a URL"))?;
        let shown = match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            _ => return Err(error("?", "has no host")),
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(error(&shown, "must be http or https in this version"));
        }
        let provider = ProviderBuilder::default().connect_http(url).erased();
        Ok(Self { shown, provider, verified: AtomicBool::new(false) })
    }

    async fn transaction_count(&self, lane: Lane, at: BlockTag) -> Result<Nonce, String> {
        self.verify(lane.chain).await?;
        let block = match at {
            BlockTag::Latest => BlockId::latest(),
            BlockTag::Pending => BlockId::pending(),
        };
        let count = self
            .provider
            .get_transaction_count(lane.signer)
            .block_id(block)
            .await
            .map_err(plain)?;
        if count > MAX_NONCE {
            return Err(format!("answered a transaction count of {count}, which no account has"));
        }
        Ok(count)
    }

    /// Asks once which chain this is. A wrong answer is asked again next time: somebody may have
    /// put the right node behind the address since.
    async fn verify(&self, chain: ChainId) -> Result<(), String> {
        if self.verified.load(Ordering::Relaxed) {
            return Ok(());
        }
        let found = self.provider.get_chain_id().await.map_err(plain)?;
        if found != chain.get() {
            return Err(format!("serves chain {found}, not {chain}"));
        }
        self.verified.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// What an endpoint said, without its address: transport errors print the whole URL.
fn plain(error: alloy::transports::TransportError) -> String {
    match error {
        alloy::transports::RpcError::ErrorResp(answer) => {
            format!("error {}: {}", answer.code, answer.message)
        }
        alloy::transports::RpcError::Transport(kind) if kind.is_retry_err() => "busy".to_owned(),
        alloy::transports::RpcError::Transport(_) => "cannot be reached".to_owned(),
        _ => "answered something that is not JSON-RPC".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_keys_in_endpoint_urls_are_never_shown() {
        let chain = ChainId::new(1).unwrap();
        let url = "https://user:canary@node.example/v2/canary?key=canary".to_owned();
        let nonces = JsonRpcNonces::new([(chain, vec![url])]).unwrap();
        assert!(!format!("{nonces:?}").contains("canary"));
        let bad = JsonRpcNonces::new([(chain, vec!["ws://node.example/canary".to_owned()])]);
        assert!(!bad.unwrap_err().to_string().contains("canary"));
    }

    #[tokio::test]
    async fn an_endpoint_that_nobody_serves_is_named_without_its_path() {
        let chain = ChainId::new(1).unwrap();
        let nonces =
            JsonRpcNonces::new([(chain, vec!["http://127.0.0.1:1/canary".to_owned()])]).unwrap();
        let lane = Lane::new(chain, stile_domain::Address::ZERO);
        let error = nonces.transaction_count(lane, BlockTag::Latest).await.unwrap_err().to_string();
        assert!(error.contains("127.0.0.1:1"), "{error}");
        assert!(!error.contains("canary"), "{error}");
    }
}
