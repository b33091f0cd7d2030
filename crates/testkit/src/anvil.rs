//! A private development chain.
//!
//! | file | what is in it |
//! |---|---|
//! | `anvil` | starting it, calling it |
//! | `accounts` | keys, balances, nonces, transactions of its own accounts |
//! | `mining` | when blocks come, and how they are taken back |
//! | `blocks` | what is on the chain |
//! | `contract` | a contract to call, which reverts when asked to |

mod accounts;
mod blocks;
mod contract;
mod mining;

pub use blocks::Mined;

use alloy_primitives::U256;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::launch::Launch;
use crate::process::Process;
use crate::signal::Signal;
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
    /// Where it listens; 0 lets the system pick. One that is restarted needs a port that nobody is
    /// given meanwhile: [`crate::free_port`].
    pub port: u16,
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
            port: 0,
            arguments: Vec::new(),
        }
    }
}

impl AnvilOptions {
    fn to_arguments(&self) -> Vec<String> {
        let mut arguments = vec![
            "--host=127.0.0.1".to_owned(),
            // If the system picks the port, there is no collision to retry after.
            format!("--port={}", self.port),
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
    options: AnvilOptions,
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
        Self { url: format!("http://{address}"), process, client, options, _home: home }
    }

    /// Everything on the chain, for [`Anvil::restart`].
    pub async fn dump_state(&self) -> Value {
        self.rpc("anvil_dumpState", json!([])).await
    }

    /// Kills it, starts it again at the same address, and gives it back what it had at some time:
    /// blocks with their hashes, accounts, an empty pool.
    ///
    /// Panics unless it was started on a port of its own. It listens with no block but its first
    /// for a moment: keep clients away meanwhile.
    pub async fn restart(&mut self, state: &Value) {
        self.restart_empty().await;
        let loaded = self.rpc("anvil_loadState", json!([state])).await;
        assert_eq!(loaded, true, "anvil_loadState");
    }

    /// Kills it, and starts it again at the same address with nothing but another first block.
    ///
    /// Panics unless it was started on a port of its own.
    pub async fn restart_empty(&mut self) {
        assert_ne!(self.options.port, 0, "a restarted chain needs a port of its own");
        self.process.signal(Signal::Kill);
        self.process.wait_exit(DEADLINE).await;
        *self = Self::start(self.options.clone()).await;
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

    /// Calls a method many times in one request; the results in the order of the parameters.
    ///
    /// Panics with the text of an error, whoever made it.
    async fn rpc_batch(&self, method: &str, params: Vec<Value>) -> Vec<Value> {
        let requests: Vec<Value> = params
            .into_iter()
            .enumerate()
            .map(|(id, params)| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
            .collect();
        let answers = async {
            self.client.post(&self.url).json(&requests).send().await?.json::<Vec<Value>>().await
        };
        let mut answers = answers.await.unwrap_or_else(|error| panic!("{method}: {error:?}"));
        answers.sort_by_key(|answer| answer["id"].as_u64());
        assert_eq!(answers.len(), requests.len(), "{method}: {answers:?}");
        answers
            .into_iter()
            .map(|mut answer| match answer.get("error") {
                Some(error) => panic!("{method}: {error}"),
                None => answer["result"].take(),
            })
            .collect()
    }
}

/// A JSON-RPC quantity: hexadecimal with a prefix.
fn quantity(value: &Value) -> u64 {
    let digits = value.as_str().and_then(|text| text.strip_prefix("0x"));
    let number = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}

/// A JSON-RPC quantity that may be larger than 64 bits.
fn amount(value: &Value) -> U256 {
    let number = value.as_str().and_then(|text| text.parse().ok());
    number.unwrap_or_else(|| panic!("{value} is not a quantity"))
}

/// A JSON-RPC text.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text")).to_owned()
}
