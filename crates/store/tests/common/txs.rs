//! Transactions, and what a node asks of a store about them.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::json;
use stile_domain::{
    Address, AttemptKind, B256, Bytes, EventKind, Fees, Finality, Header, Lane, NodeId, Nonce,
    Payload, Plan, Receipt, Released, Rival, Step, Successor, TxId, U256, request_hash,
};
use stile_store::{
    Acceptance, BindTx, Bindable, Claim, LaneChanges, NewAttempt, NewEvent, NewTx, Recorded,
    Refusal, Set, Store, StreamEvent, Tx, TxBinding, TxChange, TxEvent,
};
use uuid::Uuid;

use super::nodes::LEASE;

/// Who writes, where it does not matter.
pub(crate) static A_NODE: LazyLock<NodeId> = LazyLock::new(|| NodeId("a".into()));

pub(crate) fn tx_id() -> TxId {
    TxId(Uuid::now_v7())
}

/// A transaction that no caller has a name for.
pub(crate) fn new_tx(lane: Lane) -> NewTx {
    let payload = Payload {
        to: Some(Address::repeat_byte(7)),
        value: U256::from(5),
        data: Bytes::from_static(b"hello"),
        max_fee_per_gas: Some(u128::from(u64::MAX) * 3),
        ..Payload::default()
    };
    NewTx {
        id: tx_id(),
        tenant: "shop".into(),
        lane,
        request_id: None,
        // Amounts beyond 64 bits are rare, and must not be lost.
        request_hash: request_hash(&Payload { max_fee_per_gas: None, ..payload.clone() }, None),
        payload,
        finality: Finality::Confirmations(3),
        gas_limit: None,
        replaces: None,
    }
}

/// The same under a name.
pub(crate) fn named(lane: Lane, request_id: &str) -> NewTx {
    NewTx { request_id: Some(request_id.into()), ..new_tx(lane) }
}

pub(crate) async fn accept(store: &dyn Store, txs: &[NewTx]) -> Vec<Acceptance> {
    store.accept(&A_NODE, txs).await.expect("accept")
}

/// An acceptance that must be a new one.
pub(crate) async fn accept_one(store: &dyn Store, tx: NewTx) -> Tx {
    let [answer] = <[_; 1]>::try_from(accept(store, &[tx]).await).expect("an answer for each");
    created(answer)
}

pub(crate) fn created(answer: Acceptance) -> Tx {
    match answer {
        Acceptance::New(tx) => tx,
        Acceptance::Existing(tx) => panic!("was there already: {tx:?}"),
        Acceptance::Elsewhere(elsewhere) => panic!("not Stile's: {elsewhere:?}"),
    }
}

/// Signed bytes that nobody else has.
pub(crate) fn attempt() -> NewAttempt {
    let (one, other) = (Uuid::new_v4().into_bytes(), Uuid::new_v4().into_bytes());
    let hash = B256::from_slice(&[one, other].concat());
    NewAttempt {
        kind: AttemptKind::Send,
        hash,
        raw: Bytes::from(hash.to_vec()),
        fees: Fees::Market { max_fee_per_gas: 200, max_priority_fee_per_gas: 7 },
        gas_limit: 21_000,
    }
}

/// What a plan with these released nonces, and fresh ones from the cursor, asks for.
pub(crate) fn tx_binding(
    claim: Claim,
    reissued: Vec<Released>,
    first: Nonce,
    txs: impl IntoIterator<Item = Bindable>,
) -> TxBinding {
    let txs: Vec<_> = txs.into_iter().map(|what| BindTx { what, attempt: attempt() }).collect();
    let fresh = (txs.len() - reissued.len()) as u64;
    let plan = Plan { reissued, first, fresh };
    TxBinding { claim, plan, txs, resubmit_after: Some(Duration::from_secs(60)) }
}

/// New transactions at fresh nonces.
pub(crate) fn bind_new(
    claim: Claim,
    first: Nonce,
    txs: impl IntoIterator<Item = NewTx>,
) -> TxBinding {
    tx_binding(claim, Vec::new(), first, txs.into_iter().map(|tx| Bindable::New(Box::new(tx))))
}

/// Waiting transactions at fresh nonces.
pub(crate) fn waiting_binding<'t>(
    claim: Claim,
    first: Nonce,
    txs: impl IntoIterator<Item = &'t Tx>,
) -> TxBinding {
    tx_binding(claim, Vec::new(), first, txs.into_iter().map(|tx| Bindable::Waiting(tx.id)))
}

/// Writes one lane's part.
pub(crate) async fn bind_txs(store: &dyn Store, binding: TxBinding) -> Result<Vec<Tx>, Refusal> {
    let answers = store.bind_txs(&A_NODE, &[binding], LEASE).await.expect("bind transactions");
    let [answer] = <[_; 1]>::try_from(answers).expect("an answer for each lane");
    answer
}

/// A transaction as it stands.
pub(crate) async fn read_tx(store: &dyn Store, id: TxId) -> Tx {
    let found = store.txs(&[id]).await.expect("read the transaction");
    found.into_iter().next().flatten().expect("the transaction exists")
}

/// The change that a step makes, with its entry.
pub(crate) fn change(tx: &Tx, step: Step) -> TxChange {
    let standing = tx.standing.after(step).expect("a legal step");
    let mut change = TxChange::new(tx.id, tx.events, standing);
    change.event = Some(NewEvent { kind: tx.standing.kind_of(step), data: json!({}) });
    match step {
        Step::Mined(_) => {
            change.receipt = Set::To(receipt(tx, 10));
        }
        Step::Unmined => change.receipt = Set::Clear,
        _ => {}
    }
    change
}

/// A new transaction with this nonce.
pub(crate) async fn bound(store: &dyn Store, claim: Claim, nonce: Nonce) -> Tx {
    let binding = bind_new(claim, nonce, [new_tx(claim.lane())]);
    bind_txs(store, binding).await.expect("bound").remove(0)
}

/// Another transaction at the same nonce, in a block at a height of the first fork.
pub(crate) fn rival(by: Successor, height: u64) -> Rival {
    Rival {
        by,
        tx_hash: Some(block(9, height)),
        block_number: height,
        block_hash: block(1, height),
    }
}

/// The transaction loses its nonce to an outsider's at a height, for good.
pub(crate) async fn lose(store: &dyn Store, claim: Claim, tx: &Tx, height: u64) -> Tx {
    let mut overtaken = change(tx, Step::Overtaken(Successor::Outsider));
    overtaken.rival = Set::To(rival(Successor::Outsider, height));
    let overtaken = record_one(store, claim, overtaken).await;
    steps(store, claim, &overtaken, &[Step::Superseded(Successor::Outsider)]).await
}

/// The kinds of a transaction's history.
pub(crate) async fn kinds(store: &dyn Store, tx: TxId) -> Vec<EventKind> {
    let history = store.history(tx).await.expect("read the history");
    history.into_iter().map(|event| event.kind).collect()
}

/// The entries of a stream that are about transactions.
pub(crate) fn of_txs(events: Vec<StreamEvent>) -> Vec<TxEvent> {
    let of_txs = events.into_iter().filter_map(|event| match event {
        StreamEvent::Tx(event) => Some(event),
        StreamEvent::Lane(_) | StreamEvent::HistoryChanged(_) => None,
    });
    of_txs.collect()
}

/// A block of the first fork, at a height.
pub(crate) fn block(fork: u8, height: u64) -> B256 {
    let mut bytes = [fork; 32];
    bytes[24..].copy_from_slice(&height.to_be_bytes());
    B256::from(bytes)
}

pub(crate) fn header(fork: u8, height: u64) -> Header {
    Header { height, hash: block(fork, height), parent: block(fork, height - 1) }
}

/// The transaction was mined at a height of the first fork, in its newest attempt.
pub(crate) fn receipt(tx: &Tx, height: u64) -> Receipt {
    Receipt {
        tx_hash: tx.tx_hash.expect("an attempt"),
        block_number: height,
        block_hash: block(1, height),
        transaction_index: 3,
        status: Some(true),
        gas_used: 21_000,
        effective_gas_price: u128::from(u64::MAX) * 2,
        contract_address: None,
    }
}

/// Writes one lane's changes.
pub(crate) async fn record(
    store: &dyn Store,
    claim: Claim,
    changes: Vec<TxChange>,
) -> Result<Vec<Recorded>, Refusal> {
    let part = LaneChanges { claim, changes };
    let answers = store.record(&A_NODE, &[part], LEASE).await.expect("record");
    let [answer] = <[_; 1]>::try_from(answers).expect("an answer for each lane");
    answer
}

/// Writes one change, and answers with the transaction as it stands then.
pub(crate) async fn record_one(store: &dyn Store, claim: Claim, change: TxChange) -> Tx {
    let id = change.tx;
    let recorded = record(store, claim, vec![change]).await.expect("not refused");
    assert!(matches!(recorded[..], [Recorded::Written { .. }]), "{recorded:?}");
    read_tx(store, id).await
}

/// Takes a bound transaction through steps.
pub(crate) async fn steps(store: &dyn Store, claim: Claim, tx: &Tx, steps: &[Step]) -> Tx {
    let mut tx = tx.clone();
    for step in steps {
        tx = record_one(store, claim, change(&tx, *step)).await;
    }
    tx
}
