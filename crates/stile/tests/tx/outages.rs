//! A chain that is away, that takes and does not answer, that wants money.

use std::collections::BTreeSet;

use stile::B256;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{NodeOptions, StileProcess};
use crate::support::{Backend, assert_mined_once, id, transfer};

const SEND: &str = "eth_sendRawTransaction";
const BLOCK_RECEIPTS: &str = "eth_getBlockReceipts";

struct Setup {
    anvil: Anvil,
    proxy: RpcProxy,
    node: StileProcess,
    signer: String,
}

impl Setup {
    /// A node that has the lane, with one transfer done.
    async fn new(backend: &Backend) -> Self {
        Self::with(backend, |options| options).await
    }

    async fn with(backend: &Backend, change: impl FnOnce(NodeOptions) -> NodeOptions) -> Self {
        let options = AnvilOptions { block_time_seconds: Some(1), ..Default::default() };
        let anvil = Anvil::start(options).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let node = change(backend.node(&proxy.url()).development_keys(1)).start().await;
        let signer = anvil.accounts().await.remove(0);
        let first = node.send_new(&transfer(&signer, 1)).await;
        node.reaches(id(&first), "CONFIRMED").await;
        Self { anvil, proxy, node, signer }
    }

    /// All of them end confirmed, each mined once, and what was on the wire was one transaction
    /// for each, however often it was sent.
    async fn all_end_well(&self, count: usize) {
        let confirmed = self.node.all_confirmed(&self.signer, count).await;
        assert_mined_once(&self.anvil, &self.signer, &confirmed).await;
        let on_wire: BTreeSet<B256> = self.proxy.sent_raw().iter().map(|sent| sent.hash).collect();
        assert_eq!(on_wire.len(), count, "nothing was signed twice");
    }
}

/// The lane is known, so nonces go on from its cursor.
///
/// Fails if accepting asks the chain, or if what could not be sent is given up.
async fn nothing_is_lost_while_the_chain_is_away(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.refuse().await;
    for wei in 2..=50 {
        setup.node.send_new(&transfer(&setup.signer, wei)).await;
    }
    let away_at = setup.anvil.height().await;
    eventually("five blocks that the node does not see", async || {
        (setup.anvil.height().await >= away_at + 5).then_some(())
    })
    .await;
    assert!(!setup.node.has_any(&setup.signer, "FAILED").await);
    setup.proxy.heal().await;
    setup.all_end_well(50).await;
}

/// The chain takes every transaction, and the node is told nothing of it.
///
/// Fails if an unknown answer is taken for a refusal, if "nonce too low" is, or if somebody signs
/// again because of it.
async fn answers_that_get_lost_change_nothing(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.lose_answers(SEND);
    for wei in 2..=50 {
        setup.node.send_new(&transfer(&setup.signer, wei)).await;
    }
    eventually("the chain to have mined all of them", async || {
        (setup.anvil.nonce(&setup.signer, "latest").await == 50).then_some(())
    })
    .await;
    setup.all_end_well(50).await;
}

/// Fails if a transaction that cannot be paid for is given up, or is not tried again.
async fn a_signer_without_money_waits_until_it_has_some(backend: Backend) {
    let wait = |options: NodeOptions| options.set("lane.underfunded", "wait");
    let setup = Setup::with(&backend, wait).await;
    setup.anvil.set_balance(&setup.signer, "1000".parse().unwrap()).await;
    let tx = setup.node.send_new(&transfer(&setup.signer, 2)).await;
    let held = setup.node.becomes(id(&tx), "the reason", |tx| {
        tx["subState"] == "INSUFFICIENT_FUNDS" && !tx["error"].is_null()
    });
    let held = held.await;
    assert_eq!((&held["state"], &held["nonce"]), (&"ALLOCATED".into(), &1.into()), "{held:#}");
    setup.anvil.set_balance(&setup.signer, "1000000000000000000".parse().unwrap()).await;
    setup.all_end_well(2).await;
}

/// A node that is not done with a large block's receipts in time, or has none for it, does not
/// keep the follower from going on.
///
/// Fails if a block is only passed once its receipts were had all at once.
async fn receipts_of_a_block_that_cannot_be_had_hold_nothing_up(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.hold(BLOCK_RECEIPTS);
    for wei in 2..=20 {
        setup.node.send_new(&transfer(&setup.signer, wei)).await;
    }
    setup.all_end_well(20).await;
    setup.proxy.release();
    setup.proxy.fail(BLOCK_RECEIPTS, -32000, "this block is too large");
    for wei in 21..=40 {
        setup.node.send_new(&transfer(&setup.signer, wei)).await;
    }
    setup.all_end_well(40).await;
}

on_both_stores!(
    nothing_is_lost_while_the_chain_is_away,
    answers_that_get_lost_change_nothing,
    a_signer_without_money_waits_until_it_has_some,
    receipts_of_a_block_that_cannot_be_had_hold_nothing_up,
);
