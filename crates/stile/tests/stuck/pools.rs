//! Pools that lose transactions, and endpoints that take them and forget.

use std::collections::BTreeSet;

use serde_json::Value;
use stile::B256;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::care::assert_remedy;
use crate::common::StileProcess;
use crate::support::{Backend, assert_mined_once, id, transfer};

const SEND: &str = "eth_sendRawTransaction";
const COUNT: u64 = 20;

struct Setup {
    anvil: Anvil,
    proxy: RpcProxy,
    node: StileProcess,
    signer: String,
}

impl Setup {
    /// A node whose chain makes no blocks.
    async fn new(backend: &Backend) -> Self {
        let anvil = Anvil::start(AnvilOptions { no_mining: true, ..Default::default() }).await;
        let proxy = RpcProxy::start(anvil.url()).await;
        let options = backend.node(&proxy.url()).development_keys(1);
        // So that the pool is looked at for what is missing, and nothing is sent by the clock.
        let node = options.set("tx.resubmit.interval", "1h").start().await;
        let signer = anvil.accounts().await.remove(0);
        Self { anvil, proxy, node, signer }
    }

    /// Transfers that the endpoint says it has.
    async fn send(&self) -> Vec<Value> {
        let bodies: Vec<Value> = (1..=COUNT).map(|wei| transfer(&self.signer, wei)).collect();
        let txs = self.node.send_all(&bodies).await;
        for tx in &txs {
            self.node.reaches(id(tx), "SUBMITTED").await;
        }
        txs
    }

    async fn all_are_in_the_pool(&self) {
        eventually("all of them to be in the pool", async || {
            (self.anvil.nonce(&self.signer, "pending").await == COUNT).then_some(())
        })
        .await;
    }

    /// All of them end mined once, and on the wire was one transaction for each, however often it
    /// was sent.
    async fn all_end_well(&self) {
        self.anvil.set_interval_mining(1).await;
        let confirmed = self.node.all_confirmed(&self.signer, COUNT as usize).await;
        assert_mined_once(&self.anvil, &self.signer, &confirmed).await;
        let on_wire: BTreeSet<B256> = self.proxy.sent_raw().iter().map(|sent| sent.hash).collect();
        assert_eq!(on_wire.len(), COUNT as usize, "nothing was signed twice");
    }
}

/// Fails if nobody looks whether the lowest nonce is still known, if only that one is sent again, or
/// if it is signed again.
async fn what_a_pool_drops_is_sent_again(backend: Backend) {
    let setup = Setup::new(&backend).await;
    let txs = setup.send().await;
    setup.all_are_in_the_pool().await;
    // Nothing gets back before the doctor has seen that it is missing.
    setup.proxy.hold(SEND);
    setup.anvil.drop_all_transactions().await;
    let words = &["nonce 0", id(&txs[0]), "dropped"];
    let finding = setup.node.blocked_by(&setup.signer, "dropped", words).await;
    assert_remedy(&finding, "resend", true);
    setup.proxy.release();
    setup.all_are_in_the_pool().await;
    setup.all_end_well().await;
}

/// Fails if `repair` sends nothing, or only the lowest.
async fn what_a_pool_drops_is_sent_again_at_once_on_demand(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.send().await;
    let step = eventually("a repair that comes before the node's own", async || {
        setup.anvil.drop_all_transactions().await;
        let repair = setup.node.repair(&setup.signer).await;
        let first = &repair["diagnosis"]["findings"][0];
        if first["code"] != "dropped" {
            return None;
        }
        assert_eq!(repair["applied"], true, "{repair:#}");
        assert_eq!(repair["diagnosis"]["summary"], first["words"], "{repair:#}");
        let step = repair["steps"].as_array().unwrap().first().cloned();
        // The pool has them by the time that the answer comes.
        assert_eq!(setup.anvil.nonce(&setup.signer, "pending").await, COUNT, "{repair:#}");
        step
    });
    let step = step.await;
    assert_eq!((&step["kind"], &step["done"]), (&"resend".into(), &true.into()), "{step:#}");
    assert!(step["result"].as_str().unwrap().starts_with("20 of 20"), "{step:#}");
    setup.all_end_well().await;
    let history = setup.node.get(&format!("/api/v1/signers/{}/history", setup.signer)).await.ok();
    assert_eq!(history["items"][0]["kind"], "REPAIRED", "{history:#}");
}

/// Fails if an endpoint's word is enough to call a transaction sent for good.
async fn what_an_endpoint_takes_and_forgets_is_sent_again(backend: Backend) {
    let setup = Setup::new(&backend).await;
    setup.proxy.swallow_sends();
    let txs = setup.send().await;
    assert_eq!(setup.anvil.nonce(&setup.signer, "pending").await, 0);
    let words = &["no endpoint knows nonce 0", id(&txs[0])];
    let finding = setup.node.blocked_by(&setup.signer, "dropped", words).await;
    assert_remedy(&finding, "resend", true);
    setup.proxy.heal().await;
    setup.all_are_in_the_pool().await;
    setup.all_end_well().await;
}

on_both_stores!(
    what_a_pool_drops_is_sent_again,
    what_a_pool_drops_is_sent_again_at_once_on_demand,
    what_an_endpoint_takes_and_forgets_is_sent_again,
);
