//! Makes a V1 database, and the chain that its signers have sent to.
//!
//! Each signer has as many nonces as asked for, in every state that V1 has, on both sides of the chain's
//! count. The newest of those that are mined are real transactions, whose hashes V1 has; what came before
//! them the chain only counts.

use alloy::primitives::{Address, B256, keccak256};
use serde_json::{Value, json};
use tokio_postgres::Client;

/// V1's tables, with one of its two sets of names.
pub(crate) const SUBMITTER_TABLES: &str = "
CREATE TABLE submitter_nonce_state (
    submitter        varchar(128) PRIMARY KEY,
    last_chain_nonce bigint,
    next_local_nonce bigint NOT NULL,
    updated_at       timestamp NOT NULL
);
CREATE TABLE submitter_nonce_allocation (
    id           bigserial PRIMARY KEY,
    submitter    varchar(128) NOT NULL,
    nonce        bigint NOT NULL,
    status       varchar(16) NOT NULL,
    lock_owner   varchar(128),
    locked_until timestamp,
    tx_hash      varchar(80),
    updated_at   timestamp NOT NULL,
    UNIQUE (submitter, nonce)
);";

/// How much of everything.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount {
    pub(crate) signers: u64,
    /// Nonces of each signer: at least `mined` and 40 more.
    pub(crate) nonces: u64,
    /// How many of them are real transactions.
    pub(crate) mined: u64,
}

impl Amount {
    /// The chain's count of each account.
    pub(crate) fn latest(&self) -> u64 {
        self.nonces - OPEN
    }
}

/// Nonces of each signer that are not mined.
pub(crate) const OPEN: u64 = 20;

/// A signer as V1 names it. One in ten writes its address in capitals.
pub(crate) fn signer(number: u64) -> String {
    let address = address(number);
    if number.is_multiple_of(10) { address.to_string() } else { address.to_string().to_lowercase() }
}

pub(crate) fn address(number: u64) -> Address {
    Address::from_slice(&keccak256(number.to_be_bytes())[12..])
}

/// What V1 is told of a nonce, by its place.
fn row(number: u64, nonce: u64, amount: &Amount, sent: &[B256]) -> (&'static str, Option<String>) {
    let latest = amount.latest();
    let unknown =
        || Some(keccak256([number.to_be_bytes(), nonce.to_be_bytes()].concat()).to_string());
    let real = (latest - amount.mined..).zip(sent).find(|(place, _)| *place == nonce);
    if let Some((_, hash)) = real {
        return ("USED", Some(hash.to_string()));
    }
    if nonce < latest {
        return match nonce % 50 {
            // Replaced by hand: the chain has another one there.
            0 => ("USED", unknown()),
            1..20 => ("USED", None),
            20..40 => ("RESERVED", None),
            _ => ("RECYCLABLE", None),
        };
    }
    match (nonce - latest) % 7 {
        // Sent, and in no pool.
        5 => ("USED", unknown()),
        6 => ("USED", None),
        3 | 4 => ("RESERVED", None),
        _ => ("RECYCLABLE", None),
    }
}

/// How many transactions of each signer are in the pool, above what is mined.
pub(crate) const POOLED: u64 = 2;

/// Makes everything. The chain makes no blocks by itself, and signs for whoever it is asked to.
pub(crate) async fn make(v1: &Client, chain: &Chain, amount: Amount) {
    v1.batch_execute(SUBMITTER_TABLES).await.unwrap();
    let (latest, end) = (amount.latest(), amount.nonces);
    chain.call("anvil_autoImpersonateAccount", json!([true])).await;
    let mut sent: Vec<Vec<B256>> = Vec::new();
    for number in 0..amount.signers {
        let from = address(number).to_string();
        chain.call("anvil_setBalance", json!([from, "0xffffffffffffffff"])).await;
        chain.call("anvil_setNonce", json!([from, hex(latest - amount.mined)])).await;
        sent.push(chain.send(&from, latest - amount.mined..latest).await);
    }
    chain.call("anvil_mine", json!(["0x1"])).await;
    for number in 0..amount.signers {
        let from = address(number).to_string();
        let pooled = chain.send(&from, latest..latest + POOLED).await;
        sent[number as usize].extend(pooled);
        let rows = (0..end).map(|nonce| row(number, nonce, &amount, &sent[number as usize]));
        let (statuses, hashes): (Vec<&str>, Vec<Option<String>>) = rows.unzip();
        let nonces: Vec<i64> = (0..end.cast_signed()).collect();
        let signer = signer(number);
        v1.execute(
            "INSERT INTO submitter_nonce_allocation
                 (submitter, nonce, status, tx_hash, lock_owner, locked_until, updated_at)
             SELECT $1, r.nonce, r.status, r.tx_hash, 'host-1', now(), now()
             FROM unnest($2::bigint[], $3::text[], $4::text[]) AS r (nonce, status, tx_hash)",
            &[&signer, &nonces, &statuses, &hashes],
        )
        .await
        .unwrap();
        v1.execute(
            "INSERT INTO submitter_nonce_state VALUES ($1, NULL, $2, now())",
            &[&signer, &end.cast_signed()],
        )
        .await
        .unwrap();
    }
}

/// A chain, by its endpoint.
#[derive(Debug)]
pub(crate) struct Chain {
    url: String,
    client: reqwest::Client,
}

impl Chain {
    pub(crate) fn at(url: &str) -> Self {
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url: url.to_owned(), client }
    }

    async fn post(&self, body: &Value) -> Value {
        self.client.post(&self.url).json(body).send().await.unwrap().json().await.unwrap()
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let mut answer = self.post(&call).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Sends a transfer with each of these nonces; the hashes.
    pub(crate) async fn send(&self, from: &str, nonces: std::ops::Range<u64>) -> Vec<B256> {
        let mut hashes = Vec::new();
        for chunk in nonces.collect::<Vec<_>>().chunks(100) {
            let call = |nonce: &u64| {
                let transaction = json!({ "from": from, "to": from, "value": "0x1", "gas": "0x5208",
                                          "gasPrice": "0x77359400", "nonce": hex(*nonce) });
                json!({ "jsonrpc": "2.0", "id": nonce, "method": "eth_sendTransaction", "params": [transaction] })
            };
            let answers = self.post(&chunk.iter().map(call).collect()).await;
            let mut answers = answers.as_array().cloned().unwrap();
            answers.sort_by_key(|answer| answer["id"].as_u64());
            hashes.extend(answers.iter().map(|answer| {
                let hash = answer["result"].as_str();
                hash.unwrap_or_else(|| panic!("{answer}")).parse::<B256>().unwrap()
            }));
        }
        hashes
    }
}

fn hex(number: u64) -> String {
    format!("{number:#x}")
}
