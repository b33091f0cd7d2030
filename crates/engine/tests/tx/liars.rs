//! Endpoints that lie, where there are others.
//!
//! Each of these fails if the word of one endpoint ends a transaction, or takes an end back, against
//! the word of the others.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use stile_domain::{Finality, TxId, TxState};
use stile_engine::{Node, Settings, TxRequest};
use stile_store::Tx;
use testkit::{Anvil, AnvilOptions, RpcProxy, eventually};

use crate::common::{Bench, lease, on, on_both_stores};
use crate::lies::{
    MadeUp, Trio, embellish, finalize_all, finding, flap, forge_hash, forge_receipts, head_of_old,
    head_with_a_hole, named, shown, slip_in, tell_failures, without_end,
};
use crate::setup::{
    get, history, kinds, lane, mined, send, settings, start, start_with, transfer, until,
};

on_both_stores!(
    hole_23_a_thousand_made_up_blocks_confirm_nothing,
    hole_23_made_up_blocks_on_top_of_a_true_one_make_nothing_deep,
    hole_23_a_false_receipt_is_corrected,
    hole_23_what_is_slipped_into_a_true_block_confirms_nothing,
    hole_23_a_forged_hash_confirms_nothing,
    hole_23_a_fork_of_its_own_confirms_nothing,
    hole_23_finalized_that_runs_ahead_confirms_nothing,
    hole_23_of_two_one_may_go_and_none_may_contradict,
    hole_23_one_voter_of_three_is_too_few,
    hole_23_honest_work_goes_on_under_every_lie,
    hole_24_a_head_that_goes_back_takes_nothing_back,
    hole_24_what_was_finalized_pauses_the_lane_and_stays,
    hole_24_a_lane_that_is_paused_already_is_told_what_was_lost,
    hole_31_what_was_confirmed_in_an_outvoted_block_is_taken_back,
    hole_31_what_was_lost_while_away_is_taken_back,
    hole_31_whoever_comes_after_the_one_that_picked_the_chain_up_knows_too,
    hole_24_a_known_block_as_the_newest_takes_nothing_back,
    hole_23_a_block_that_has_two_heights_is_not_followed,
    hole_23_a_way_back_without_end_is_not_walked,
    hole_23_whoever_shows_heads_and_no_blocks_is_left,
    hole_23_whoever_hangs_on_blocks_is_left,
    hole_23_whoever_hangs_on_receipts_holds_up_nobody,
    hole_23_receipts_of_many_blocks_are_asked_for_at_once,
    hole_23_what_a_receipt_says_besides_is_agreed_on,
);

async fn start_trio(bench: &Bench, trio: &Trio) -> Node {
    let urls = trio.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    start(bench, settings(bench, "a"), &urls).await
}

fn asks(request_id: &str, finality: Finality) -> TxRequest {
    TxRequest { finality: Some(finality), ..transfer(0, request_id) }
}

/// A transaction on its way, as the chain shows it.
async fn on_its_way(node: &Node, anvil: &Anvil, request: TxRequest) -> (Tx, Value) {
    let tx = send(node, request).await;
    let tx = until(node, tx.id, TxState::Submitted).await;
    let hash = node.transactions().attempts(tx.id).await.unwrap()[0].hash;
    let shown = eventually("the chain to have it", async || {
        let shown = anvil.rpc("eth_getTransactionByHash", json!([hash])).await;
        shown.is_object().then_some(shown)
    })
    .await;
    (tx, shown)
}

/// It is confirmed in the block that the chain has it in, and was so only once.
async fn truly_confirmed(node: &Node, anvil: &Anvil, id: TxId) {
    let done = until(node, id, TxState::Confirmed).await;
    let receipt = done.receipt.unwrap();
    let shown = anvil.receipt(&receipt.tx_hash.to_string()).await.unwrap();
    assert_eq!(json!(receipt.block_hash), shown["blockHash"]);
    assert_eq!(receipt.status, Some(true));
    let kinds = kinds(&history(node, id).await).join(" ");
    assert_eq!(kinds.matches("CONFIRMED").count(), 1, "{kinds}");
}

async fn hole_23_a_thousand_made_up_blocks_confirm_nothing(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, shown_tx) = on_its_way(&node, &trio.anvil, transfer(0, "ahead")).await;
    MadeUp::on(&trio.anvil, 1000, shown_tx).await.tell(trio.liar());
    let words = named(&node, trio.liar()).await;
    assert!(words.contains("claims block 1005, which no other endpoint has"), "{words}");
    let stands = get(&node, tx.id).await;
    assert_eq!(stands.standing.state, TxState::Submitted, "{stands:?}");
    // The others go on without it.
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

async fn hole_23_made_up_blocks_on_top_of_a_true_one_make_nothing_deep(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let request = asks("shallow", Finality::Confirmations(3));
    let (tx, mut stranger) = on_its_way(&node, &trio.anvil, request).await;
    trio.anvil.mine(1).await;
    mined(&node, tx.id).await;
    stranger["hash"] = json!(format!("0x{}", "5a".repeat(32)));
    stranger["from"] = json!("0x00000000000000000000000000000000000000aa");
    MadeUp::on(&trio.anvil, 20, stranger).await.tell(trio.liar());
    eventually("the made-up blocks to be followed", async || {
        let confirmations = node.transactions().confirmations_of(&get(&node, tx.id).await);
        (confirmations == 20).then_some(())
    })
    .await;
    trio.liar().reset();
    eventually("several passes on top of them", async || {
        (trio.liar().count("eth_chainId") > 10).then_some(())
    })
    .await;
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Tracking);
    // True blocks at the same heights: what is on top is voted on, block by block.
    for height in 7..=10 {
        trio.anvil.mine(1).await;
        let stands = get(&node, tx.id).await.standing.state;
        assert!(height > 8 || stands == TxState::Tracking, "{stands:?} at {height}");
    }
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    named(&node, trio.liar()).await;
    node.shutdown().await;
}

async fn hole_23_a_false_receipt_is_corrected(bench: Bench) {
    let trio = Trio::start().await;
    tell_failures(trio.liar());
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "receipt")).await;
    trio.anvil.mine(3).await;
    let words = named(&node, trio.liar()).await;
    assert!(words.contains("failed in block 6, and the others that it did not"), "{words}");
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

async fn hole_23_what_is_slipped_into_a_true_block_confirms_nothing(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, shown_tx) = on_its_way(&node, &trio.anvil, transfer(0, "slipped")).await;
    // A block without it, which the liar shows with it.
    trio.anvil.rpc("evm_setBlockGasLimit", json!(["0x5000"])).await;
    trio.liar().hold("eth_getBlockByNumber");
    trio.anvil.mine(1).await;
    let block = trio.anvil.block(6).await.unwrap();
    assert_eq!(block["transactions"], json!([]));
    slip_in(trio.liar(), &block, &shown_tx);
    trio.liar().release();
    trio.anvil.mine(3).await;
    let words = named(&node, trio.liar()).await;
    assert!(words.contains("in block 6, where the others do not"), "{words}");
    trio.anvil.rpc("evm_setBlockGasLimit", json!(["0x1c9c380"])).await;
    eventually("it to be taken out of the block", async || {
        let stands = get(&node, tx.id).await.standing.state;
        (stands == TxState::Submitted).then_some(())
    })
    .await;
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

async fn hole_23_a_forged_hash_confirms_nothing(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "forged")).await;
    trio.liar().hold("eth_getBlockByNumber");
    trio.anvil.mine(1).await;
    forge_hash(trio.liar(), &trio.anvil.block(6).await.unwrap());
    trio.liar().release();
    trio.anvil.mine(4).await;
    let words = named(&node, trio.liar()).await;
    assert!(words.contains("as block 6, where the others have"), "{words}");
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

/// Two chains that begin alike.
async fn twins() -> [Anvil; 2] {
    let options = AnvilOptions {
        no_mining: true,
        arguments: vec!["--timestamp=1700000000".to_owned()],
        ..AnvilOptions::default()
    };
    let (first, second) = tokio::join!(Anvil::start(options.clone()), Anvil::start(options));
    for chain in [&first, &second] {
        for second in 1..=5u64 {
            chain.rpc("evm_setNextBlockTimestamp", json!([1_700_000_000 + second])).await;
            chain.mine(1).await;
        }
    }
    assert_eq!(first.block(5).await, second.block(5).await, "they begin alike");
    [first, second]
}

async fn hole_23_a_fork_of_its_own_confirms_nothing(bench: Bench) {
    let [liar, honest] = twins().await;
    let proxy = RpcProxy::start(liar.url()).await;
    let proxies = [RpcProxy::start(honest.url()).await, RpcProxy::start(honest.url()).await];
    let urls = [proxy.url(), proxies[0].url(), proxies[1].url()];
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let node = start(&bench, settings(&bench, "a"), &urls).await;
    let (tx, _) = on_its_way(&node, &honest, transfer(0, "fork")).await;
    let (other, _) = on_its_way(&node, &honest, asks("later", Finality::Confirmations(3))).await;
    liar.rpc("anvil_setCoinbase", json!(["0x00000000000000000000000000000000000000aa"])).await;
    // Block by block, so that neither leads. On the fork they are mined and deep enough first.
    for _ in 0..6 {
        liar.mine(1).await;
        honest.mine(1).await;
    }
    let words = named(&node, &proxy).await;
    assert!(words.contains("where the others have"), "{words}");
    truly_confirmed(&node, &honest, tx.id).await;
    truly_confirmed(&node, &honest, other.id).await;
    node.shutdown().await;
}

async fn hole_23_finalized_that_runs_ahead_confirms_nothing(bench: Bench) {
    let trio = Trio::start().await;
    let newest = Arc::new(Mutex::new(trio.anvil.block(5).await.unwrap()));
    finalize_all(trio.liar(), Arc::clone(&newest));
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, asks("finalized", Finality::Finalized)).await;
    trio.anvil.mine(1).await;
    mined(&node, tx.id).await;
    for height in 7..=10 {
        trio.anvil.mine(1).await;
        *newest.lock().unwrap() = trio.anvil.block(height).await.unwrap();
        eventually("the block to be seen", async || {
            let confirmations = node.transactions().confirmations_of(&get(&node, tx.id).await);
            (confirmations == height - 6).then_some(())
        })
        .await;
    }
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Tracking);
    trio.anvil.mine(100).await;
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

async fn hole_23_of_two_one_may_go_and_none_may_contradict(bench: Bench) {
    let [first, second] = twins().await;
    let proxies = [RpcProxy::start(first.url()).await, RpcProxy::start(second.url()).await];
    let urls = [proxies[0].url(), proxies[1].url()];
    let node = start(&bench, settings(&bench, "a"), &[&urls[0], &urls[1]]).await;
    let (tx, _) = on_its_way(&node, &first, transfer(0, "two")).await;
    second.rpc("anvil_setCoinbase", json!(["0x00000000000000000000000000000000000000aa"])).await;
    for _ in 0..6 {
        first.mine(1).await;
        second.mine(1).await;
    }
    let found = eventually("the contradiction to be told", async || {
        finding(&node, "endpoints-contradict").await
    })
    .await;
    assert!(found.words.contains("the endpoints contradict each other about block"), "{found:?}");
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Tracking);
    proxies[1].refuse().await;
    truly_confirmed(&node, &first, tx.id).await;
    node.shutdown().await;
}

async fn hole_23_one_voter_of_three_is_too_few(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "alone")).await;
    trio.proxies[1].refuse().await;
    trio.proxies[2].refuse().await;
    trio.anvil.mine(3).await;
    let found = eventually("the want of voters to be told", async || {
        finding(&node, "too-few-voters").await
    })
    .await;
    assert!(found.words.contains("2 of 3 endpoints have to agree"), "{found:?}");
    assert!(found.words.contains(&shown(&trio.proxies[2])), "{found:?}");
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Tracking);
    trio.proxies[2].heal().await;
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    node.shutdown().await;
}

/// The short form of what runs for ten minutes: one lie after the other, with work under way.
async fn hole_23_honest_work_goes_on_under_every_lie(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let mut ids = Vec::new();
    for round in 0..10u64 {
        let (tx, shown_tx) =
            on_its_way(&node, &trio.anvil, transfer(0, &format!("round-{round}"))).await;
        ids.push(tx.id);
        let liar = trio.liar();
        match round % 5 {
            0 => MadeUp::on(&trio.anvil, 1000, shown_tx).await.tell(liar),
            1 => tell_failures(liar),
            2 => MadeUp::on(&trio.anvil, 3, shown_tx).await.tell(liar),
            3 => flap(&trio.anvil, liar, 3).await,
            _ => forge_hash(liar, &trio.anvil.block(trio.anvil.height().await).await.unwrap()),
        }
        trio.anvil.mine(2).await;
        eventually("honest work to go on", async || {
            trio.anvil.mine(1).await;
            (get(&node, tx.id).await.standing.state == TxState::Confirmed).then_some(())
        })
        .await;
        liar.heal().await;
    }
    for id in ids {
        truly_confirmed(&node, &trio.anvil, id).await;
    }
    named(&node, trio.liar()).await;
    assert!(node.lanes().doctor(lane(0)).await.unwrap().facts.paused.is_none());
    node.shutdown().await;
}

/// One endpoint and three: what is known is not contradicted by a head that is part of it.
async fn hole_24_a_head_that_goes_back_takes_nothing_back(bench: Bench) {
    let trio = Trio::start().await;
    let urls = trio.urls();
    for (turn, urls) in [&urls[..1], &urls[..]].into_iter().enumerate() {
        let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
        let node = start(&bench, settings(&bench, "a"), &urls).await;
        let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, &format!("back-{turn}"))).await;
        trio.anvil.mine(3).await;
        until(&node, tx.id, TxState::Confirmed).await;
        let before = history(&node, tx.id).await.len();
        let sends = trio.liar().sent_raw().len();
        trio.liar().reset();
        flap(&trio.anvil, trio.liar(), 3).await;
        eventually("the head to have gone back many times", async || {
            (trio.liar().count("eth_chainId") > 30).then_some(())
        })
        .await;
        let after = history(&node, tx.id).await;
        assert_eq!(after.len(), before, "{:?}", kinds(&after));
        assert!(sends > 0 && trio.liar().sent_raw().is_empty(), "nothing is sent again");
        trio.liar().heal().await;
        node.shutdown().await;
    }
}

async fn hole_24_what_was_finalized_pauses_the_lane_and_stays(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, asks("stays", Finality::Finalized)).await;
    trio.anvil.mine(1).await;
    mined(&node, tx.id).await;
    trio.anvil.mine(70).await;
    until(&node, tx.id, TxState::Confirmed).await;
    let before = history(&node, tx.id).await.len();
    trio.anvil.rpc("anvil_reorg", json!([71, []])).await;
    let reason = eventually("the lane to be paused", async || {
        node.lanes().doctor(lane(0)).await.unwrap().facts.paused
    })
    .await;
    assert!(reason.contains("was final in block 6"), "{reason}");
    assert_eq!(get(&node, tx.id).await.standing.state, TxState::Confirmed);
    assert_eq!(history(&node, tx.id).await.len(), before);
    // Once.
    trio.anvil.mine(3).await;
    let told = node.lanes().history(lane(0), None, 100).await.unwrap();
    let resets = told.iter().filter(|event| event.kind.name() == "CHAIN_RESET").count();
    assert_eq!(resets, 1, "{told:?}");
    node.shutdown().await;
}

async fn hole_24_a_lane_that_is_paused_already_is_told_what_was_lost(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, asks("paused", Finality::Finalized)).await;
    trio.anvil.mine(1).await;
    mined(&node, tx.id).await;
    trio.anvil.mine(70).await;
    until(&node, tx.id, TxState::Confirmed).await;
    node.nonces().pause(lane(0), "a person's reason").await.unwrap();
    trio.anvil.rpc("anvil_reorg", json!([71, []])).await;
    let resets = async || {
        let told = node.lanes().history(lane(0), None, 100).await.unwrap();
        told.into_iter().filter(|event| event.kind.name() == "CHAIN_RESET").collect::<Vec<_>>()
    };
    let told = eventually("what was lost to be told", async || resets().await.pop()).await;
    assert_eq!(told.data["txId"], json!(tx.id));
    assert!(told.fencing_token.is_some(), "behind the fence");
    let paused = node.lanes().doctor(lane(0)).await.unwrap().facts.paused.unwrap();
    assert!(paused.contains("a person's reason"), "{paused}");
    trio.anvil.mine(3).await;
    assert_eq!(resets().await.len(), 1, "once");
    node.shutdown().await;
}

/// Two of three show another hash for a block, and the same blocks on top of it: what is followed
/// never shows that it was replaced.
async fn hole_31_what_was_confirmed_in_an_outvoted_block_is_taken_back(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "outvoted")).await;
    let liars = &trio.proxies[..2];
    for liar in liars {
        liar.hold("eth_getBlockByNumber");
    }
    trio.anvil.mine(1).await;
    let block = trio.anvil.block(6).await.unwrap();
    let receipts = trio.anvil.rpc("eth_getBlockReceipts", json!([block["hash"]])).await;
    for liar in liars {
        forge_hash(liar, &block);
        forge_receipts(liar, &block, &receipts);
        liar.release();
    }
    trio.anvil.mine(1).await;
    let forged = until(&node, tx.id, TxState::Confirmed).await.receipt.unwrap();
    assert_ne!(json!(forged.block_hash), block["hash"]);
    for liar in liars {
        liar.heal().await;
    }
    eventually("it to be confirmed where it truly is", async || {
        trio.anvil.mine(1).await;
        let now = get(&node, tx.id).await;
        let is_true = now.receipt.is_some_and(|own| json!(own.block_hash) == block["hash"]);
        (is_true && now.standing.state == TxState::Confirmed).then_some(())
    })
    .await;
    let kinds = kinds(&history(&node, tx.id).await).join(" ");
    assert_eq!(kinds.matches("CONFIRMED").count(), 2, "{kinds}");
    node.shutdown().await;
}

async fn hole_31_what_was_lost_while_away_is_taken_back(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "lost")).await;
    trio.anvil.mine(2).await;
    until(&node, tx.id, TxState::Confirmed).await;
    node.shutdown().await;
    trio.anvil.reorg(2, &[]).await;
    trio.anvil.drop_all_transactions().await;
    trio.anvil.mine(700).await;
    let node = start_trio(&bench, &trio).await;
    eventually("it to be taken back", async || {
        kinds(&history(&node, tx.id).await).contains(&"REORGED").then_some(())
    })
    .await;
    eventually("it to be confirmed again", async || {
        trio.anvil.mine(1).await;
        (get(&node, tx.id).await.standing.state == TxState::Confirmed).then_some(())
    })
    .await;
    node.shutdown().await;
}

/// Another process picks the chain up far above while the lane is still that of one that is gone.
/// Where the chain was left is known to whoever comes next all the same.
async fn hole_31_whoever_comes_after_the_one_that_picked_the_chain_up_knows_too(bench: Bench) {
    let trio = Trio::start().await;
    let urls = trio.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let leased = |name| Settings { lease: lease(600_000), ..settings(&bench, name) };
    let node = start(&bench, leased("a"), &urls).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "lost")).await;
    trio.anvil.mine(2).await;
    until(&node, tx.id, TxState::Confirmed).await;
    // It keeps its lanes.
    drop(node);
    trio.anvil.reorg(2, &[]).await;
    trio.anvil.drop_all_transactions().await;
    trio.anvil.mine(700).await;
    let other = start(&bench, leased("b"), &urls).await;
    let (theirs, _) = on_its_way(&other, &trio.anvil, transfer(1, "theirs")).await;
    trio.anvil.mine(2).await;
    until(&other, theirs.id, TxState::Confirmed).await;
    let before = kinds(&history(&other, tx.id).await).join(" ");
    assert!(!before.contains("REORGED"), "the lane is not its: {before}");
    other.shutdown().await;
    trio.anvil.mine(5).await;
    let node = start(&bench, leased("a"), &urls).await;
    eventually("it to be taken back", async || {
        kinds(&history(&node, tx.id).await).contains(&"REORGED").then_some(())
    })
    .await;
    node.shutdown().await;
}
/// Two transactions, one of them done and one on its way, on a chain that goes on.
async fn one_done_and_one_on_its_way(node: &Node, trio: &Trio) -> [Tx; 2] {
    let (done, _) = on_its_way(node, &trio.anvil, transfer(0, "done")).await;
    trio.anvil.mine(4).await;
    let done = until(node, done.id, TxState::Confirmed).await;
    let (open, _) = on_its_way(node, &trio.anvil, transfer(0, "open")).await;
    [done, open]
}

async fn hole_24_a_known_block_as_the_newest_takes_nothing_back(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let [done, open] = one_done_and_one_on_its_way(&node, &trio).await;
    let before = history(&node, done.id).await.len();
    let newest = trio.anvil.height().await;
    // Below the block that has what is done.
    head_of_old(trio.liar(), newest, &trio.anvil.block(4).await.unwrap());
    trio.liar().reset();
    eventually("the liar to be looked at", async || {
        (trio.liar().count("eth_chainId") > 10).then_some(())
    })
    .await;
    let after = history(&node, done.id).await;
    assert_eq!(after.len(), before, "{:?}", kinds(&after));
    let words = named(&node, trio.liar()).await;
    assert!(words.contains("and shows it as block 4 on top of"), "{words}");
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, open.id).await;
    let after = history(&node, done.id).await;
    assert_eq!(after.len(), before, "{:?}", kinds(&after));
    node.shutdown().await;
}

async fn hole_23_a_block_that_has_two_heights_is_not_followed(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let [_, open] = one_done_and_one_on_its_way(&node, &trio).await;
    let newest = trio.anvil.height().await;
    let block = trio.anvil.block(newest).await.unwrap();
    head_with_a_hole(trio.liar(), &block, newest + 1, newest + 200);
    let words = named(&node, trio.liar()).await;
    assert!(words.contains(&format!("and shows it as block {}", newest + 200)), "{words}");
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, open.id).await;
    node.shutdown().await;
}

async fn hole_23_a_way_back_without_end_is_not_walked(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_trio(&bench, &trio).await;
    let [_, open] = one_done_and_one_on_its_way(&node, &trio).await;
    let newest = trio.anvil.height().await;
    without_end(trio.liar(), &trio.anvil.block(newest).await.unwrap(), newest);
    let words = named(&node, trio.liar()).await;
    assert!(words.contains(&format!("as the parent of block {newest}")), "{words}");
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, open.id).await;
    node.shutdown().await;
}

/// In each way: without the block, limited, and with an error.
async fn hole_23_whoever_shows_heads_and_no_blocks_is_left(bench: Bench) {
    let trio = Trio::start().await;
    for turn in 0..3 {
        let node = start_trio(&bench, &trio).await;
        let request = transfer(0, &format!("no-blocks-{turn}"));
        let (tx, _) = on_its_way(&node, &trio.anvil, request).await;
        match turn {
            0 => trio.liar().lie("eth_getBlockByHash", |_, _| Some(json!(null))),
            1 => trio.liar().fail_with_status("eth_getBlockByHash", 429, None),
            _ => trio.liar().fail("eth_getBlockByHash", -32000, "response too large"),
        }
        trio.anvil.mine(3).await;
        truly_confirmed(&node, &trio.anvil, tx.id).await;
        let words = named(&node, trio.liar()).await;
        assert!(words.contains("and does not give what belongs to it"), "{words}");
        trio.liar().heal().await;
        node.shutdown().await;
    }
}

async fn hole_23_whoever_hangs_on_blocks_is_left(bench: Bench) {
    let trio = Trio::start().await;
    let urls = trio.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let (store, patience) = (bench.database.open(), Duration::from_millis(1500));
    let node = start_with(store, settings(&bench, "a"), &urls, patience).await;
    let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, "hangs")).await;
    trio.liar().hold("eth_getBlockByHash");
    trio.anvil.mine(3).await;
    truly_confirmed(&node, &trio.anvil, tx.id).await;
    trio.liar().release();
    node.shutdown().await;
}

/// Longer than any test: whoever waits for it does not come back.
const FOR_EVER: Duration = Duration::from_secs(3600);

async fn start_patient(bench: &Bench, trio: &Trio) -> Node {
    let urls = trio.urls();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    start_with(bench.database.open(), settings(bench, "a"), &urls, FOR_EVER).await
}

fn hold_receipts(proxy: &RpcProxy) {
    proxy.hold("eth_getTransactionReceipt");
    proxy.hold("eth_getBlockReceipts");
}

async fn hole_23_whoever_hangs_on_receipts_holds_up_nobody(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_patient(&bench, &trio).await;
    hold_receipts(&trio.proxies[2]);
    for turn in 0..3 {
        let request = transfer(0, &format!("receipts-{turn}"));
        let (tx, _) = on_its_way(&node, &trio.anvil, request).await;
        trio.anvil.mine(3).await;
        truly_confirmed(&node, &trio.anvil, tx.id).await;
    }
    trio.proxies[2].release();
    node.shutdown().await;
}

async fn hole_23_receipts_of_many_blocks_are_asked_for_at_once(bench: Bench) {
    let trio = Trio::start().await;
    let node = start_patient(&bench, &trio).await;
    let mut ids = Vec::new();
    for turn in 0..4 {
        let request = transfer(0, &format!("many-{turn}"));
        ids.push(on_its_way(&node, &trio.anvil, request).await.0.id);
    }
    // One for each block, and all of them seen at once.
    trio.anvil.rpc("evm_setBlockGasLimit", json!(["0x61a8"])).await;
    trio.liar().hold("eth_getBlockByNumber");
    trio.anvil.mine(6).await;
    // Nobody is outvoted, and nothing is agreed on, before one of these answers.
    let silent = &trio.proxies[1..];
    for proxy in silent {
        hold_receipts(proxy);
        proxy.reset();
    }
    trio.liar().release();
    for proxy in silent {
        eventually("four blocks to be asked about", async || {
            (proxy.count("eth_getTransactionReceipt") >= 4).then_some(())
        })
        .await;
        proxy.release();
    }
    for id in ids {
        truly_confirmed(&node, &trio.anvil, id).await;
    }
    node.shutdown().await;
}

async fn hole_23_what_a_receipt_says_besides_is_agreed_on(bench: Bench) {
    let trio = Trio::start().await;
    let contract = Some("0x0000000000000000000000000000000000000077");
    for (turn, contract) in [contract, None].into_iter().enumerate() {
        let node = start_trio(&bench, &trio).await;
        embellish(trio.liar(), contract, "0x1");
        let (tx, _) = on_its_way(&node, &trio.anvil, transfer(0, &format!("besides-{turn}"))).await;
        trio.anvil.mine(3).await;
        truly_confirmed(&node, &trio.anvil, tx.id).await;
        let receipt = get(&node, tx.id).await.receipt.unwrap();
        assert_eq!((receipt.contract_address, receipt.gas_used), (None, 21_000));
        let words = named(&node, trio.liar()).await;
        let said = match contract {
            Some(_) => "made 0x0000000000000000000000000000000000000077 in block",
            None => "used 1 gas in block",
        };
        assert!(words.contains(said), "{words}");
        trio.liar().heal().await;
        node.shutdown().await;
    }
}
