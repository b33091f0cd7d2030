//! Three endpoints of one chain, and the ways in which one of them lies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use stile_engine::{Finding, Node};
use testkit::{Anvil, RpcProxy, eventually};

use crate::setup::{chain, lane};

/// One chain, seen through three endpoints. The first of them is followed at first.
pub(crate) struct Trio {
    pub(crate) anvil: Anvil,
    pub(crate) proxies: [RpcProxy; 3],
}

impl Trio {
    pub(crate) async fn start() -> Self {
        let anvil = chain(false).await;
        anvil.mine(5).await;
        let proxy = || RpcProxy::start(anvil.url());
        let proxies = [proxy().await, proxy().await, proxy().await];
        Self { anvil, proxies }
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.proxies.iter().map(RpcProxy::url).collect()
    }

    pub(crate) fn liar(&self) -> &RpcProxy {
        &self.proxies[0]
    }
}

/// Host and port.
pub(crate) fn shown(proxy: &RpcProxy) -> String {
    proxy.url().trim_start_matches("http://").to_owned()
}

/// What the doctor finds under this name.
pub(crate) async fn finding(node: &Node, code: &str) -> Option<Finding> {
    let found = node.lanes().doctor(lane(0)).await.unwrap().findings;
    found.into_iter().find(|finding| finding.code == code)
}

/// Waits until the doctor names the endpoint.
pub(crate) async fn named(node: &Node, liar: &RpcProxy) -> String {
    let name = shown(liar);
    eventually("the liar to be named", async || {
        let found = finding(node, "endpoint-contradicts").await?;
        found.words.contains(&name).then_some(found.words)
    })
    .await
}

pub(crate) fn quantity(number: u64) -> Value {
    json!(format!("{number:#x}"))
}

fn height_of(params: &Value) -> Option<u64> {
    u64::from_str_radix(params[0].as_str()?.strip_prefix("0x")?, 16).ok()
}

fn made_up_hash(height: u64) -> Value {
    json!(format!("0xfa{height:062x}"))
}

/// A chain that goes on from a true block, all of it made up.
#[derive(Debug, Clone)]
pub(crate) struct MadeUp {
    /// The last true block.
    root: Value,
    from: u64,
    to: u64,
    /// What is claimed to be in its first block.
    tx: Value,
}

impl MadeUp {
    pub(crate) async fn on(anvil: &Anvil, length: u64, tx: Value) -> Self {
        let from = anvil.height().await;
        let root = anvil.block(from).await.unwrap();
        Self { root, from, to: from + length, tx }
    }

    fn block(&self, height: u64, whole: bool) -> Value {
        let mut block = self.root.clone();
        block["number"] = quantity(height);
        block["hash"] = made_up_hash(height);
        block["parentHash"] = match height - 1 {
            below if below == self.from => self.root["hash"].clone(),
            below => made_up_hash(below),
        };
        block["transactions"] = match (height == self.from + 1, whole) {
            (false, _) => json!([]),
            (true, false) => json!([self.tx["hash"]]),
            (true, true) => json!([self.tx]),
        };
        block
    }

    fn receipt(&self) -> Value {
        json!({
            "transactionHash": self.tx["hash"],
            "blockNumber": quantity(self.from + 1),
            "blockHash": made_up_hash(self.from + 1),
            "transactionIndex": "0x0",
            "status": "0x1",
            "gasUsed": "0x5208",
            "effectiveGasPrice": "0x9",
            "contractAddress": null,
        })
    }

    /// Has an endpoint tell it.
    pub(crate) fn tell(&self, liar: &RpcProxy) {
        let to = self.to;
        liar.lie("eth_blockNumber", move |_, _| Some(quantity(to)));
        let it = self.clone();
        liar.lie("eth_getBlockByNumber", move |params, _| {
            let whole = params[1] == true;
            match height_of(params) {
                Some(height) => {
                    (height > it.from && height <= it.to).then(|| it.block(height, whole))
                }
                None => (params[0] == "latest").then(|| it.block(it.to, whole)),
            }
        });
        let it = self.clone();
        liar.lie("eth_getBlockByHash", move |params, _| {
            let height = (it.from + 1..=it.to).find(|height| made_up_hash(*height) == params[0])?;
            Some(it.block(height, params[1] == true))
        });
        let it = self.clone();
        liar.lie("eth_getTransactionReceipt", move |params, _| {
            (params[0] == it.tx["hash"]).then(|| it.receipt())
        });
        let it = self.clone();
        liar.lie("eth_getBlockReceipts", move |params, _| {
            (params[0] == made_up_hash(it.from + 1)).then(|| json!([it.receipt()]))
        });
    }
}

/// Every receipt is one of a transaction that failed.
pub(crate) fn tell_failures(liar: &RpcProxy) {
    let failed = |receipt: &Value| {
        let mut receipt = receipt.clone();
        receipt["status"] = json!("0x0");
        receipt
    };
    liar.lie("eth_getTransactionReceipt", move |_, told| told.is_object().then(|| failed(told)));
    liar.lie("eth_getBlockReceipts", move |_, told| {
        Some(told.as_array()?.iter().map(failed).collect())
    });
}

/// A transaction is in a true block, where it is not.
pub(crate) fn slip_in(liar: &RpcProxy, block: &Value, tx: &Value) {
    let receipt = json!({
        "transactionHash": tx["hash"],
        "blockNumber": block["number"],
        "blockHash": block["hash"],
        "transactionIndex": "0x0",
        "status": "0x1",
        "gasUsed": "0x5208",
        "effectiveGasPrice": "0x9",
        "contractAddress": null,
    });
    for method in ["eth_getBlockByNumber", "eth_getBlockByHash"] {
        let (hash, tx) = (block["hash"].clone(), tx.clone());
        liar.lie(method, move |params, told| {
            let mut told = (told["hash"] == hash).then(|| told.clone())?;
            told["transactions"] =
                if params[1] == true { json!([tx]) } else { json!([tx["hash"]]) };
            Some(told)
        });
    }
    let (hash, told) = (tx["hash"].clone(), receipt.clone());
    liar.lie("eth_getTransactionReceipt", move |params, _| {
        (params[0] == hash).then(|| told.clone())
    });
}

/// A block has another hash, and the one on top of it says so too; all else is true.
pub(crate) fn forge_hash(liar: &RpcProxy, block: &Value) {
    let (true_hash, forged) = (block["hash"].clone(), made_up_hash(0));
    let mut stored = block.clone();
    stored["hash"] = forged.clone();
    for method in ["eth_getBlockByNumber", "eth_getBlockByHash"] {
        let (true_hash, forged, stored) = (true_hash.clone(), forged.clone(), stored.clone());
        liar.lie(method, move |params, told| {
            if params[0] == forged {
                return Some(stored.clone());
            }
            let text = told.to_string();
            let (from, to) = (true_hash.as_str()?, forged.as_str()?);
            text.contains(from).then(|| serde_json::from_str(&text.replace(from, to)).unwrap())
        });
    }
}

/// The receipts of a block whose hash is forged, to match.
pub(crate) fn forge_receipts(liar: &RpcProxy, block: &Value, receipts: &Value) {
    let (true_hash, forged) = (block["hash"].clone(), made_up_hash(0));
    let replace = move |told: &Value| -> Option<Value> {
        let (from, to) = (true_hash.as_str()?, forged.as_str()?);
        serde_json::from_str(&told.to_string().replace(from, to)).ok()
    };
    let (receipts, asked) = (replace(receipts), made_up_hash(0));
    liar.lie("eth_getBlockReceipts", move |params, _| {
        (params[0] == asked).then(|| receipts.clone()).flatten()
    });
    liar.lie("eth_getTransactionReceipt", move |_, told| replace(told));
}

/// The head is the true one and an older one by turns, as behind a load balancer.
pub(crate) async fn flap(anvil: &Anvil, liar: &RpcProxy, back: u64) {
    let height = anvil.height().await - back;
    let block = anvil.block(height).await.unwrap();
    let turn = Arc::new(AtomicU64::new(0));
    let is_back = move || !turn.fetch_add(1, Ordering::Relaxed).is_multiple_of(3);
    let (first, second) = (is_back.clone(), is_back);
    liar.lie("eth_blockNumber", move |_, _| first().then(|| quantity(height)));
    liar.lie("eth_getBlockByNumber", move |params, _| {
        (params[0] == "latest" && second()).then(|| block.clone())
    });
}

/// The newest block is called finalized.
pub(crate) fn finalize_all(liar: &RpcProxy, newest: Arc<std::sync::Mutex<Value>>) {
    liar.lie("eth_getBlockByNumber", move |params, _| {
        (params[0] == "finalized" || params[0] == "safe").then(|| newest.lock().unwrap().clone())
    });
}

/// The newest block is one higher than it is, and has the hash of this one.
pub(crate) fn head_of_old(liar: &RpcProxy, newest: u64, old: &Value) {
    let claimed = quantity(newest + 1);
    let mut head = old.clone();
    head["number"] = claimed.clone();
    liar.lie("eth_blockNumber", move |_, _| Some(claimed.clone()));
    liar.lie("eth_getBlockByNumber", move |params, _| {
        (params[0] == "latest").then(|| head.clone())
    });
}

/// On top of this block is one whose height is another by its hash than as the newest.
pub(crate) fn head_with_a_hole(liar: &RpcProxy, newest: &Value, height: u64, other: u64) {
    let mut head = newest.clone();
    head["hash"] = made_up_hash(height);
    head["parentHash"] = newest["hash"].clone();
    head["transactions"] = json!([]);
    head["number"] = quantity(height);
    liar.lie("eth_blockNumber", move |_, _| Some(quantity(height)));
    let shown = head.clone();
    liar.lie("eth_getBlockByNumber", move |params, _| {
        (params[0] == "latest").then(|| shown.clone())
    });
    head["number"] = quantity(other);
    liar.lie("eth_getBlockByHash", move |params, _| {
        (params[0] == head["hash"]).then(|| head.clone())
    });
}

/// The newest block has a parent, which has one, and so on, all at the same height.
pub(crate) fn without_end(liar: &RpcProxy, newest: &Value, height: u64) {
    let count = Arc::new(AtomicU64::new(0));
    let mut head = newest.clone();
    head["hash"] = made_up_hash(u64::MAX);
    head["parentHash"] = made_up_hash(u64::MAX - 1);
    head["transactions"] = json!([]);
    head["number"] = quantity(height);
    let shown = head.clone();
    liar.lie("eth_blockNumber", move |_, _| Some(quantity(height)));
    liar.lie("eth_getBlockByNumber", move |params, _| {
        (params[0] == "latest").then(|| shown.clone())
    });
    liar.lie("eth_getBlockByHash", move |params, _| {
        let mut block = head.clone();
        if params[0] != block["hash"] {
            block["hash"] = params[0].clone();
            block["parentHash"] = made_up_hash(1_000_000 + count.fetch_add(1, Ordering::Relaxed));
        }
        Some(block)
    });
}

/// Every receipt tells of a contract that was not made, and of another amount of gas.
pub(crate) fn embellish(liar: &RpcProxy, contract: Option<&'static str>, gas: &'static str) {
    let told = move |receipt: &Value| {
        let mut receipt = receipt.clone();
        if let Some(contract) = contract {
            receipt["contractAddress"] = json!(contract);
            // Of a call nobody would believe it.
            receipt["to"] = Value::Null;
        }
        receipt["gasUsed"] = json!(gas);
        receipt
    };
    liar.lie("eth_getTransactionReceipt", move |_, said| said.is_object().then(|| told(said)));
    liar.lie("eth_getBlockReceipts", move |_, said| {
        Some(said.as_array()?.iter().map(told).collect())
    });
}
