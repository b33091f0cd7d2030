//! Blocks replaced and taken away, and endpoints on different forks.
//!
//! Blocks come only when asked for, so that every step is seen.
//!
//! Each of these fails if a receipt is believed without its block being canonical, if headers are
//! only ever put on top of each other, if what is confirmed is never looked at again, if a
//! shorter list is taken for a prefix of the longer one, or if what was taken back is not sent
//! again.

#[path = "reorgs/forks.rs"]
mod forks;
#[path = "reorgs/unseen.rs"]
mod unseen;

use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, assert_mined_once, id, text, transfer};

/// What becomes of a transaction whose block is replaced.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It is in the new block at the same height.
    Kept,
    /// It is in the last of the new blocks.
    Moved,
    /// It is in none of them, nor in the pool.
    Dropped,
}

struct Setup {
    anvil: Anvil,
    proxy: RpcProxy,
    options: NodeOptions,
    node: StileProcess,
    signer: String,
}

impl Setup {
    async fn new(backend: &Backend) -> Self {
        let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let options = backend.node(&proxy.url()).development_keys(1);
        let node = options.start().await;
        let signer = anvil.accounts().await.remove(0);
        anvil.mine(3).await;
        Self { anvil, proxy, options, node, signer }
    }

    /// After a kill.
    async fn start_again(&mut self) {
        self.node = self.options.start().await;
    }

    /// A transfer that waits for a block.
    async fn sent(&self, wei: u64, confirmations: u64) -> Value {
        let mut body = transfer(&self.signer, wei);
        body["finality"] = json!({ "confirmations": confirmations });
        let tx = self.node.send_new(&body).await;
        self.node.reaches(id(&tx), "SUBMITTED").await
    }

    /// A transfer, and `on_top` blocks on top of the one that it is in.
    async fn mined(&self, wei: u64, confirmations: u64, on_top: u64) -> Value {
        let tx = self.sent(wei, confirmations).await;
        self.anvil.mine(1 + on_top).await;
        self.node.follows_to(self.anvil.height().await).await;
        let tx = self.node.becomes(id(&tx), "a receipt", |tx| !tx["receipt"].is_null()).await;
        self.assert_canonical(&tx).await;
        tx
    }

    /// The receipt of a transaction is the chain's, and its block is the chain's at that height.
    async fn assert_canonical(&self, tx: &Value) {
        let receipt = self.anvil.receipt(text(&tx["txHash"])).await.expect("mined");
        assert_eq!(tx["receipt"]["blockHash"], receipt["blockHash"], "{tx:#}");
        let height = tx["receipt"]["blockNumber"].as_u64().expect("a height");
        let block = self.anvil.block(height).await.expect("a block");
        assert_eq!(tx["receipt"]["blockHash"], block["hash"], "{tx:#}");
    }

    /// How often the transaction's bytes came by.
    fn sends(&self, tx: &Value) -> usize {
        let sent = self.proxy.sent_raw();
        sent.iter().filter(|sent| sent.hash.to_string() == text(&tx["txHash"])).count()
    }

    async fn raw(&self, tx: &Value) -> String {
        self.anvil.raw_transaction(text(&tx["txHash"])).await.expect("its bytes")
    }

    /// It was taken out of its block: told by an event, and sent again as it was.
    async fn is_taken_back(&self, before: &Value, sends_before: usize) {
        let event = eventually("the news that its block is gone", async || {
            let event = self.node.last_event(id(before), "REORGED").await?;
            (event["data"]["was"]["blockHash"] == before["receipt"]["blockHash"]).then_some(event)
        })
        .await;
        assert_eq!((&event["state"], &event["subState"]), (&json!("SUBMITTED"), &json!("REORGED")));
        assert_eq!(event["data"]["newFork"], true, "{event:#}");
        assert_eq!(event["data"]["confirmations"], json!([]), "{event:#}");
        eventually("the same bytes to be sent again", async || {
            (self.sends(before) > sends_before).then_some(())
        })
        .await;
        // At once, not when a look at the pools ten seconds later finds it missing.
        assert!(!self.node.process.stderr().contains("no endpoint knows it any more"));
        let hash = text(&before["txHash"]);
        eventually("the chain to have it again", async || self.anvil.raw_transaction(hash).await)
            .await;
    }

    /// It ends confirmed after so many more blocks, with a history that says so and one attempt.
    async fn ends_confirmed(&self, tx: &Value, blocks: u64) -> Value {
        if blocks > 0 {
            self.anvil.mine(blocks).await;
        }
        let tx = self.node.reaches(id(tx), "CONFIRMED").await;
        self.assert_canonical(&tx).await;
        assert_eq!(tx["outcome"], "success");
        let history = self.node.history(id(&tx)).await;
        assert_eq!(history.last().unwrap()["kind"], "CONFIRMED", "{history:#?}");
        let mut reorged = history.iter().filter(|event| event["kind"] == "REORGED");
        let names_its_block = reorged.all(|event| event["data"]["was"]["blockHash"].is_string());
        assert!(names_its_block, "out of a block, or not at all: {history:#?}");
        assert_eq!(self.node.attempts(id(&tx)).await.len(), 1, "nothing was signed again");
        tx
    }
}

async fn hole_17_reorgs_with_the_transaction_kept_moved_and_dropped(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let mut wei = 0;
    for depth in [1, 2, 8, 64] {
        for fate in [Fate::Kept, Fate::Moved, Fate::Dropped] {
            if depth == 1 && fate == Fate::Moved {
                continue;
            }
            wei += 1;
            println!("depth {depth}, {fate:?}");
            replaced(&setup, wei, depth, fate).await;
        }
    }
}

/// The newest `depth` blocks are replaced, of which the transaction's own is the lowest.
async fn replaced(setup: &Setup, wei: u64, depth: u64, fate: Fate) {
    let before = setup.mined(wei, depth + 2, depth - 1).await;
    assert_eq!(before["state"], "TRACKING");
    let (raw, sends) = (setup.raw(&before).await, setup.sends(&before));
    match fate {
        Fate::Kept => setup.anvil.reorg(depth, &[(&raw, 0)]).await,
        Fate::Moved => setup.anvil.reorg(depth, &[(&raw, depth - 1)]).await,
        Fate::Dropped => setup.anvil.reorg(depth, &[]).await,
    }
    if fate == Fate::Dropped {
        setup.is_taken_back(&before, sends).await;
        setup.ends_confirmed(&before, depth + 3).await;
        return;
    }
    let old = &before["receipt"]["blockHash"];
    let after = setup.node.becomes(id(&before), "another block", |tx| {
        !tx["receipt"].is_null() && tx["receipt"]["blockHash"] != *old
    });
    let after = after.await;
    assert_eq!(after["state"], "TRACKING");
    setup.assert_canonical(&after).await;
    let event = setup.node.last_event(id(&after), "MINED").await.expect("an event");
    assert_eq!(event["data"]["newFork"], true, "{event:#}");
    let list = event["data"]["confirmations"].as_array().expect("the whole list");
    assert_eq!(list[0]["blockHash"], after["receipt"]["blockHash"], "{event:#}");
    let whole = if fate == Fate::Kept { depth } else { 1 };
    assert_eq!(list.len() as u64, whole, "{event:#}");
    setup.ends_confirmed(&after, depth + 2).await;
}

/// Many of one lane in the blocks that go: they are all sent again, and none gets in another's way.
async fn hole_17_a_whole_lane_is_taken_back(backend: Backend) {
    const COUNT: usize = 100;
    let setup = Setup::new(&backend).await;
    let bodies: Vec<Value> = (1..=COUNT as u64).map(|wei| transfer(&setup.signer, wei)).collect();
    setup.node.send_all(&bodies).await;
    eventually("all of them to be in the pool", async || {
        (setup.anvil.nonce(&setup.signer, "pending").await == COUNT as u64).then_some(())
    })
    .await;
    setup.anvil.mine(2).await;
    let confirmed = setup.node.all_confirmed(&setup.signer, COUNT).await;
    setup.proxy.reset();
    setup.anvil.reorg(2, &[]).await;
    eventually("all of them to be in the pool again", async || {
        (setup.anvil.nonce(&setup.signer, "pending").await == COUNT as u64).then_some(())
    })
    .await;
    setup.anvil.mine(2).await;
    for before in &confirmed {
        let old = &before["receipt"]["blockHash"];
        let after = setup.node.becomes(id(before), "another block", |tx| {
            !tx["receipt"].is_null() && tx["receipt"]["blockHash"] != *old
        });
        assert_eq!(after.await["txHash"], before["txHash"], "the same bytes");
    }
    let again = setup.node.all_confirmed(&setup.signer, COUNT).await;
    assert_mined_once(&setup.anvil, &setup.signer, &again).await;
}

/// A transaction that was called done is looked at again, and told so.
async fn hole_17_what_was_confirmed_is_taken_back_and_confirmed_again(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let before = setup.mined(1, 2, 2).await;
    let before = setup.node.reaches(id(&before), "CONFIRMED").await;
    let sends = setup.sends(&before);
    setup.anvil.reorg(3, &[]).await;
    setup.is_taken_back(&before, sends).await;
    let open = setup.node.tx(id(&before)).await;
    assert_eq!((&open["state"], &open["outcome"]), (&json!("SUBMITTED"), &json!(null)), "{open:#}");
    assert_eq!((&open["receipt"], &open["confirmedAt"]), (&json!(null), &json!(null)), "{open:#}");
    setup.ends_confirmed(&before, 3).await;
    let history = setup.node.history(id(&before)).await;
    let kinds: Vec<&str> = history.iter().map(|event| text(&event["kind"])).collect();
    let told = ["MINED", "CONFIRMED", "REORGED", "MINED", "CONFIRMED"];
    let story: Vec<&str> = kinds.iter().copied().filter(|kind| told.contains(kind)).collect();
    assert_eq!(story, told, "{kinds:?}");
}

/// A chain that gets shorter: what is left of it contradicts nothing, so nothing is taken back until
/// another block comes in the place of the one that went. Then the list is a new one.
async fn hole_17_a_fork_that_shortens_the_chain_is_a_new_fork(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let tx = setup.mined(1, 2, 3).await;
    let tx = setup.node.reaches(id(&tx), "CONFIRMED").await;
    let before = setup.node.history(id(&tx)).await.len();

    // Two blocks are taken from the top.
    setup.anvil.rollback(2).await;
    setup.proxy.reset();
    eventually("the shorter chain to be looked at many times", async || {
        (setup.proxy.count("eth_getBlockByNumber") > 10).then_some(())
    })
    .await;
    assert_eq!(setup.node.history(id(&tx)).await.len(), before, "a known head takes nothing back");

    // Its own block and all on top of it go, and others come, fewer than there were.
    let sends = setup.sends(&tx);
    setup.anvil.rollback(2).await;
    setup.anvil.drop_all_transactions().await;
    setup.anvil.mine(1).await;
    setup.is_taken_back(&tx, sends).await;
    setup.ends_confirmed(&tx, 3).await;
}

on_both_stores!(
    hole_17_reorgs_with_the_transaction_kept_moved_and_dropped,
    hole_17_a_whole_lane_is_taken_back,
    hole_17_what_was_confirmed_is_taken_back_and_confirmed_again,
    hole_17_a_fork_that_shortens_the_chain_is_a_new_fork,
);
