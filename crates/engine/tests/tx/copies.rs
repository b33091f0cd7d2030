//! Copies of a database that nothing in them tells from the database.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::{Holder, Incarnation, NodeId, SubState, TxState, U256};
use stile_engine::{
    Node, OutsideUse, RestoreError, Settings, TxRequest, TxSettings, Verdict, Word,
};
use stile_store::{OpenOptions, Store, Tx, open};
use testkit::{Anvil, DEADLINE, RpcProxy, eventually, eventually_within};
use uuid::Uuid;

use crate::common::{Bench, QUEUE};
use crate::setup::{chain, get, lane, send, settings, start, start_on, transfer, until};

/// A person's word about whatever restore there was.
const NEVER_SENT: Word<'_> =
    Word { verdict: Verdict::NeverSent, restored_at: None, force: false, by: "a person" };

/// A payment of so many wei.
fn pays(wei: u64) -> TxRequest {
    let mut request = transfer(0, &format!("pays {wei}"));
    request.payload.value = U256::from(wei);
    request
}

/// What was paid, in the order of nonces.
async fn paid(anvil: &Anvil) -> Vec<u64> {
    let mined = anvil.transactions_of(&lane(0).signer.to_string()).await;
    mined.iter().map(|mined| mined.value.to()).collect()
}

async fn confirmed(node: &Node, anvil: &Anvil, txs: &[Tx]) {
    for tx in txs {
        eventually("the payment to be confirmed", async || {
            anvil.mine(1).await;
            (get(node, tx.id).await.standing.state == TxState::Confirmed).then_some(())
        })
        .await;
    }
}

/// A copy of a database of SQLite with its log, as it is while a node writes to it.
struct HotCopy {
    directory: tempfile::TempDir,
}

impl HotCopy {
    fn of(bench: &Bench) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = PathBuf::from(bench.database.url().trim_start_matches("sqlite://"));
        for end in ["", "-wal"] {
            let from = format!("{}{end}", file.display());
            std::fs::copy(from, directory.path().join(format!("stile.db{end}"))).unwrap();
        }
        Self { directory }
    }

    fn open(&self) -> Arc<dyn Store> {
        let options = OpenOptions {
            url: format!("sqlite://{}", self.directory.path().join("stile.db").display()).into(),
            direct_url: None,
            pool_size: 8,
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            pooler: stile_store::postgres::Pooler::None,
            lease: Duration::from_secs(10),
            serve: false,
        };
        open(options).unwrap()
    }
}

/// Somebody with the same key pays.
async fn outsider(anvil: &Anvil, wei: u64) -> Value {
    let transaction = json!({
        "from": lane(0).signer, "to": lane(1).signer, "value": format!("{wei:#x}"), "gas": "0x5208",
    });
    anvil.rpc("eth_sendTransaction", json!([transaction])).await
}

/// Others use the key by declaration, and two transactions at most are on their way.
fn follows(bench: &Bench) -> Settings {
    let usual = settings(bench, "a");
    let outside_use = OutsideUse::Follow;
    let tx = TxSettings { max_in_flight: 2, outside_use, ..usual.tx.clone() };
    Settings { tx, ..usual }
}

/// Fails if the chain is not asked before a nonce is bound where others use the key by declaration, or if
/// a person has to say that they do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_copy_pays_nobody_twice_where_lanes_follow_outside_use() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, follows(&bench), &[anvil.url()]).await;
    let mut txs = Vec::new();
    for wei in 1..=5 {
        txs.push(send(&node, pays(wei)).await);
    }
    until(&node, txs[1].id, TxState::Submitted).await;
    assert_eq!(get(&node, txs[2].id).await.nonce, None, "three wait");
    let copy = HotCopy::of(&bench);
    confirmed(&node, &anvil, &txs).await;
    node.shutdown().await;
    outsider(&anvil, 9).await;
    anvil.mine(1).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3, 4, 5, 9]);

    let node = start_on(copy.open(), follows(&bench), &[anvil.url()]).await;
    confirmed(&node, &anvil, &txs).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3, 4, 5, 9], "each once, ever");
    // Nobody has to say anything: what is new goes on, and so does whoever else has the key.
    let sixth = send(&node, pays(6)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&sixth)).await;
    outsider(&anvil, 10).await;
    anvil.mine(1).await;
    eventually("the cursor to follow", async || {
        let view = node.nonces().lanes(&[lane(0)]).await.unwrap().pop().flatten()?;
        (view.next_nonce == Some(8)).then_some(())
    })
    .await;
    let seventh = send(&node, pays(7)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&seventh)).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3, 4, 5, 9, 6, 10, 7]);
    node.shutdown().await;
}

/// Fails if the end of a pause moves the cursor past what a lost history has sent, and sends it again; or
/// if a person has to say that others use the key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_paused_copy_is_resumed_and_pays_nobody_twice_where_lanes_follow_outside_use() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, follows(&bench), &[anvil.url()]).await;
    let mut txs = Vec::new();
    for wei in 1..=5 {
        txs.push(send(&node, pays(wei)).await);
    }
    until(&node, txs[1].id, TxState::Submitted).await;
    assert!(node.nonces().pause(lane(0), "before the backup").await.unwrap());
    let copy = HotCopy::of(&bench);
    node.lanes().resume(lane(0), false).await.unwrap();
    confirmed(&node, &anvil, &txs).await;
    node.shutdown().await;

    let node = start_on(copy.open(), follows(&bench), &[anvil.url()]).await;
    eventually("the pause to be ended", async || {
        let resumption = node.lanes().resume(lane(0), false).await.ok()?;
        resumption.resumed.then_some(())
    })
    .await;
    confirmed(&node, &anvil, &txs).await;
    let sixth = send(&node, pays(6)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&sixth)).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3, 4, 5, 6], "each once, ever");
    node.shutdown().await;
}

/// Fails if the end of a pause forgets what a lost history has sent, because nothing waits then: the
/// caller who asks again is paid twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_paused_copy_is_resumed_and_what_is_asked_for_again_is_not_paid_again() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let first = send(&node, pays(1)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&first)).await;
    assert!(node.nonces().pause(lane(0), "before the backup").await.unwrap());
    let copy = HotCopy::of(&bench);
    node.lanes().resume(lane(0), false).await.unwrap();
    let lost = send(&node, pays(2)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&lost)).await;
    node.shutdown().await;

    let node = start_on(copy.open(), settings(&bench, "a"), &[anvil.url()]).await;
    eventually("the pause to be ended", async || {
        let resumption = node.lanes().resume(lane(0), false).await.ok()?;
        resumption.resumed.then_some(())
    })
    .await;
    // What is new needs nobody's word, and what was sent is known from the chain.
    let third = send(&node, pays(3)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&third)).await;
    let again = send(&node, pays(2)).await;
    eventually("it to wait for a word", async || {
        (get(&node, again.id).await.standing.sub_state == Some(SubState::Restored)).then_some(())
    })
    .await;
    anvil.mine(3).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3], "each once, ever");
    node.shutdown().await;
}

/// What the lost history sent last is in the pool of one endpoint only, and that one is away.
///
/// Fails if the lane settles itself because the other endpoint has nothing in its pool: the caller who asks
/// again is paid twice once the first one is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_lane_does_not_settle_itself_while_a_pool_is_away() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let first = send(&node, pays(1)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&first)).await;
    assert!(node.nonces().pause(lane(0), "before the backup").await.unwrap());
    let copy = HotCopy::of(&bench);
    node.lanes().resume(lane(0), false).await.unwrap();
    let mined = send(&node, pays(2)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&mined)).await;
    let pooled = send(&node, pays(3)).await;
    until(&node, pooled.id, TxState::Submitted).await;
    node.shutdown().await;

    let (here, away) = (RpcProxy::start(anvil.url()).await, RpcProxy::start(anvil.url()).await);
    here.lie("eth_getTransactionCount", |params, _| (params[1] == "pending").then(|| json!("0x2")));
    away.refuse().await;
    let urls = [here.url(), away.url()];
    let urls = urls.each_ref().map(String::as_str);
    let node = start_on(copy.open(), settings(&bench, "a"), &urls).await;
    eventually("the pause to be ended", async || {
        let resumption = node.lanes().resume(lane(0), false).await.ok()?;
        resumption.resumed.then_some(())
    })
    .await;
    let mark = async || node.lanes().restored(lane(0)).await.unwrap();
    eventually("what is mined to be read", async || {
        let known = mark().await;
        (known.mark.is_some() && known.unread.is_empty() && known.found.len() == 1).then_some(())
    })
    .await;
    // Several looks at the lane.
    here.reset();
    eventually("the pools to be asked", async || {
        (here.count("eth_getTransactionCount") >= 16).then_some(())
    })
    .await;
    assert!(mark().await.mark.unwrap().is_open(), "the other pool may have what waits here");
    away.heal().await;
    here.heal().await;
    anvil.mine(1).await;
    // The endpoint that was away is looked at again after a pause that has grown.
    eventually_within(4 * DEADLINE, "it to settle itself", async || {
        let known = mark().await;
        (!known.mark.unwrap().is_open()).then_some(())
    })
    .await;
    let again = send(&node, pays(3)).await;
    eventually("it to wait for a word", async || {
        (get(&node, again.id).await.standing.sub_state == Some(SubState::Restored)).then_some(())
    })
    .await;
    let fourth = send(&node, pays(4)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&fourth)).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3, 4], "each once, ever");
    node.shutdown().await;
}

/// Fails if a person's word is taken while an endpoint has a transaction in its pool that only the lost
/// history knew.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_word_is_not_taken_while_a_pool_has_what_the_database_lost() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let first = send(&node, pays(1)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&first)).await;
    let copy = HotCopy::of(&bench);
    let lost = send(&node, pays(2)).await;
    until(&node, lost.id, TxState::Submitted).await;
    node.shutdown().await;

    // As after a restore that is noticed.
    let store = copy.open();
    let holder =
        Holder { node: NodeId("a".into()), incarnation: Incarnation(Uuid::now_v7()), url: None };
    let lease = Duration::from_secs(10);
    let held = store.take_own(&holder, lease).await.unwrap().pop().expect("the lane");
    store.set_unaligned(&held.claim, lease).await.unwrap().unwrap();
    let node = start_on(store, settings(&bench, "a"), &[anvil.url()]).await;
    let third = send(&node, pays(3)).await;
    eventually("it to wait for a word", async || {
        let sub_state = get(&node, third.id).await.standing.sub_state;
        (sub_state == Some(SubState::Restored)).then_some(())
    })
    .await;
    let say = async || node.lanes().settle_restored(lane(0), NEVER_SENT).await;
    let refused = say().await;
    assert!(
        matches!(&refused, Err(RestoreError::Pooled(it)) if (it.from, it.below) == (1, 2)),
        "{refused:?}"
    );
    let refused = node.lanes().settle_restored_tx(third.id, NEVER_SENT).await;
    assert!(matches!(refused, Err(RestoreError::Pooled(_))), "{refused:?}");
    anvil.mine(1).await;
    eventually("the word to be taken", async || say().await.ok()).await;
    confirmed(&node, &anvil, std::slice::from_ref(&third)).await;
    assert_eq!(paid(&anvil).await, [1, 2, 3]);
    node.shutdown().await;
}

/// What an unnoticed history has sent is in a pool, and in no block yet.
///
/// Fails if another payment gets its nonce, and the caller who asks again is paid at the next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_copy_does_not_pay_again_what_is_in_a_pool() {
    let bench = Bench::sqlite(QUEUE).await;
    let anvil = chain(false).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let first = send(&node, pays(1)).await;
    confirmed(&node, &anvil, std::slice::from_ref(&first)).await;
    let copy = HotCopy::of(&bench);
    let lost = send(&node, pays(4)).await;
    until(&node, lost.id, TxState::Submitted).await;
    node.shutdown().await;

    let node = start_on(copy.open(), settings(&bench, "a"), &[anvil.url()]).await;
    let other = send(&node, pays(7)).await;
    let again = send(&node, pays(4)).await;
    for tx in [&other, &again] {
        eventually("it to wait for a word", async || {
            (get(&node, tx.id).await.standing.sub_state == Some(SubState::Restored)).then_some(())
        })
        .await;
    }
    confirmed(&node, &anvil, std::slice::from_ref(&again)).await;
    assert_eq!(paid(&anvil).await, [1, 4], "the chain shows that it was sent");
    eventually("the word to be taken", async || {
        node.lanes().settle_restored(lane(0), NEVER_SENT).await.ok()
    })
    .await;
    confirmed(&node, &anvil, std::slice::from_ref(&other)).await;
    assert_eq!(paid(&anvil).await, [1, 4, 7]);
    node.shutdown().await;
}

/// An endpoint that has pools of nobody to show: to it what is pending is what is mined.
async fn without_pool(anvil: &Anvil, mined: u64) -> RpcProxy {
    let proxy = RpcProxy::start(anvil.url()).await;
    proxy.lie("eth_getTransactionCount", move |params, _| {
        (params[1] == "pending").then(|| json!(format!("{mined:#x}")))
    });
    shows_nothing(&proxy);
    proxy
}

/// It does not offer to show what is in its pool.
fn shows_nothing(proxy: &RpcProxy) {
    for method in ["txpool_contentFrom", "eth_getTransactionBySenderAndNonce"] {
        proxy.fail(method, -32601, "the method does not exist");
    }
}

/// Most endpoints do not show their pools, and one does.
///
/// Fails if the word of the first one, or of the larger part, is taken for there being nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hole_20_a_pool_that_one_endpoint_shows_is_not_outvoted_by_those_that_show_none() {
    for shows in [true, false] {
        let bench = Bench::sqlite(QUEUE).await;
        let anvil = chain(false).await;
        let proxies = [
            without_pool(&anvil, 1).await,
            without_pool(&anvil, 1).await,
            RpcProxy::start(anvil.url()).await,
        ];
        if !shows {
            shows_nothing(&proxies[2]);
        }
        let urls = proxies.each_ref().map(RpcProxy::url);
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let node = start(&bench, settings(&bench, "a"), &urls).await;
        let first = send(&node, pays(1)).await;
        confirmed(&node, &anvil, std::slice::from_ref(&first)).await;
        let copy = HotCopy::of(&bench);
        let lost = send(&node, pays(4)).await;
        until(&node, lost.id, TxState::Submitted).await;
        node.shutdown().await;

        let node = start_on(copy.open(), settings(&bench, "a"), &urls).await;
        let (other, again) = (send(&node, pays(7)).await, send(&node, pays(4)).await);
        // Shown, it marks the lane. Only claimed, it is waited for.
        let what = if shows { "the lane to be marked" } else { "the lane to wait" };
        eventually(what, async || match shows {
            true => node.lanes().restored(lane(0)).await.unwrap().mark.map(|_| ()),
            false => {
                let found = node.lanes().doctor(lane(0)).await.unwrap().findings;
                found.iter().any(|finding| finding.code == "not-compared").then_some(())
            }
        })
        .await;
        for tx in [&other, &again] {
            assert_eq!(get(&node, tx.id).await.nonce, None, "shows: {shows}");
        }
        confirmed(&node, &anvil, std::slice::from_ref(&again)).await;
        assert_eq!(paid(&anvil).await, [1, 4], "shows: {shows}");
        node.shutdown().await;
    }
}
