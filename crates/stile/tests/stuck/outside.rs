//! Somebody else signs with the key.

use serde_json::{Value, json};
use testkit::{AnvilOptions, eventually};

use crate::common::NodeOptions;
use crate::stage::{Other, Stage, assert_says, by_hand};
use crate::support::{Backend, id, text, transfer};

/// How many are in flight, and the nonce in their middle that the outsider takes.
const COUNT: u64 = 20;
const MIDDLE: u64 = 10;

const MISMATCHES: &str = "stile_reconcile_mismatch_total{kind=\"outside_use\"}";

/// A chain that takes transactions into blocks as they came. By price, it would try the outsider's
/// before those below it, and leave both out.
pub(crate) async fn stage(
    backend: &Backend,
    configure: impl FnOnce(NodeOptions) -> NodeOptions,
) -> Stage {
    let fifo = AnvilOptions { arguments: vec!["--order=fifo".to_owned()], ..by_hand() };
    Stage::on(fifo, backend, configure).await
}

impl Stage {
    /// Somebody with the same key sends a transaction that pays more than any of ours.
    pub(crate) async fn outsider(&self, nonce: u64) -> String {
        let transaction = json!({
            "from": self.signer, "to": self.signer, "value": "0xf4240", "nonce": format!("{nonce:#x}"),
            "gas": "0x5208", "maxFeePerGas": "0x2540be40000", "maxPriorityFeePerGas": "0x2540be400",
        });
        text(&self.anvil.rpc("eth_sendTransaction", json!([transaction])).await).to_owned()
    }

    /// A burst of which the middle one has lost its nonce to the outsider, in a block that the node
    /// has seen. Answers with that one and the outsider's hash.
    async fn overtaken(&self, body: impl Fn(u64) -> Value) -> (Value, String) {
        let bodies: Vec<Value> = (1..=COUNT).map(body).collect();
        let sent = self.node.send_all(&bodies).await;
        for tx in &sent {
            self.node.reaches(id(tx), "SUBMITTED").await;
        }
        let hash = self.outsider(MIDDLE).await;
        self.mine(1).await;
        assert!(self.anvil.receipt(&hash).await.is_some(), "the outsider's is mined");
        let lost = self.node.txs(&self.signer).await;
        let lost = lost.into_iter().find(|tx| tx["nonce"] == MIDDLE).expect("the middle one");
        let lost = self.node.becomes(id(&lost), "a rival", |tx| !tx["rival"].is_null()).await;
        assert_eq!(lost["rival"]["by"], "outsider", "{lost:#}");
        assert_eq!(lost["rival"]["txHash"], hash.as_str(), "{lost:#}");
        (lost, hash)
    }

    /// The one that lost has failed for that reason, and is not among those that are returned.
    fn without_lost(&self, txs: &[Value], lost: &Value, hash: &str) -> Vec<Value> {
        let (failed, rest): (Vec<Value>, Vec<Value>) =
            txs.iter().cloned().partition(|tx| tx["txId"] == lost["txId"]);
        let [failed] = failed.as_slice() else { panic!("{failed:#?}") };
        assert_eq!(
            (&failed["state"], &failed["subState"]),
            (&json!("FAILED"), &json!("REPLACED_EXTERNALLY")),
            "{failed:#}"
        );
        assert_eq!(failed["rival"]["by"], "outsider", "{failed:#}");
        assert_eq!(failed["rival"]["txHash"], hash, "{failed:#}");
        assert_says(&failed["error"], "which is not Stile's");
        for tx in &rest {
            assert_eq!(
                (&tx["state"], &tx["outcome"]),
                (&json!("CONFIRMED"), &json!("success")),
                "{tx:#}"
            );
        }
        rest
    }
}

/// Fails if blocks are not searched for strangers, if the lane goes on, if what waits is bound while
/// it is paused, or if a dry run changes anything.
async fn hole_13_an_outsider_in_a_burst_pauses_the_lane(backend: Backend) {
    let stage = stage(&backend, |options| options).await;
    let (lost, hash) = stage.overtaken(|wei| transfer(&stage.signer, wei)).await;

    let reason = stage.paused().await;
    assert!(reason.contains("nonce 10 was used by a transaction that is not Stile's"), "{reason}");
    assert!(reason.contains(&hash), "{reason}");
    let finding = stage.finding("paused").await;
    assert_says(&finding["words"], &reason);
    assert_eq!(finding["severity"], "blocked");
    assert_eq!(finding["remedy"]["kind"], "resume", "{finding:#}");
    assert!(stage.node.metric(MISMATCHES).await >= 1.0);
    let outside = stage.event("OUTSIDE_USE").await;
    assert_eq!(
        (&outside["data"]["nonce"], &outside["data"]["txHash"], &outside["data"]["lostTx"]),
        (&json!(MIDDLE), &json!(hash), &lost["txId"]),
        "{outside:#}"
    );
    stage.event("PAUSED").await;

    // What comes now waits, however many blocks come by; the one that lost is told so.
    let waiting = stage.hand_over(COUNT + 1..=COUNT + 5).await;
    stage.mine(2).await;
    stage.node.reaches(id(&lost), "FAILED").await;
    for tx in &waiting {
        let tx = stage.node.tx(id(tx)).await;
        assert_eq!((&tx["state"], &tx["nonce"]), (&json!("CREATED"), &Value::Null), "{tx:#}");
    }
    assert_eq!(stage.resume_dry().await, ["give out nonces again, from 20 on"]);
    assert_eq!(stage.node.tx(id(&waiting[0])).await["state"], "CREATED");
    assert_eq!(stage.resume().await, ["give out nonces again, from 20 on"]);
    stage.event("RESUMED").await;

    let txs = stage.all_done(COUNT as usize + 5).await;
    let rest = stage.without_lost(&txs, &lost, &hash);
    stage.assert_mined_once(&rest, &[(MIDDLE, Other::Outsider(hash))]).await;
    assert_eq!(stage.events_of("PAUSED").await.len(), 1, "once");
    stage.is_healthy().await;
}

/// Fails if a key that is shared by agreement stops the lane.
async fn hole_13_an_outsider_in_a_burst_is_followed(backend: Backend) {
    let stage = stage(&backend, |options| options.set("lane.outside_use", "follow")).await;
    let (lost, hash) = stage.overtaken(|wei| transfer(&stage.signer, wei)).await;
    stage.event("OUTSIDE_USE").await;
    assert!(stage.node.metric(MISMATCHES).await >= 1.0);
    stage.is_healthy().await;
    stage.hand_over(COUNT + 1..=COUNT + 5).await;
    let txs = stage.all_done(COUNT as usize + 5).await;
    let rest = stage.without_lost(&txs, &lost, &hash);
    stage.assert_mined_once(&rest, &[(MIDDLE, Other::Outsider(hash))]).await;
    assert_eq!(stage.events_of("PAUSED").await, [] as [Value; 0]);
    stage.is_healthy().await;
}

/// Fails if what asked for it is not made anew, is made before nothing can bring the first one back,
/// or is made twice.
async fn hole_13_what_lost_its_nonce_is_made_anew_once(backend: Backend) {
    let stage =
        stage(&backend, |options| options.set_literal("confirmations.reorg_window", "3")).await;
    let (lost, hash) = stage
        .overtaken(|wei| {
            let mut body = transfer(&stage.signer, wei);
            body["payload"]["resendIfReplaced"] = json!(true);
            body
        })
        .await;
    let finding = stage.finding("paused").await;
    assert_says(&finding["words"], &hash);
    stage.resume().await;
    // Two blocks on top are enough for everybody but the one that would be made anew.
    stage.mine(2).await;
    let first = stage.node.txs(&stage.signer).await.remove(0);
    stage.node.reaches(id(&first), "CONFIRMED").await;
    let open = stage.node.tx(id(&lost)).await;
    assert_eq!(
        (&open["state"], &open["replacedBy"]),
        (&json!("SUBMITTED"), &Value::Null),
        "{open:#}"
    );

    stage.mine(1).await;
    let failed = stage.node.reaches(id(&lost), "FAILED").await;
    let anew = stage.node.tx(text(&failed["replacedBy"])).await;
    assert_eq!(anew["replaces"], lost["txId"], "{anew:#}");
    assert_eq!(anew["payload"]["value"], lost["payload"]["value"], "{anew:#}");
    let txs = stage.all_done(COUNT as usize + 1).await;
    let successors: Vec<&Value> = txs.iter().filter(|tx| !tx["replaces"].is_null()).collect();
    assert_eq!(successors.len(), 1, "{successors:#?}");
    let rest = stage.without_lost(&txs, &lost, &hash);
    stage.assert_mined_once(&rest, &[(MIDDLE, Other::Outsider(hash))]).await;
}

/// Fails if a nonce that nobody was given is not looked at, or if the cursor jumps by itself.
async fn hole_13_an_outsider_ahead_of_the_cursor_pauses_an_idle_lane(backend: Backend) {
    let stage = stage(&backend, |options| options).await;
    stage.in_flight(1..=1).await;
    stage.mine(2).await;
    let hash = stage.outsider(1).await;
    stage.mine(1).await;

    let reason = stage.paused().await;
    assert!(reason.contains(&hash), "{reason}");
    let finding = stage.finding("outside-use").await;
    assert_says(
        &finding["words"],
        "the chain has 2 transactions of this account, but only nonces below 1 were given out",
    );
    assert_says(&finding["remedy"]["words"], "move the cursor from 1 to 2");
    assert_says(&stage.finding("paused").await["words"], &reason);
    assert_eq!(stage.events_of("OUTSIDE_USE").await.len(), 1);
    assert_eq!(stage.events_of("PAUSED").await.len(), 1);

    let steps = [
        "move the cursor from 1 to 2: the nonces below were used by somebody else",
        "read what used them: a request that is the same as one of them is not sent by itself",
        "give out nonces again, from 2 on",
    ];
    assert_eq!(stage.resume_dry().await, steps);
    assert_eq!(stage.resume().await, steps);
    stage.hand_over(2..=2).await;
    let txs = stage.all_confirmed(2).await;
    assert_eq!(txs[1]["nonce"], 2);
    stage.assert_mined_once(&txs, &[(1, Other::Outsider(hash))]).await;
    stage.is_healthy().await;
}

/// Fails if what waits is sent by itself once the cursor has jumped over nonces of which nobody knows
/// what they were used for, or if what the chain shows to be the same is sent at all.
async fn hole_20_what_waits_is_not_sent_after_a_jump_over_unknown_nonces(backend: Backend) {
    let stage = stage(&backend, |options| options).await;
    stage.in_flight(1..=1).await;
    stage.mine(2).await;
    let hash = stage.outsider(1).await;
    stage.mine(1).await;
    stage.paused().await;
    // The first does what the outsider's did.
    let mut same = transfer(&stage.signer, 2);
    same["payload"] = json!({ "to": stage.signer, "value": "1000000", "gasLimit": "21000" });
    let same = stage.node.send_new(&same).await;
    let other = stage.hand_over(3..=3).await.remove(0);
    assert_eq!((&same["state"], &other["state"]), (&json!("CREATED"), &json!("CREATED")));

    let steps = stage.resume_dry().await;
    assert_eq!(steps.len(), 3, "{steps:?}");
    assert!(steps[1].contains("hold back what waits (2)"), "{steps:?}");
    assert_eq!(stage.resume().await, steps);
    stage.node.becomes(id(&other), "waits", |tx| tx["subState"] == "RESTORED").await;
    let found = stage.node.becomes(id(&same), "was sent", |tx| tx["nonce"] == 1).await;
    assert_eq!(found["txHash"], hash.as_str(), "{found:#}");
    stage.mine(3).await;
    stage.node.reaches(id(&same), "CONFIRMED").await;
    let waits = stage.node.tx(id(&other)).await;
    assert_eq!((&waits["state"], &waits["nonce"]), (&json!("CREATED"), &Value::Null), "{waits:#}");

    let path = format!("/api/v1/tx/{}/restored", id(&other));
    stage.node.post(&path, json!({ "verdict": "never-sent" })).await.ok();
    let other = stage.node.reaches(id(&other), "SUBMITTED").await;
    assert_eq!(other["nonce"], 2, "{other:#}");
}

/// Fails if the cursor of a lane that follows stays behind, or moves without a word.
async fn hole_13_an_outsider_ahead_of_the_cursor_is_followed(backend: Backend) {
    // Only the follower of blocks is to find it, and only when the test lets it.
    let stage = stage(&backend, |options| {
        options.set("lane.outside_use", "follow").set("nonce.state_timeout", "1h")
    })
    .await;
    stage.in_flight(1..=1).await;
    stage.mine(2).await;
    for block in ["eth_getBlockByHash", "eth_getBlockByNumber"] {
        stage.proxy.hold(block);
    }
    let hash = stage.outsider(1).await;
    stage.anvil.mine(1).await;
    let finding = stage.finding("outside-use").await;
    assert_says(&finding["words"], "only nonces below 1 were given out");
    assert_eq!(stage.events_of("FOLLOWED_CHAIN").await, [] as [Value; 0]);
    stage.proxy.release();

    let followed = stage.event("FOLLOWED_CHAIN").await;
    assert_eq!((&followed["data"]["from"], &followed["data"]["to"]), (&json!(1), &json!(2)));
    stage.event("OUTSIDE_USE").await;
    assert_eq!(stage.node.signer(&stage.signer).await["nextNonce"], 2);
    stage.hand_over(2..=2).await;
    let txs = stage.all_confirmed(2).await;
    assert_eq!(txs[1]["nonce"], 2);
    stage.assert_mined_once(&txs, &[(1, Other::Outsider(hash))]).await;
    assert_eq!(stage.events_of("PAUSED").await, [] as [Value; 0]);
    stage.is_healthy().await;
}

/// Fails if the outsider's block is believed for ever, or if ours is not sent again without it.
async fn hole_13_a_reorg_takes_the_outsider_back(backend: Backend) {
    let stage = stage(&backend, |options| options.set_literal("confirmations.required", "3")).await;
    stage.anvil.mine(3).await;
    let (lost, hash) = stage.overtaken(|wei| transfer(&stage.signer, wei)).await;
    stage.paused().await;
    let finding = stage.finding("paused").await;
    assert_says(&finding["words"], &hash);
    stage.anvil.reorg(1, &[]).await;
    stage.node.becomes(id(&lost), "no rival", |tx| tx["rival"].is_null()).await;
    eventually("all of ours to be in the pool again", async || {
        (stage.anvil.nonce(&stage.signer, "pending").await == COUNT).then_some(())
    })
    .await;
    stage.resume().await;
    stage.hand_over(COUNT + 1..=COUNT + 2).await;
    let txs = stage.all_confirmed(COUNT as usize + 2).await;
    stage.assert_mined_once(&txs, &[]).await;
    let history = stage.node.history(id(&lost)).await;
    assert!(history.iter().any(|event| event["kind"] == "REORGED"), "{history:#?}");
    stage.is_healthy().await;
}

impl Stage {
    /// So many blocks come by, the first with all that waits, that the node begins anew with the last.
    async fn leap(&self) {
        for block in ["eth_getBlockByHash", "eth_getBlockByNumber"] {
            self.proxy.hold(block);
        }
        self.anvil.mine(700).await;
        self.proxy.release();
        self.node.follows_to(self.anvil.height().await).await;
    }
}

/// Fails if what is mined is taken for lost because an endpoint shows no receipt of it, where the node
/// has not followed the chain through its block.
async fn what_has_no_receipt_below_the_known_blocks_is_not_lost(backend: Backend) {
    const RECEIPT: &str = "eth_getTransactionReceipt";
    let stage = stage(&backend, |options| options).await;
    let sent = stage.in_flight(1..=3).await;
    stage.proxy.lie(RECEIPT, |_, _| Some(Value::Null));
    stage.proxy.lie("eth_getBlockReceipts", |_, _| Some(json!([])));
    // The node looks as soon as it has leapt, and that may be before the leap is known here.
    let asked = stage.proxy.count(RECEIPT);
    stage.leap().await;
    eventually("the node to look again", async || {
        (stage.proxy.count(RECEIPT) > asked + 4).then_some(())
    })
    .await;
    stage.mine(3).await;
    for tx in &sent {
        let tx = stage.node.tx(id(tx)).await;
        assert_eq!((&tx["state"], &tx["rival"]), (&json!("SUBMITTED"), &Value::Null), "{tx:#}");
    }
    stage.proxy.heal().await;
    let txs = stage.all_confirmed(3).await;
    stage.assert_mined_once(&txs, &[]).await;
    assert_eq!(stage.events_of("OUTSIDE_USE").await, [] as [Value; 0]);
}

/// Fails if somebody else's transaction is not found where the node has not followed the chain through
/// its block.
async fn an_outsider_below_the_known_blocks_is_found(backend: Backend) {
    let stage = stage(&backend, |options| options).await;
    let sent = stage.in_flight(1..=3).await;
    let lost = stage.node.tx(id(&sent[1])).await;
    let hash = stage.outsider(lost["nonce"].as_u64().expect("a nonce")).await;
    stage.leap().await;
    let failed = stage.node.reaches(id(&lost), "FAILED").await;
    assert_eq!(failed["rival"]["txHash"], hash.as_str(), "{failed:#}");
    assert_eq!(stage.event("OUTSIDE_USE").await["data"]["txHash"], hash.as_str());
    let txs = stage.all_done(3).await;
    let rest = stage.without_lost(&txs, &lost, &hash);
    let nonce = lost["nonce"].as_u64().expect("a nonce");
    stage.assert_mined_once(&rest, &[(nonce, Other::Outsider(hash))]).await;
}

on_both_stores!(
    what_has_no_receipt_below_the_known_blocks_is_not_lost,
    an_outsider_below_the_known_blocks_is_found,
    hole_13_an_outsider_in_a_burst_pauses_the_lane,
    hole_13_an_outsider_in_a_burst_is_followed,
    hole_13_what_lost_its_nonce_is_made_anew_once,
    hole_13_an_outsider_ahead_of_the_cursor_pauses_an_idle_lane,
    hole_20_what_waits_is_not_sent_after_a_jump_over_unknown_nonces,
    hole_13_an_outsider_ahead_of_the_cursor_is_followed,
    hole_13_a_reorg_takes_the_outsider_back,
);
