//! Chain nodes of several makes, behind one face.
//!
//! | file | what is in it |
//! |---|---|
//! | `nodes` | starting one, calling it, killing it, emptying it |
//! | `launch` | how each of them is started, and what it keeps |
//! | `reads` | what is on the chain |
//!
//! Each of them serves the accounts that the words "test … junk" give: with funds from the
//! beginning where a node can be told so, else from the node's own account.

mod launch;
mod reads;

use std::time::Duration;

use alloy_primitives::U256;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::anvil::Anvil;
use crate::process::Process;
use crate::signal::Signal;
use crate::wait::{DEADLINE, eventually_within};
use crate::{free_port, scratch};

/// How long a node of Node.js may take to start while much else runs.
const START: Duration = Duration::from_secs(90);

/// The accounts of the well-known words, in the order of [`Anvil::key`].
const ADDRESSES: [&str; 8] = [
    "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266",
    "0x70997970c51812dc3a010c7d01b50e0d17dc79c8",
    "0x3c44cdddb6a900fa2b585dd299e03d12fa4293bc",
    "0x90f79bf6eb2c4f870365e785982e1f101e93b906",
    "0x15d34aaf54267db7d7c367839aaf71a00a2c6a65",
    "0x9965507d1a55bcc2695c58ba16fb37d819b0a4dc",
    "0x976ea74026e726554db657fa54763abd0c3a0aa9",
    "0x14dc79964da2c08b23698b3d3cc7ca32193d9955",
];

/// A make of node program, and how it makes blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeKind {
    /// anvil with a block every second, by the rules of this fork.
    Anvil(&'static str),
    /// anvil that plays a chain of the OP stack, with a block every second.
    AnvilOptimism,
    /// Hardhat 3 with a block for each transaction at once.
    HardhatOnDemand,
    /// Hardhat 3 with a block every second.
    HardhatByTime,
    /// ganache 7 with a block every second.
    Ganache,
    /// geth 1.8.23 of 2019 with a block every second: no base fee, and no receipts of a block.
    Geth,
}

impl NodeKind {
    /// The chain's number.
    pub fn chain_id(self) -> u64 {
        // geth's own chain for developers has this number, and cannot be told another.
        if self == Self::Geth { 1337 } else { 31337 }
    }

    /// Whether it makes blocks without transactions.
    pub fn mines_by_time(self) -> bool {
        self != Self::HardhatOnDemand
    }

    /// Whether it finds its chain again after it was killed.
    pub fn keeps_data(self) -> bool {
        matches!(self, Self::Ganache | Self::Geth)
    }
}

/// A running node. Dropped, it ends; it also ends with the test process.
#[derive(Debug)]
pub struct DevNode {
    kind: NodeKind,
    port: u16,
    process: Process,
    client: reqwest::Client,
    /// Its data, its configuration and its output.
    home: TempDir,
}

impl DevNode {
    /// Starts a node and waits until it answers and its accounts have funds.
    ///
    /// Panics with its output if it ends or stays silent.
    pub async fn start(kind: NodeKind) -> Self {
        let home = scratch::directory("node");
        launch::prepare(kind, home.path());
        let client = reqwest::Client::builder().no_proxy().timeout(DEADLINE).build();
        let client = client.expect("build an HTTP client");
        let port = free_port();
        let process = launch::launch(kind, port, home.path());
        let node = Self { kind, port, process, client, home };
        node.is_up().await;
        node
    }

    async fn is_up(&self) {
        let up = eventually_within(START, "the node to answer", async || {
            let ended = self.process.try_exit();
            assert!(ended.is_none(), "the node ended{}", self.process.report());
            self.try_rpc("eth_blockNumber", json!([])).await.ok()
        });
        up.await;
        if self.kind == NodeKind::Geth {
            self.fund().await;
        }
    }

    /// Gives the accounts funds from the node's own, unless they have some.
    async fn fund(&self) {
        let own = self.rpc("eth_accounts", json!([])).await[0].clone();
        for address in ADDRESSES {
            if !self.balance(address).await.is_zero() {
                continue;
            }
            let gift = json!([{ "from": own, "to": address, "value": "0x3635c9adc5dea00000" }]);
            self.rpc("eth_sendTransaction", gift).await;
        }
        eventually_within(START, "funds", async || {
            for address in ADDRESSES {
                if self.balance(address).await.is_zero() {
                    return None;
                }
            }
            Some(())
        })
        .await;
    }

    /// What it is.
    pub fn kind(&self) -> NodeKind {
        self.kind
    }

    /// The URL of the JSON-RPC endpoint; the same as long as it lives.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// An account with funds, in lower case, whose key is [`Anvil::key`].
    pub fn address(account: usize) -> &'static str {
        ADDRESSES[account]
    }

    /// The process, to freeze it or to read its output.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Ends it without a word.
    pub async fn kill(&self) {
        self.process.signal(Signal::Kill);
        self.process.wait_exit(DEADLINE).await;
    }

    /// Starts it again at the same address after [`DevNode::kill`], with the data that it has kept.
    pub async fn start_again(&mut self) {
        self.process = launch::launch(self.kind, self.port, self.home.path());
        self.is_up().await;
    }

    /// Kills it, and starts it again at the same address without any data: its chain begins anew.
    pub async fn reset(&mut self) {
        self.kill().await;
        launch::forget(self.kind, self.home.path());
        self.start_again().await;
    }

    /// Calls a method and returns its result, or the text of an error, whoever made it.
    pub async fn try_rpc(&self, method: &str, params: Value) -> Result<Value, String> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let answer = async {
            self.client.post(self.url()).json(&request).send().await?.json::<Value>().await
        };
        let mut answer = answer.await.map_err(|error| format!("{method}: {error:?}"))?;
        match answer.get("error") {
            Some(error) => Err(format!("{method}: {error}")),
            None => Ok(answer["result"].take()),
        }
    }

    /// Calls a method and returns its result.
    ///
    /// Panics with the text of an error, whoever made it.
    pub async fn rpc(&self, method: &str, params: Value) -> Value {
        self.try_rpc(method, params).await.unwrap_or_else(|error| panic!("{error}"))
    }

    /// What an account has, in wei, as of the newest block.
    pub async fn balance(&self, address: &str) -> U256 {
        reads::amount(&self.rpc("eth_getBalance", json!([address, "latest"])).await)
    }

    /// The private key of an account.
    pub fn key(account: usize) -> &'static str {
        Anvil::key(account)
    }
}
