use alloy::consensus::{SignableTransaction, TxEip1559};
use alloy::eips::eip2718::Encodable2718;
use alloy::primitives::{Address, B256, TxKind, U256, hex};
use alloy::signers::SignerSync;
use alloy::signers::local::Secp256k1Signer;
use stile::{ChainId, HandlerError, Lane, Sent, Stile};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // With the URL of a development chain it sends; without one it only signs.
    let endpoint = std::env::args().nth(1);
    let key = hex!("59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d");
    let key = Secp256k1Signer::from_slice(&key)?;
    let lane = Lane::new(ChainId::new(31337)?, key.address());
    let directory = tempfile::tempdir()?;
    let database = format!("sqlite://{}", directory.path().join("nonces.db").display());

    let mut builder = Stile::builder(database);
    if let Some(url) = &endpoint {
        // A new lane starts where the chain is, and the chain settles what callers left open.
        builder = builder.chain(31337, url);
    }
    let stile = builder.start().await?;
    let nonces = stile.nonces();

    // In three steps: take a nonce, send with it, say what became of it.
    let hold = nonces.allocate(lane).await?;
    let (hash, bytes) = sign(&key, hold.nonce)?;
    send(endpoint.as_deref(), &bytes).await?;
    nonces.mark_used(&hold, hash).await?;
    println!("sent {hash} with nonce {}", hold.nonce);

    // In one: the handler's result says what became of it.
    let sent = nonces
        .with_nonce(lane, async |hold| {
            // Nothing left this process yet: the nonce may go to somebody else.
            let (hash, bytes) = sign(&key, hold.nonce).map_err(HandlerError::NotSent)?;
            // From here on something may have: whatever error comes, the nonce stays held.
            send(endpoint.as_deref(), &bytes).await?;
            Ok::<_, HandlerError<Failure>>(Sent { tx_hash: hash, value: hold.nonce })
        })
        .await?;
    println!("sent {} with nonce {}", sent.tx_hash, sent.value);

    stile.shutdown().await;
    Ok(())
}

/// One wei to somebody, signed for this nonce.
fn sign(key: &Secp256k1Signer, nonce: u64) -> Result<(B256, Vec<u8>), Failure> {
    let tx = TxEip1559 {
        chain_id: 31337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 20_000_000_000,
        max_priority_fee_per_gas: 1_000_000_000,
        to: TxKind::Call(Address::repeat_byte(0x77)),
        value: U256::from(1),
        ..TxEip1559::default()
    };
    let signature = key.sign_hash_sync(&tx.signature_hash())?;
    let signed = tx.into_signed(signature);
    Ok((*signed.hash(), signed.encoded_2718()))
}

/// Hands signed bytes to a chain node.
async fn send(endpoint: Option<&str>, bytes: &[u8]) -> Result<(), Failure> {
    let Some(endpoint) = endpoint else { return Ok(()) };
    let call = serde_json::json!({
        "jsonrpc": "2.0", "id": 1, "method": "eth_sendRawTransaction",
        "params": [hex::encode_prefixed(bytes)],
    });
    let answer = reqwest::Client::new().post(endpoint).json(&call).send().await?;
    let answer: serde_json::Value = answer.json().await?;
    if answer["error"].is_null() { Ok(()) } else { Err(answer["error"].to_string().into()) }
}
