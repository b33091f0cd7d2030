//! What the tests share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stile_chain::{ChainPool, Chains, LocalSigner, PoolOptions, SignedTx, UnsignedTx};
use stile_domain::{Address, Bytes, ChainId, Fees, U256};
use testkit::{Anvil, AnvilOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// The first accounts that anvil funds.
pub(crate) const KEYS: [&str; 2] = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
];

/// Somebody without a penny.
pub(crate) const POOR_KEY: &str =
    "0x00000000000000000000000000000000000000000000000000000000000c0ffe";

pub(crate) fn chain() -> ChainId {
    ChainId::new(31337).unwrap()
}

pub(crate) async fn anvil() -> Anvil {
    Anvil::start(AnvilOptions::default()).await
}

pub(crate) async fn quiet_anvil() -> Anvil {
    Anvil::start(AnvilOptions { no_mining: true, ..AnvilOptions::default() }).await
}

/// A pool that is patient enough for a slow machine.
pub(crate) fn pool<U: Into<String>>(urls: impl IntoIterator<Item = U>) -> Arc<ChainPool> {
    pool_with(urls, PoolOptions { answer_timeout: Duration::from_secs(10), ..Default::default() })
}

pub(crate) fn pool_with<U: Into<String>>(
    urls: impl IntoIterator<Item = U>,
    options: PoolOptions,
) -> Arc<ChainPool> {
    let urls = urls.into_iter().map(Into::into).collect();
    let chains = Chains::new([(chain(), urls)], options).unwrap();
    Arc::clone(chains.get(chain()).unwrap())
}

pub(crate) fn signer(key: &str) -> LocalSigner {
    LocalSigner::from_key(key).unwrap()
}

/// One wei to nobody in particular.
pub(crate) fn transfer(nonce: u64) -> UnsignedTx {
    UnsignedTx {
        chain: chain(),
        nonce,
        to: Some(Address::repeat_byte(0x22)),
        value: U256::from(1),
        data: Bytes::new(),
        gas_limit: 21_000,
        fees: Fees::Market {
            max_fee_per_gas: 20_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
        },
    }
}

pub(crate) fn signed(nonce: u64) -> SignedTx {
    signer(KEYS[0]).sign_now(&transfer(nonce)).unwrap()
}

pub(crate) fn address_of(url: &str) -> SocketAddr {
    url.rsplit('/').next().unwrap().parse().unwrap()
}

/// `host:port`.
pub(crate) fn shown(url: &str) -> String {
    address_of(url).to_string()
}

/// A chain node made of a function from method and parameters to result or error. Ends when
/// dropped.
pub(crate) struct Fake {
    url: String,
    _serving: JoinSet<()>,
}

type Handler = dyn Fn(&str, &Value) -> Result<Value, Value> + Send + Sync;

impl Fake {
    pub(crate) async fn start(
        handler: impl Fn(&str, &Value) -> Result<Value, Value> + Send + Sync + 'static,
    ) -> Self {
        let handler: Arc<Handler> = Arc::new(handler);
        Self::raw(move |question: &Value| {
            let answer = |question: &Value| {
                let method = question["method"].as_str().unwrap();
                let id = &question["id"];
                match handler(method, &question["params"]) {
                    Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
                    Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
                }
            };
            match question {
                Value::Array(questions) => questions.iter().map(answer).collect::<Value>(),
                question => answer(question),
            }
            .to_string()
        })
        .await
    }

    /// One that answers a whole body with whatever text it likes.
    pub(crate) async fn raw(handler: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        Self::with_status(200, handler).await
    }

    /// One that sends this HTTP status with it.
    pub(crate) async fn with_status(
        status: u16,
        handler: impl Fn(&Value) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::slow(status, |_| Duration::ZERO, handler).await
    }

    /// One that takes so long over a body.
    pub(crate) async fn slow(
        status: u16,
        takes: impl Fn(&Value) -> Duration + Send + Sync + 'static,
        handler: impl Fn(&Value) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (takes, handler) = (Arc::new(takes), Arc::new(handler));
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (takes, handler) = (Arc::clone(&takes), Arc::clone(&handler));
                connections.spawn(async move { serve(stream, status, &*takes, &*handler).await });
            }
        });
        Self { url, _serving: serving }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

/// Just enough HTTP for one request after another.
async fn serve(
    mut stream: TcpStream,
    status: u16,
    takes: &impl Fn(&Value) -> Duration,
    handler: &impl Fn(&Value) -> String,
) -> Option<()> {
    let mut read = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = read.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            (stream.read_buf(&mut read).await.ok()? > 0).then_some(())?;
        };
        let text = String::from_utf8_lossy(&read[..head]).to_lowercase();
        let length = text.lines().find_map(|line| line.strip_prefix("content-length:"))?;
        let length: usize = length.trim().parse().ok()?;
        while read.len() < head + length {
            (stream.read_buf(&mut read).await.ok()? > 0).then_some(())?;
        }
        let question = serde_json::from_slice(&read[head..head + length]).ok()?;
        tokio::time::sleep(takes(&question)).await;
        let answer = handler(&question);
        read.drain(..head + length);
        let response = format!(
            "HTTP/1.1 {status} So\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
            answer.len()
        );
        stream.write_all(response.as_bytes()).await.ok()?;
    }
}

/// What a healthy node answers to a look, with its newest block at a height.
pub(crate) fn look(method: &str, height: u64) -> Option<Value> {
    match method {
        "eth_chainId" => Some(json!("0x7a69")),
        "eth_blockNumber" => Some(json!(format!("{height:#x}"))),
        "eth_getBlockByNumber" => Some(block(height)),
        _ => None,
    }
}

pub(crate) fn block(height: u64) -> Value {
    json!({
        "number": format!("{height:#x}"),
        "hash": format!("0x{:064x}", 0xb10c_0000 + height),
        "parentHash": format!("0x{:064x}", 0xb10c_0000 + height - 1),
        "timestamp": "0x1",
        "gasLimit": "0x1c9c380",
        "transactions": [],
    })
}

pub(crate) fn not_found() -> Value {
    json!({ "code": -32601, "message": "the method does not exist/is not available" })
}
