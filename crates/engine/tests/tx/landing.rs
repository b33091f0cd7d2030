//! The straight way.

use stile_domain::{Bytes, Outcome, Payload, TxState};
use stile_engine::{TxError, TxRequest};
use stile_store::TxFilter;

use crate::common::{Bench, in_every_setup, on, on_both_stores};
use crate::setup::{
    chain, get, history, kinds, lane, mined, send, settings, start, transfer, until,
};

in_every_setup!(a_transfer_lands, many_land_once_each_without_gaps);
on_both_stores!(
    the_same_request_is_one_transaction,
    another_payload_under_the_same_id_is_refused,
    a_call_that_would_be_reverted_is_refused_before_it_costs_anything,
    what_needs_no_gas_limit_is_estimated
);

async fn a_transfer_lands(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, transfer(0, "one")).await;
    mined(&node, tx.id).await;
    anvil.mine(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(done.nonce, Some(0));
    assert_eq!(done.standing.outcome, Some(Outcome::Success));
    let receipt = done.receipt.unwrap();
    assert_eq!(done.tx_hash, Some(receipt.tx_hash));
    assert!(done.first_submit_at.is_some() && done.confirmed_at.is_some());
    let events = history(&node, tx.id).await;
    let told: Vec<&str> = kinds(&events).into_iter().filter(|kind| *kind != "SENT").collect();
    assert_eq!(told, ["ACCEPTED", "BOUND", "MINED", "CONFIRMED"]);
    let attempts = node.transactions().attempts(tx.id).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert_eq!(attempts[0].hash, receipt.tx_hash);
    node.shutdown().await;
}

async fn many_land_once_each_without_gaps(bench: Bench) {
    const COUNT: usize = 60;
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let requests: Vec<TxRequest> = (0..COUNT).map(|n| transfer(n % 2, &format!("{n}"))).collect();
    let mut ids = Vec::new();
    for answer in node.transactions().send_all(requests).await {
        ids.push(answer.unwrap().tx.id);
    }
    for id in &ids {
        testkit::eventually("all to be mined", async || {
            let state = get(&node, *id).await.standing.state;
            matches!(state, TxState::Tracking | TxState::Confirmed).then_some(())
        })
        .await;
    }
    anvil.mine(2).await;
    let mut nonces = [Vec::new(), Vec::new()];
    for (n, id) in ids.iter().enumerate() {
        nonces[n % 2].push(until(&node, *id, TxState::Confirmed).await.nonce.unwrap());
    }
    // In order of acceptance, too.
    for of_lane in nonces {
        assert_eq!(of_lane, (0..COUNT as u64 / 2).collect::<Vec<_>>());
    }
    for n in 0..2 {
        let address = lane(n).signer.to_string();
        assert_eq!(anvil.nonce(&address, "latest").await, COUNT as u64 / 2);
    }
    node.shutdown().await;
}

async fn the_same_request_is_one_transaction(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let calls = (0..30).map(|_| node.transactions().send(transfer(0, "same")));
    let answers: Vec<_> =
        futures::future::join_all(calls).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(answers.iter().filter(|answer| answer.new).count(), 1);
    assert!(answers.iter().all(|answer| answer.tx.id == answers[0].tx.id));
    let filter = TxFilter { limit: 10, ..TxFilter::default() };
    assert_eq!(node.transactions().page(&filter).await.unwrap().txs.len(), 1);
    node.shutdown().await;
}

async fn another_payload_under_the_same_id_is_refused(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let tx = send(&node, transfer(0, "same")).await;
    let mut other = transfer(0, "same");
    other.payload.gas_limit = Some(30_000);
    match node.transactions().send(other).await {
        Err(TxError::RequestIdReused { tx: other }) => assert_eq!(other.id, tx.id),
        other => panic!("{other:?}"),
    }
    // The same id on another lane is another request.
    send(&node, transfer(1, "same")).await;
    node.shutdown().await;
}

/// Code that reverts whatever it is asked: PUSH1 0 PUSH1 0 REVERT, put there by a constructor.
const REVERTING: &[u8] = &[
    0x64, 0x60, 0x00, 0x60, 0x00, 0xfd, // PUSH5 60 00 60 00 fd
    0x5f, 0x52, // at memory 27..32
    0x60, 0x05, 0x60, 0x1b, 0xf3, // RETURN 5 bytes from 27
];

async fn a_call_that_would_be_reverted_is_refused_before_it_costs_anything(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let deploy = Payload { data: Bytes::from_static(REVERTING), ..Payload::default() };
    let tx = send(&node, TxRequest { payload: deploy, ..transfer(0, "deploy") }).await;
    mined(&node, tx.id).await;
    anvil.mine(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(done.standing.outcome, Some(Outcome::Success));
    let contract = done.receipt.unwrap().contract_address.unwrap();

    let call = Payload { to: Some(contract), ..Payload::default() };
    match node.transactions().send(TxRequest { payload: call.clone(), ..transfer(0, "call") }).await
    {
        Err(TxError::EstimationReverted { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert!(node.transactions().by_request("", lane(0), "call").await.unwrap().is_none());

    let sure = Payload { gas_limit: Some(100_000), ..call };
    let tx = send(&node, TxRequest { payload: sure, ..transfer(0, "sure") }).await;
    mined(&node, tx.id).await;
    anvil.mine(1).await;
    let done = until(&node, tx.id, TxState::Confirmed).await;
    assert_eq!(done.standing.outcome, Some(Outcome::Reverted));
    node.shutdown().await;
}

async fn what_needs_no_gas_limit_is_estimated(bench: Bench) {
    let anvil = chain(true).await;
    let node = start(&bench, settings(&bench, "a"), &[anvil.url()]).await;
    let mut request = transfer(0, "estimated");
    request.payload.gas_limit = None;
    let tx = send(&node, request).await;
    assert_eq!(tx.gas_limit, Some(21_000));
    node.shutdown().await;
}
