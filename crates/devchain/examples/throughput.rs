//! Measures how many signed transactions a second are taken over HTTP, and how long a block of
//! them takes: `cargo run --release -p stile-devchain --example throughput -- [TRANSACTIONS]
//! [URL OF ANOTHER CHAIN]`.

use std::time::Instant;

use alloy::consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy::eips::eip2718::Encodable2718;
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy_primitives::{Address, TxKind, U256, hex};
use serde_json::{Value, json};
use stile_devchain::{Blocks, DevChain, Options, accounts};

/// How many transfers a block has room for.
const BLOCK: usize = 5_000;

/// How many callers send at once.
const CALLERS: usize = 8;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let count: usize = arguments.next().map_or(Ok(20_000), |count| count.parse())?;
    let gas_limit = BLOCK as u64 * 21_000;
    let options = Options { blocks: Blocks::OnDemand, gas_limit, ..Options::default() };
    let chain = DevChain::start(options).await?;
    let url = arguments.next().unwrap_or_else(|| chain.url());
    println!("{url}: {count} transactions, {CALLERS} callers");
    let lots: Vec<Vec<String>> = (0..CALLERS).map(|n| sign(n, count / CALLERS)).collect();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let start = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for lot in lots {
        let (client, url) = (client.clone(), url.clone());
        callers.spawn(async move {
            for raw in lot {
                rpc(&client, &url, "eth_sendRawTransaction", json!([raw])).await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    let took = start.elapsed();
    println!("accepted {:.0} a second", count as f64 / took.as_secs_f64());
    if url == chain.url() {
        for _ in 0..count.div_ceil(BLOCK) {
            let start = Instant::now();
            rpc(&client, &url, "dev_mine", json!([1])).await?;
            let took = start.elapsed();
            let mined = "eth_getBlockTransactionCountByNumber";
            let mined = rpc(&client, &url, mined, json!(["latest"])).await?;
            println!("a block of {mined} transactions took {took:?}");
        }
    }
    chain.stop().await;
    Ok(())
}

/// Transfers of one account.
fn sign(account: usize, count: usize) -> Vec<String> {
    let Ok(signer) = PrivateKeySigner::from_bytes(&accounts::ALL[account].key) else {
        return Vec::new();
    };
    let signer = signer.to_secp256k1();
    let transfers = (0..count as u64).filter_map(|nonce| {
        let tx = TxEip1559 {
            chain_id: 31337,
            nonce,
            gas_limit: 21_000,
            max_fee_per_gas: 100_000_000_000,
            max_priority_fee_per_gas: 1_000_000_000,
            to: TxKind::Call(Address::repeat_byte(0x11)),
            value: U256::from(1),
            ..TxEip1559::default()
        };
        let signature = signer.sign_hash_sync(&tx.signature_hash()).ok()?;
        let envelope = TxEnvelope::from(tx.into_signed(signature));
        Some(hex::encode_prefixed(envelope.encoded_2718()))
    });
    transfers.collect()
}

async fn rpc(
    client: &reqwest::Client,
    url: &str,
    method: &str,
    params: Value,
) -> Result<Value, Failure> {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut answer: Value = client.post(url).json(&request).send().await?.json().await?;
    match answer.get("error") {
        Some(error) => Err(error.to_string().into()),
        None => Ok(answer["result"].take()),
    }
}
