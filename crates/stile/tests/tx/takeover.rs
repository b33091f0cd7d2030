//! A holder killed, or put to sleep, with work in flight.
//!
//! Fails if a takeover does not reload bound transactions, does not send them again, or signs them
//! anew; or if it leaves those behind that were accepted and have no nonce yet.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{Anvil, AnvilOptions, RpcProxy, Signal, eventually};

use crate::common::{Database, NodeOptions, StileProcess};
use crate::support::{assert_mined_once, id, text, transfer};

const BOUND: usize = 50;
const WAITING: usize = 20;

/// Two nodes before one chain, the lane with `a`.
struct Setup {
    database: Database,
    anvil: Anvil,
    proxy: RpcProxy,
    signer: String,
    a: StileProcess,
    b: StileProcess,
}

impl Setup {
    async fn new(in_flight: usize) -> Self {
        let options = AnvilOptions { no_mining: true, ..Default::default() };
        let (database, anvil) = tokio::join!(Database::new(), Anvil::start(options));
        let proxy = RpcProxy::start(anvil.url()).await;
        let options = |name| {
            NodeOptions::postgres(name, &database.url, &[])
                .endpoint(&proxy.url())
                .development_keys(1)
                .lease("2s", "500ms")
                .set("cluster.not_holder", "accept")
                .set_literal("lane.max_in_flight", in_flight.to_string())
                .set_literal("confirmations.required", "1")
        };
        let (a, b) = (options("a").start().await, options("b").start().await);
        let signer = anvil.accounts().await.remove(0);
        let first = a.send_new(&transfer(&signer, 1)).await;
        a.reaches(id(&first), "SUBMITTED").await;
        assert_eq!(a.signer(&signer).await["ownerNode"], "a");
        Self { database, anvil, proxy, signer, a, b }
    }

    fn transfers(&self, wei: std::ops::RangeInclusive<usize>) -> Vec<Value> {
        wei.map(|wei| transfer(&self.signer, wei as u64)).collect()
    }

    async fn is_on_the_wire(&self, count: usize) {
        eventually("the window to be on the wire", async || {
            (self.proxy.sent_raw().len() >= count).then_some(())
        })
        .await;
    }

    async fn is_taken_over(&self) {
        eventually("the lane to be taken over", async || {
            (self.b.signer(&self.signer).await["ownerNode"] == "b").then_some(())
        })
        .await;
    }

    /// All are mined once, and there is one hash for each nonce on the wire: the stored bytes, and
    /// no others.
    async fn ends_well(&self, count: usize) -> Vec<Value> {
        self.anvil.set_interval_mining(1).await;
        let confirmed = self.b.all_confirmed(&self.signer, count).await;
        assert_mined_once(&self.anvil, &self.signer, &confirmed).await;
        let sent = self.proxy.sent_raw();
        let on_wire: BTreeSet<(String, String)> =
            sent.iter().map(|sent| (sent.hash.to_string(), sent.raw.clone())).collect();
        let mut stored = BTreeSet::new();
        for tx in &confirmed {
            let attempts = self.b.attempts(id(tx)).await;
            assert_eq!(attempts.len(), 1, "{attempts:#?}");
            let attempt = (text(&attempts[0]["txHash"]), text(&attempts[0]["raw"]));
            stored.insert((attempt.0.to_owned(), attempt.1.to_owned()));
        }
        assert_eq!(on_wire, stored);
        confirmed
    }
}

#[tokio::test]
async fn the_other_node_finishes_with_the_stored_bytes() {
    let setup = Setup::new(BOUND).await;
    setup.a.send_all(&setup.transfers(2..=BOUND + WAITING)).await;
    setup.is_on_the_wire(BOUND).await;
    setup.a.kill().await;
    // The chain forgets what it was sent as well: only the records are left.
    setup.anvil.drop_all_transactions().await;
    assert_eq!(setup.b.signer(&setup.signer).await["ownerNode"], "a");
    setup.is_taken_over().await;
    let confirmed = setup.ends_well(BOUND + WAITING).await;
    let sent = setup.proxy.sent_raw();
    for tx in confirmed.iter().take(BOUND) {
        let times = sent.iter().filter(|sent| sent.hash.to_string() == text(&tx["txHash"])).count();
        assert!(times >= 2, "sent by a, and by b again: {tx:#}");
    }
}

/// A holder that is stopped for longer than its lease and then goes on as if nothing had happened.
///
/// Fails if it binds, records or signs anything under the token that it had.
#[tokio::test]
async fn a_holder_that_slept_through_the_takeover_disturbs_nothing() {
    let setup = Setup::new(500).await;
    setup.a.send_all(&setup.transfers(2..=50)).await;
    setup.is_on_the_wire(50).await;
    setup.database.stop_between_transactions(&setup.a).await;
    setup.is_taken_over().await;
    setup.b.send_all(&setup.transfers(51..=70)).await;
    setup.anvil.mine(1).await;
    setup.a.process.signal(Signal::Cont);
    // Taken by the one that has no lane any more, for the other.
    setup.a.send_all(&setup.transfers(71..=90)).await;
    setup.ends_well(90).await;
    assert_eq!(setup.a.signer(&setup.signer).await["ownerNode"], "b");
    let tokens = setup.b.history(id(&setup.b.txs(&setup.signer).await[0])).await;
    let tokens: Vec<u64> =
        tokens.iter().filter_map(|event| event["fencingToken"].as_u64()).collect();
    assert!(tokens.is_sorted(), "tokens only rise: {tokens:?}");
}

/// A wish is left with any node, and whoever holds the lane sees to it: the holder, or the one that
/// takes over from it.
///
/// Fails if a wish is only heard by the node that was asked, or dies with the holder.
#[tokio::test]
async fn what_is_wished_for_elsewhere_is_done_by_whoever_holds_the_lane() {
    let setup = Setup::new(500).await;
    let sent = setup.a.send_all(&setup.transfers(2..=3)).await;
    setup.is_on_the_wire(3).await;
    let cancel = async |tx: &Value| {
        let path = format!("/api/v1/tx/{}/cancel", id(tx));
        let answer = setup.b.post(&path, serde_json::json!({})).await;
        assert_eq!(answer.status, 202, "{answer:?}");
    };
    let is_withdrawn = async |tx: &Value| {
        eventually("an empty attempt", async || {
            let attempts = setup.b.attempts(id(tx)).await;
            attempts.iter().any(|attempt| attempt["kind"] == "CANCEL").then_some(())
        })
        .await;
        setup.b.becomes(id(tx), "the wish to be over", |tx| tx["wish"].is_null()).await;
    };
    cancel(&sent[0]).await;
    is_withdrawn(&sent[0]).await;
    assert_eq!(setup.b.signer(&setup.signer).await["ownerNode"], "a");

    setup.database.stop_between_transactions(&setup.a).await;
    cancel(&sent[1]).await;
    setup.a.kill().await;
    setup.is_taken_over().await;
    is_withdrawn(&sent[1]).await;
    setup.anvil.set_interval_mining(1).await;
    for tx in &sent {
        let done = setup.b.reaches(id(tx), "FAILED").await;
        assert_eq!(
            (&done["subState"], &done["rival"]["by"]),
            (&"CANCELLED".into(), &"cancel".into())
        );
    }
    let mined = setup.anvil.transactions_of(&setup.signer).await;
    let values: Vec<u64> = mined.iter().map(|mined| mined.value.to()).collect();
    assert_eq!(values, [1, 0, 0], "{mined:?}");
}
