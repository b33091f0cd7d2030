//! Keys, balances, nonces, and transactions of the chain's own accounts.

use alloy_primitives::U256;
use serde_json::{Value, json};

use super::{Anvil, amount, quantity, text};

/// The private keys of the accounts that the words "test test test test test test test test test
/// test test junk" give, which anvil and Hardhat fund by default. Everybody knows them.
const KEYS: [&str; 10] = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
    "0x7c852118294e51e653712a81e05800f419141751be58f605c371e15141b007a6",
    "0x47e179ec197488593b187f80a00eb0da91f1b9d0b13f8733639f19c30a34926a",
    "0x8b3a350cf5c34c9194ca85829a2df0ec3153be0318b5e2d3348e872092edffba",
    "0x92db14e403b83dfe3df233f83dfa3a0d7096f21ca9b0d6d6b8d88b2b4ec1564e",
    "0x4bbbf85ce3377467afe5d46f804f221813b2bb87f24d81f60f1fcdbf7cbf4356",
    "0xdbda1821b80551c9d65939329250298aa3472ba22feea921c0cf5d620ea67b97",
    "0x2a871d0798f97d79848a013d4936a73bf4cc922c825d33c1cf7073dff6d409c6",
];

impl Anvil {
    /// The private key of one of the first ten accounts, in the order of [`Anvil::accounts`].
    pub fn key(account: usize) -> &'static str {
        KEYS[account]
    }

    /// The addresses of the unlocked accounts, as anvil writes them.
    pub async fn accounts(&self) -> Vec<String> {
        let accounts = self.rpc("eth_accounts", json!([])).await;
        accounts.as_array().expect("a list of accounts").iter().map(text).collect()
    }

    /// Sends one wei from an unlocked account to itself, as an outsider who shares the key would,
    /// and returns the hash. Without a nonce, anvil takes the next one.
    pub async fn send_transfer(&self, from: &str, nonce: Option<u64>) -> String {
        let mut transaction = json!({ "from": from, "to": from, "value": "0x1" });
        if let Some(nonce) = nonce {
            transaction["nonce"] = json!(format!("{nonce:#x}"));
        }
        text(&self.rpc("eth_sendTransaction", json!([transaction])).await)
    }

    /// The signed bytes of a transaction of an unlocked account, which is not sent. Everything
    /// has to be in it: nonce, gas, fees.
    pub async fn sign_transaction(&self, transaction: Value) -> String {
        text(&self.rpc("eth_signTransaction", json!([transaction])).await)
    }

    /// Sends signed bytes and returns the hash.
    pub async fn send_raw(&self, raw: &str) -> String {
        text(&self.rpc("eth_sendRawTransaction", json!([raw])).await)
    }

    /// How many transactions an account has made, as of a block: `"latest"`, `"pending"`, ….
    pub async fn nonce(&self, address: &str, tag: &str) -> u64 {
        quantity(&self.rpc("eth_getTransactionCount", json!([address, tag])).await)
    }

    /// What an account has, in wei, as of the newest block.
    pub async fn balance(&self, address: &str) -> U256 {
        amount(&self.rpc("eth_getBalance", json!([address, "latest"])).await)
    }

    /// Gives an account exactly this much.
    pub async fn set_balance(&self, address: &str, wei: U256) {
        self.rpc("anvil_setBalance", json!([address, format!("{wei:#x}")])).await;
    }
}
