//! A chain, its client, and transactions to send.

use alloy::consensus::{SignableTransaction, TxEip1559, TxEnvelope};
use alloy::eips::eip2718::Encodable2718;
use alloy::signers::SignerSync;
use alloy::signers::local::PrivateKeySigner;
use alloy_primitives::{Address, Bytes, TxKind, U256, hex};
use serde_json::{Value, json};
use stile_devchain::accounts::ALL;
use stile_devchain::{Blocks, Clock, DevChain, Options};

pub(crate) const GWEI: u128 = 1_000_000_000;

/// Who gets what is sent.
pub(crate) const TO: Address = Address::repeat_byte(0x77);

/// A running chain and somebody who asks it.
pub(crate) struct Chain {
    pub(crate) chain: DevChain,
    client: reqwest::Client,
}

/// A chain with a given clock that makes blocks on demand only.
pub(crate) fn manual() -> Options {
    let clock = Clock::Given { start: 1_700_000_000, step: 2 };
    Options { blocks: Blocks::OnDemand, clock, ..Options::default() }
}

impl Chain {
    pub(crate) async fn start(options: Options) -> Self {
        let chain = DevChain::start(options).await.expect("start a chain");
        let client = reqwest::Client::builder().no_proxy().build().expect("build a client");
        Self { chain, client }
    }

    pub(crate) async fn post(&self, body: String) -> (u16, String) {
        let answer = self.client.post(self.chain.url()).body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The result of a call, or its error.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let (_, text) = self.post(request.to_string()).await;
        let mut answer: Value = serde_json::from_str(&text).unwrap();
        match answer.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(answer["result"].take()),
        }
    }

    /// The result of a call that has to succeed.
    pub(crate) async fn rpc(&self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The message of the error of a call that has to fail.
    pub(crate) async fn refused(&self, method: &str, params: Value) -> String {
        let error = self.ask(method, params).await.expect_err(method);
        error["message"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn send(&self, raw: &str) -> Value {
        self.rpc("eth_sendRawTransaction", json!([raw])).await
    }

    pub(crate) async fn mine(&self, count: u64) {
        self.rpc("dev_mine", json!([count])).await;
    }

    pub(crate) async fn number(&self, method: &str, params: Value) -> u64 {
        quantity(&self.rpc(method, params).await)
    }

    pub(crate) async fn head(&self) -> u64 {
        self.number("eth_blockNumber", json!([])).await
    }

    pub(crate) async fn nonce(&self, account: usize, block: &str) -> u64 {
        self.number("eth_getTransactionCount", json!([ALL[account].address, block])).await
    }

    pub(crate) async fn block(&self, id: impl Into<Value>) -> Value {
        self.rpc("eth_getBlockByNumber", json!([id.into(), false])).await
    }

    pub(crate) async fn receipt(&self, hash: &Value) -> Value {
        self.rpc("eth_getTransactionReceipt", json!([hash])).await
    }

    /// The block that a transaction is in.
    pub(crate) async fn mined_in(&self, hash: &Value) -> Option<u64> {
        let receipt = self.receipt(hash).await;
        (!receipt.is_null()).then(|| quantity(&receipt["blockNumber"]))
    }

    /// How many transactions wait: those that could go into a block, and the others.
    pub(crate) async fn waiting(&self) -> (u64, u64) {
        let status = self.rpc("txpool_status", json!([])).await;
        (quantity(&status["pending"]), quantity(&status["queued"]))
    }
}

pub(crate) fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}

pub(crate) fn amount(value: &Value) -> U256 {
    value.as_str().unwrap().parse().unwrap_or_else(|_| panic!("{value} is not an amount"))
}

/// A transfer of 1 wei with good fees.
pub(crate) fn base(nonce: u64) -> TxEip1559 {
    TxEip1559 {
        chain_id: 31337,
        nonce,
        gas_limit: 21_000,
        max_fee_per_gas: 20 * GWEI,
        max_priority_fee_per_gas: GWEI,
        to: TxKind::Call(TO),
        value: U256::from(1),
        ..TxEip1559::default()
    }
}

/// The same with other fees, in gwei.
pub(crate) fn priced(nonce: u64, fee: u128, tip: u128) -> TxEip1559 {
    TxEip1559 { max_fee_per_gas: fee * GWEI, max_priority_fee_per_gas: tip * GWEI, ..base(nonce) }
}

/// A call with data, or a deployment.
pub(crate) fn with_data(nonce: u64, to: TxKind, data: &[u8]) -> TxEip1559 {
    let input = Bytes::copy_from_slice(data);
    TxEip1559 { gas_limit: 500_000, to, value: U256::ZERO, input, ..base(nonce) }
}

/// Signs with the key of a well-known account.
pub(crate) fn sign<T>(account: usize, tx: T) -> String
where
    T: SignableTransaction<alloy_primitives::Signature>,
    TxEnvelope: From<alloy::consensus::Signed<T>>,
{
    let signer = PrivateKeySigner::from_bytes(&ALL[account].key).unwrap();
    let signature = signer.sign_hash_sync(&tx.signature_hash()).unwrap();
    hex::encode_prefixed(TxEnvelope::from(tx.into_signed(signature)).encoded_2718())
}

/// A signed transfer of an account.
pub(crate) fn transfer(account: usize, nonce: u64) -> String {
    sign(account, base(nonce))
}
