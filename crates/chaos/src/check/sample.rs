//! A small history without a fault in it, for tests to break.
//!
//! Nonce 0 is a transfer that was confirmed, 1 one that was cancelled, with a takeover in between; 2
//! was a caller's, who used it, and 3 a caller's who gave it back, whereupon it was filled.

use super::Findings;
use crate::evidence::{
    Answer, Ask, Attempt, Block, Call, Event, Evidence, FILLER_TENANT, Gas, Lane, LaneEvent,
    Micros, Mined, NonceRow, OnRecord, Own, Sent, Tx,
};

/// The only lane.
pub(super) const LANE: &str = "0xlane";

/// The nonce of the caller who used it.
pub(super) const HELD_NONCE: u64 = 2;

/// The words of what a rule finds.
pub(super) fn broken(rule: fn(&Evidence) -> Findings, evidence: &Evidence) -> Vec<String> {
    rule(evidence).found.into_iter().map(|violation| violation.what).collect()
}

/// An entry is written a tenth of a second after the one before.
fn time_of(entry: i64) -> Micros {
    entry * 100_000
}

pub(super) fn said(
    status: u16,
    tx_id: Option<&str>,
    hold_id: Option<&str>,
    nonce: Option<u64>,
) -> Answer {
    Answer::Said {
        status,
        code: None,
        tx_id: tx_id.map(str::to_owned),
        hold_id: hold_id.map(str::to_owned),
        nonce,
    }
}

fn call(at: Micros, ask: Ask, answer: Answer) -> Call {
    Call { at, ended_at: at + 10, node: 0, ask, answer }
}

pub(super) fn allocated(at: Micros, hold_id: &str, nonce: u64) -> Call {
    let ask = Ask::Allocate { signer: LANE.to_owned(), key: format!("key-{hold_id}") };
    call(at, ask, said(200, None, Some(hold_id), Some(nonce)))
}

fn sent(at: Micros, request_id: &str, wei: u64, tx_id: &str, nonce: u64) -> Call {
    let ask = Ask::Send {
        signer: LANE.to_owned(),
        request_id: request_id.to_owned(),
        wei,
        gas: Gas::Stated,
    };
    call(at, ask, said(202, Some(tx_id), None, Some(nonce)))
}

/// An entry in a history; without a token for 0. The first token is n0's, the second n1's.
pub(super) fn event(
    tx_id: &str,
    seq: u64,
    entry: i64,
    kind: &str,
    state: &str,
    token: u64,
) -> Event {
    Event {
        tx_id: tx_id.to_owned(),
        seq,
        entry,
        signer: LANE.to_owned(),
        kind: kind.to_owned(),
        state: state.to_owned(),
        sub_state: None,
        at: time_of(entry),
        node: format!("n{}", token.saturating_sub(1)),
        token: (token > 0).then_some(token),
        data: "{}".to_owned(),
    }
}

fn mined_event(tx_id: &str, seq: u64, entry: i64, token: u64, height: u64) -> Event {
    let data = format!("{{\"blockNumber\":{height}}}");
    Event { data, ..event(tx_id, seq, entry, "MINED", "TRACKING", token) }
}

fn tx(id: &str, request_id: &str, wei: u64, nonce: u64, state: &str, events: u64) -> Tx {
    Tx {
        id: id.to_owned(),
        tenant: String::new(),
        signer: LANE.to_owned(),
        request_id: Some(request_id.to_owned()),
        wei: wei.to_string(),
        nonce: Some(nonce),
        state: state.to_owned(),
        sub_state: None,
        tx_hash: None,
        block_number: None,
        block_hash: None,
        finality: "3".to_owned(),
        events,
        created_at: 0,
    }
}

fn confirmed(tx: Tx, hash: &str, height: u64) -> Tx {
    Tx {
        tx_hash: Some(hash.to_owned()),
        block_number: Some(height),
        block_hash: Some(block_hash(height)),
        ..tx
    }
}

fn attempt(tx_id: &str, number: u64, kind: &str, hash: &str) -> Attempt {
    Attempt {
        tx_id: tx_id.to_owned(),
        number,
        kind: kind.to_owned(),
        hash: hash.to_owned(),
        token: 1,
        created_at: time_of(2),
    }
}

fn row(nonce: u64, owner_kind: &str, owner_id: &str, status: &str) -> NonceRow {
    NonceRow {
        signer: LANE.to_owned(),
        nonce,
        owner_kind: owner_kind.to_owned(),
        owner_id: owner_id.to_owned(),
        status: status.to_owned(),
        token: 1,
        updated_at: 0,
    }
}

fn block_hash(height: u64) -> String {
    format!("0xblock{height}")
}

fn chain() -> Vec<Block> {
    let mined = |hash: &str, nonce, wei: &str| Mined {
        hash: hash.to_owned(),
        from: LANE.to_owned(),
        nonce,
        wei: wei.to_owned(),
    };
    let txs = |height| match height {
        1 => vec![mined("0xa0", 0, "1001")],
        2 => vec![mined("0xb1", 1, "0")],
        3 => vec![mined("0xc0", HELD_NONCE, "77")],
        4 => vec![mined("0xf0", 3, "0")],
        _ => vec![],
    };
    let block = |height| Block { height, hash: block_hash(height), timestamp: 0, txs: txs(height) };
    (0..=12).map(block).collect()
}

fn events() -> Vec<Event> {
    vec![
        event("tx-a", 1, 1, "ACCEPTED", "CREATED", 0),
        event("tx-a", 2, 2, "BOUND", "ALLOCATED", 1),
        event("tx-a", 3, 3, "SENT", "SUBMITTED", 1),
        mined_event("tx-a", 4, 4, 1, 1),
        event("tx-a", 5, 5, "CONFIRMED", "CONFIRMED", 1),
        event("tx-b", 1, 10, "ACCEPTED", "CREATED", 0),
        event("tx-b", 2, 11, "BOUND", "ALLOCATED", 1),
        event("tx-b", 3, 12, "SENT", "SUBMITTED", 1),
        event("tx-b", 4, 13, "CANCEL_REQUESTED", "SUBMITTED", 1),
        event("tx-b", 5, 20, "OVERTAKEN", "SUBMITTED", 2),
        event("tx-b", 6, 21, "REPLACED", "FAILED", 2),
        event("tx-f", 1, 30, "ACCEPTED", "CREATED", 0),
        event("tx-f", 2, 31, "BOUND", "ALLOCATED", 2),
        event("tx-f", 3, 32, "SENT", "SUBMITTED", 2),
        mined_event("tx-f", 4, 33, 2, 4),
        event("tx-f", 5, 34, "CONFIRMED", "CONFIRMED", 2),
    ]
}

/// The whole of it.
pub(super) fn good() -> Evidence {
    let filler = Tx {
        tenant: FILLER_TENANT.to_owned(),
        ..confirmed(tx("tx-f", "gap-3", 0, 3, "CONFIRMED", 5), "0xf0", 4)
    };
    let used = Ask::Used {
        signer: LANE.to_owned(),
        nonce: HELD_NONCE,
        hold_id: "hold-c".to_owned(),
        tx_hash: "0xc0".to_owned(),
    };
    let given_back =
        Ask::Recyclable { signer: LANE.to_owned(), nonce: 3, hold_id: "hold-d".to_owned() };
    Evidence {
        calls: vec![
            sent(50_000, "r-a", 1_001, "tx-a", 0),
            sent(950_000, "r-b", 1_002, "tx-b", 1),
            call(
                1_250_000,
                Ask::Cancel { tx_id: "tx-b".to_owned() },
                said(202, Some("tx-b"), None, None),
            ),
            allocated(1_400_000, "hold-c", HELD_NONCE),
            call(1_500_000, used, said(200, None, Some("hold-c"), Some(HELD_NONCE))),
            allocated(1_600_000, "hold-d", 3),
            call(1_700_000, given_back, said(200, None, Some("hold-d"), Some(3))),
        ],
        own: vec![Own {
            at: 1_450_000,
            signer: LANE.to_owned(),
            nonce: HELD_NONCE,
            hash: "0xc0".to_owned(),
            hold_id: Some("hold-c".to_owned()),
        }],
        txs: vec![
            confirmed(tx("tx-a", "r-a", 1_001, 0, "CONFIRMED", 5), "0xa0", 1),
            tx("tx-b", "r-b", 1_002, 1, "FAILED", 6),
            filler,
        ],
        attempts: vec![
            attempt("tx-a", 1, "SEND", "0xa0"),
            attempt("tx-b", 1, "SEND", "0xb0"),
            attempt("tx-b", 2, "CANCEL", "0xb1"),
            attempt("tx-f", 1, "SEND", "0xf0"),
        ],
        events: events(),
        nonces: vec![
            row(0, "tx", "tx-a", "CONSUMED"),
            row(1, "tx", "tx-b", "CONSUMED"),
            row(HELD_NONCE, "hold", "hold-c", "CONSUMED"),
            row(3, "tx", "tx-f", "CONSUMED"),
        ],
        lanes: vec![Lane {
            signer: LANE.to_owned(),
            owner: "n1".to_owned(),
            token: 2,
            next_nonce: Some(4),
            paused: None,
        }],
        lane_events: vec![LaneEvent {
            entry: 29,
            signer: LANE.to_owned(),
            kind: "GAP_FILLED".to_owned(),
            at: time_of(29),
            node: "n1".to_owned(),
            token: None,
            data: "{}".to_owned(),
        }],
        chain: chain(),
        wire: vec![Sent {
            at: time_of(3),
            endpoint: "n0/0".to_owned(),
            hash: "0xa0".to_owned(),
            record: OnRecord::Yes,
        }],
        ..Evidence::default()
    }
}

#[test]
fn nothing_is_wrong_with_it() {
    assert_eq!(super::check(&good()), []);
}
