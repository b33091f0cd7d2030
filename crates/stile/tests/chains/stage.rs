//! A node program, a proxy before it, Stile, and what is sent through them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{DevNode, NodeKind, RpcProxy, eventually_within};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, id, text, transfer};

/// How long anything may take on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(90);

/// The accounts that Stile signs for.
pub(crate) const ACCOUNTS: usize = 6;

pub(crate) struct Stage {
    pub(crate) node: DevNode,
    pub(crate) proxy: RpcProxy,
    pub(crate) options: NodeOptions,
    pub(crate) stile: StileProcess,
    configure: fn(NodeOptions) -> NodeOptions,
    /// Of every transfer another one, so that none passes for another.
    wei: u64,
    /// The block from which on the chain is looked at.
    from: u64,
    _store: Backend,
}

impl Stage {
    /// A node of this kind behind a proxy that has been told something, and Stile before it.
    pub(crate) async fn start(
        kind: NodeKind,
        switch: fn(&RpcProxy),
        configure: fn(NodeOptions) -> NodeOptions,
    ) -> Self {
        let node = DevNode::start(kind).await;
        let proxy = RpcProxy::start(&node.url()).await;
        switch(&proxy);
        let (store, options) = stile(kind, &proxy, configure);
        let stile = options.start().await;
        // geth's accounts have their funds from earlier blocks.
        Self { node, proxy, options, stile, configure, wei: 0, from: 0, _store: store }
    }

    /// Ends Stile, and starts another one that knows nothing of what the first one did.
    pub(crate) async fn with_another_store(self) -> Self {
        self.stile.kill().await;
        let (store, options) = stile(self.node.kind(), &self.proxy, self.configure);
        let stile = options.start().await;
        Self { options, stile, _store: store, ..self }
    }

    /// Kills Stile and starts it again on the same store.
    pub(crate) async fn restart_stile(&mut self) {
        self.stile.kill().await;
        self.stile = self.options.start().await;
    }

    /// Hands over so many transfers in one call, dealt out to these accounts.
    pub(crate) async fn hand_over(&mut self, count: u64, accounts: &[usize]) -> Vec<Value> {
        let dealt = (1..=count).zip(accounts.iter().cycle());
        let first = self.wei;
        self.wei += count;
        let bodies = dealt.map(|(n, account)| transfer(DevNode::address(*account), first + n));
        self.stile.send_all(&bodies.collect::<Vec<_>>()).await
    }

    /// Hands over a transaction that must be taken, and waits until it is done.
    pub(crate) async fn done(&self, account: usize, payload: Value) -> Value {
        let body = json!({ "signer": DevNode::address(account), "payload": payload });
        let taken = self.stile.send_new(&body).await;
        let mut last = Value::Null;
        let done = eventually_within(LONG, "the transaction to be done", async || {
            last = self.stile.tx(id(&taken)).await;
            (last["state"] == "CONFIRMED").then(|| last.clone())
        });
        match tokio::time::timeout(LONG - Duration::from_secs(5), done).await {
            Ok(tx) => tx,
            Err(_) => panic!("{:#}\n{:#?}", last, self.stile.history(id(&taken)).await),
        }
    }

    /// Waits until no transaction of these accounts is open.
    pub(crate) async fn all_done(&self, accounts: &[usize]) {
        for account in accounts {
            let signer = DevNode::address(*account);
            let done = eventually_within(LONG, "no transaction to be open", async || {
                for state in ["CREATED", "ALLOCATED", "SUBMITTED", "TRACKING"] {
                    if self.stile.has_any(signer, state).await {
                        return None;
                    }
                }
                Some(())
            });
            if tokio::time::timeout(LONG - Duration::from_secs(5), done).await.is_err() {
                self.tell_what_is_open(signer).await;
            }
        }
    }

    /// Ends the test with what there is to know about a signer that does not go on.
    pub(crate) async fn tell_what_is_open(&self, signer: &str) -> ! {
        let txs = self.stile.txs(signer).await;
        let open: Vec<&Value> = txs.iter().filter(|tx| tx["state"] != "CONFIRMED").collect();
        let mined = self.node.transactions_from(self.from).await;
        let mined: Vec<_> = mined.iter().filter(|mined| mined.from == signer).collect();
        let doctor = self.stile.get(&format!("/api/v1/signers/{signer}/doctor")).await.text;
        let log = self.stile.process.stderr();
        let log: Vec<&str> = log.lines().rev().take(30).collect();
        panic!(
            "{} open, the first: {:#?}\n{doctor}\n{log:#?}\nmined: {mined:#?}",
            open.len(),
            open.first()
        );
    }

    /// Checks, from every block, that what these accounts sent is what Stile says that they did: each
    /// transaction once, the nonces without a gap, and nothing else.
    pub(crate) async fn each_once(&self, accounts: &[usize]) {
        let mined = self.node.transactions_from(self.from).await;
        for account in accounts {
            let signer = DevNode::address(*account);
            let txs = self.stile.txs(signer).await;
            let told: BTreeMap<u64, &str> = txs
                .iter()
                .map(|tx| {
                    assert_eq!(tx["state"], "CONFIRMED", "{tx:#}");
                    (tx["nonce"].as_u64().expect("a nonce"), text(&tx["txHash"]))
                })
                .collect();
            let of_signer: Vec<(u64, &str)> = mined
                .iter()
                .filter(|mined| mined.from == signer)
                .map(|mined| (mined.nonce, mined.hash.as_str()))
                .collect();
            assert_eq!(told.len(), txs.len(), "a nonce was bound twice");
            let gapless: Vec<u64> = of_signer.iter().map(|(nonce, _)| *nonce).collect();
            assert_eq!(
                gapless,
                (0..txs.len() as u64).collect::<Vec<_>>(),
                "the nonces of {signer}"
            );
            assert_eq!(of_signer, told.into_iter().collect::<Vec<_>>(), "of {signer}");
        }
    }

    /// Whether the endpoint, as it is behind the proxy, answers a method with something.
    pub(crate) async fn answers(&self, method: &str, params: Value) -> bool {
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let answer = client.post(self.proxy.url()).json(&call).send().await;
        let answer: Value = answer.expect("an answer").json().await.expect("JSON");
        answer.get("result").is_some_and(|result| !result.is_null())
    }

    /// The doctor's findings about an account, by their codes; none before its lane is there.
    pub(crate) async fn findings(&self, account: usize) -> Vec<String> {
        let path = format!("/api/v1/signers/{}/doctor", DevNode::address(account));
        let answer = self.stile.get(&path).await;
        if answer.status != 200 {
            return Vec::new();
        }
        let findings = answer.json();
        let findings = findings["findings"].as_array().expect("a list");
        findings.iter().map(|finding| text(&finding["code"]).to_owned()).collect()
    }
}

fn stile(
    kind: NodeKind,
    proxy: &RpcProxy,
    configure: fn(NodeOptions) -> NodeOptions,
) -> (Backend, NodeOptions) {
    let store = Backend::sqlite();
    // On a chain that makes no block without transactions nothing may be waited for on top.
    let blocks = if kind.mines_by_time() { "1" } else { "0" };
    let options = store
        .node(&proxy.url())
        .chain(kind.chain_id())
        .development_keys(ACCOUNTS)
        .set_literal("confirmations.required", blocks)
        .set("nonce.state_timeout", "1s")
        .set("confirmations.stale_receipt_timeout", "5s")
        .set("tx.resubmit.interval", "5s");
    (store, configure(options))
}
