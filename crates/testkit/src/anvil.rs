//! A private development chain.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::launch::Launch;
use crate::process::Process;
use crate::wait::DEADLINE;
use crate::{programs, scratch};

/// What anvil writes once it takes connections, followed by the address.
const LISTENING: &str = "Listening on ";

/// How a chain behaves.
#[derive(Debug, Clone)]
pub struct AnvilOptions {
    /// A block every so many seconds; `None` makes one for each transaction at once.
    pub block_time_seconds: Option<u64>,
    /// No block unless [`Anvil::mine`] asks for it.
    pub no_mining: bool,
    /// The chain's number.
    pub chain_id: u64,
    /// How many unlocked, funded accounts there are.
    pub accounts: u32,
    /// Further command-line arguments.
    pub arguments: Vec<String>,
}

impl Default for AnvilOptions {
    fn default() -> Self {
        Self {
            block_time_seconds: None,
            no_mining: false,
            chain_id: 31337,
            accounts: 10,
            arguments: Vec::new(),
        }
    }
}

impl AnvilOptions {
    fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--host=127.0.0.1".to_owned(),
            // The system picks the port, so that there is no collision to retry after.
            "--port=0".to_owned(),
            format!("--chain-id={}", self.chain_id),
            format!("--accounts={}", self.accounts),
        ];
        arguments.extend(self.block_time_seconds.map(|seconds| format!("--block-time={seconds}")));
        arguments.extend(self.no_mining.then(|| "--no-mining".to_owned()));
        arguments.extend(self.arguments.iter().cloned());
        arguments
    }
}

/// A running anvil. Dropped, it ends; it also ends with the test process.
#[derive(Debug)]
pub struct Anvil {
    process: Process,
    url: String,
    client: reqwest::Client,
    /// Where anvil looks for its home, so that it leaves nothing in ours.
    _home: TempDir,
}

impl Anvil {
    /// Starts a chain and waits until it listens.
    ///
    /// Panics with anvil's output if it ends or stays silent.
    pub async fn start(options: AnvilOptions) -> Self {
        let home = scratch::directory("anvil");
        let process = Launch::new(programs::anvil())
            .args(options.to_arguments())
            .env("HOME", home.path())
            .scratch(home.path())
            .start();
        let line = process.wait_for_line(|line| line.starts_with(LISTENING), DEADLINE).await;
        let address = line.trim_start_matches(LISTENING).trim();
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build();
        let client = client.expect("build an HTTP client");
        Self { url: format!("http://{address}"), process, client, _home: home }
    }

    /// The URL of the JSON-RPC endpoint.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The process, to freeze it (a node that accepts connections and does not answer) or to read
    /// its output.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Calls a method and returns its result.
    ///
    /// Panics with the text of an error, whoever made it.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = async {
            self.client.post(&self.url).json(&request).send().await?.json::<Value>().await
        };
        let mut answer = answer.await.unwrap_or_else(|error| panic!("{method}: {error:?}"));
        match answer.get("error") {
            Some(error) => panic!("{method}: {error}"),
            None => answer["result"].take(),
        }
    }

    /// Makes so many blocks at once.
    pub async fn mine(&self, blocks: u64) {
        self.rpc("anvil_mine", json!([format!("{blocks:#x}")])).await;
    }

    /// The height of the newest block.
    pub async fn height(&self) -> u64 {
        quantity(&self.rpc("eth_blockNumber", json!([])).await)
    }

    /// The addresses of the unlocked accounts, as anvil writes them.
    pub async fn accounts(&self) -> Vec<String> {
        let accounts = self.rpc("eth_accounts", json!([])).await;
        let accounts = accounts.as_array().expect("a list of accounts");
        accounts.iter().map(|account| account.as_str().unwrap().to_owned()).collect()
    }

    /// Sends one wei from an unlocked account to itself, as an outsider who shares the key would,
    /// and returns the hash. Without a nonce, anvil takes the next one.
    pub async fn send_transfer(&self, from: &str, nonce: Option<u64>) -> String {
        let mut transaction = json!({ "from": from, "to": from, "value": "0x1" });
        if let Some(nonce) = nonce {
            transaction["nonce"] = json!(format!("{nonce:#x}"));
        }
        let hash = self.rpc("eth_sendTransaction", json!([transaction])).await;
        hash.as_str().expect("a transaction hash").to_owned()
    }

    /// How many transactions an account has made, as of a block: `"latest"`, `"pending"`, ….
    pub async fn nonce(&self, address: &str, tag: &str) -> u64 {
        quantity(&self.rpc("eth_getTransactionCount", json!([address, tag])).await)
    }
}

/// A JSON-RPC quantity: hexadecimal with a prefix.
fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}
