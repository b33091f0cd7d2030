//! Rows of transactions, attempts, events and headers to values and back.

use std::str::FromStr;

use rusqlite::Row;
use rusqlite::types::Type;
use serde::de::DeserializeOwned;
use stile_domain::{
    AttemptKind, B256, Bytes, EventKind, Header, LaneEventKind, NodeId, Outcome, Standing,
    SubState, Timestamp, TxId, TxState,
};
use uuid::Uuid;

use super::rows::{broken, lane, nonce, time};
use crate::tx_columns::{fees_of, finality_of};
use crate::tx_types::read_outcome;
use crate::{
    Attempt, FencingToken, HistoryId, LaneEvent, Offer, OpenAttempt, OpenCost, StoreError,
    StreamPosition, Tx, TxEvent, Wish,
};

/// A value as JSON.
pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String, StoreError> {
    serde_json::to_string(value)
        .map_err(|e| StoreError::Internal(format!("a value cannot be written as JSON: {e}")))
}

fn from_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|_| broken(row, column, Type::Text))
}

fn optional_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
    parsed.map_err(|_| broken(row, column, Type::Text))
}

/// A name from the domain that a constraint keeps in order.
fn name<T: FromStr>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    row.get::<_, String>(column)?.parse().map_err(|_| broken(row, column, Type::Text))
}

pub(super) fn optional_name<T: FromStr>(
    row: &Row<'_>,
    column: &str,
) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    let parsed = text.map(|text| text.parse()).transpose();
    parsed.map_err(|_| broken(row, column, Type::Text))
}

fn hash(row: &Row<'_>, column: &str) -> rusqlite::Result<B256> {
    row.get::<_, [u8; 32]>(column).map(B256::from)
}

fn optional_hash(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<B256>> {
    Ok(row.get::<_, Option<[u8; 32]>>(column)?.map(B256::from))
}

fn number(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    row.get::<_, i64>(column).map(i64::unsigned_abs)
}

fn optional_number(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(i64::unsigned_abs))
}

pub(super) fn optional_time(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    micros.map(|_| time(row, column)).transpose()
}

pub(super) fn tx(row: &Row<'_>) -> rusqlite::Result<Tx> {
    let nonce = row.get::<_, Option<i64>>("nonce")?.map(nonce);
    let finality: String = row.get("finality")?;
    let standing = Standing {
        state: name::<TxState>(row, "state")?,
        sub_state: optional_name::<SubState>(row, "sub_state")?,
        outcome: optional_name::<Outcome>(row, "outcome")?,
        bound: nonce.is_some(),
    };
    let receipt = optional_json(row, "receipt")?;
    let (standing, receipt) = read_outcome(standing, receipt);
    Ok(Tx {
        id: TxId(row.get("tx_id")?),
        tenant: row.get("tenant")?,
        lane: lane(row)?,
        request_id: row.get("request_id")?,
        payload: from_json(row, "payload")?,
        request_hash: hash(row, "request_hash")?,
        finality: finality_of(&finality).ok_or_else(|| broken(row, "finality", Type::Text))?,
        gas_limit: optional_number(row, "gas_limit")?,
        position: number(row, "position")?,
        nonce,
        standing,
        tx_hash: optional_hash(row, "tx_hash")?,
        receipt,
        told: optional_number(row, "told_height")?.zip(optional_hash(row, "told_hash")?),
        rival: optional_json(row, "rival")?,
        wish: optional_json(row, "wish")?,
        replaces: row.get::<_, Option<Uuid>>("replaces")?.map(TxId),
        replaced_by: row.get::<_, Option<Uuid>>("replaced_by")?.map(TxId),
        error: row.get("error")?,
        events: row.get("events")?,
        sends: row.get("sends")?,
        created_at: time(row, "created_at")?,
        updated_at: time(row, "updated_at")?,
        first_submit_at: optional_time(row, "first_submit_at")?,
        last_submit_at: optional_time(row, "last_submit_at")?,
        next_resubmit_at: optional_time(row, "next_resubmit_at")?,
        last_receipt_check_at: optional_time(row, "last_receipt_check_at")?,
        confirmed_at: optional_time(row, "confirmed_at")?,
    })
}

pub(super) fn attempt(row: &Row<'_>) -> rusqlite::Result<Attempt> {
    let fees: serde_json::Value = from_json(row, "fees")?;
    Ok(Attempt {
        number: row.get("number")?,
        kind: name::<AttemptKind>(row, "kind")?,
        hash: hash(row, "hash")?,
        raw: Bytes::from(row.get::<_, Vec<u8>>("raw")?),
        fees: fees_of(&fees).ok_or_else(|| broken(row, "fees", Type::Text))?,
        gas_limit: number(row, "gas_limit")?,
        fencing_token: FencingToken(row.get("fencing_token")?),
        created_at: time(row, "created_at")?,
        last_sent_at: optional_time(row, "last_sent_at")?,
        sends: row.get("sends")?,
        said: optional_json(row, "said")?,
    })
}

pub(super) fn open_cost(row: &Row<'_>) -> rusqlite::Result<OpenCost> {
    let fees: Option<serde_json::Value> = optional_json(row, "fees")?;
    let offered = (row.get::<_, Option<String>>("kind")?, fees, row.get("offered_gas")?);
    Ok(OpenCost {
        id: TxId(row.get("tx_id")?),
        lane: lane(row)?,
        payload: from_json(row, "payload")?,
        gas_limit: optional_number(row, "gas_limit")?,
        offer: match offered {
            (Some(kind), Some(fees), Some(gas)) => {
                let offer = Offer::of(&kind, &fees, gas);
                Some(offer.ok_or_else(|| broken(row, "fees", Type::Text))?)
            }
            _ => None,
        },
    })
}

pub(super) fn open_attempt(row: &Row<'_>) -> rusqlite::Result<OpenAttempt> {
    Ok(OpenAttempt {
        kind: name::<AttemptKind>(row, "kind")?,
        hash: hash(row, "hash")?,
        raw: Bytes::from(row.get::<_, Vec<u8>>("raw")?),
    })
}

pub(super) fn wish(row: &Row<'_>) -> rusqlite::Result<(TxId, Wish)> {
    Ok((TxId(row.get("tx_id")?), from_json(row, "wish")?))
}

/// A place in the stream: there is one writer, so its own number is all there is to it.
fn place(row: &Row<'_>) -> rusqlite::Result<StreamPosition> {
    let history = row.get::<_, Option<i64>>("here")?.map(HistoryId);
    Ok(StreamPosition { transaction: 0, entry: row.get("entry")?, history })
}

pub(super) fn lane_event(row: &Row<'_>) -> rusqlite::Result<LaneEvent> {
    Ok(LaneEvent {
        position: place(row)?,
        lane: lane(row)?,
        kind: name::<LaneEventKind>(row, "kind")?,
        at: time(row, "at")?,
        node: NodeId(row.get("node_id")?),
        fencing_token: row.get::<_, Option<i64>>("fencing_token")?.map(FencingToken),
        data: from_json(row, "data")?,
    })
}

pub(super) fn event(row: &Row<'_>) -> rusqlite::Result<TxEvent> {
    Ok(TxEvent {
        position: place(row)?,
        tx: TxId(row.get("tx_id")?),
        tenant: row.get("tenant")?,
        lane: lane(row)?,
        seq: row.get("seq")?,
        kind: name::<EventKind>(row, "kind")?,
        state: name::<TxState>(row, "state")?,
        sub_state: optional_name::<SubState>(row, "sub_state")?,
        at: time(row, "at")?,
        node: NodeId(row.get("node_id")?),
        fencing_token: row.get::<_, Option<i64>>("fencing_token")?.map(FencingToken),
        data: from_json(row, "data")?,
    })
}

pub(super) fn header(row: &Row<'_>) -> rusqlite::Result<Header> {
    Ok(Header {
        height: number(row, "height")?,
        hash: hash(row, "hash")?,
        parent: hash(row, "parent")?,
    })
}
