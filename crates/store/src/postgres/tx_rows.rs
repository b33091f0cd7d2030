//! Rows of transactions, attempts, events and headers to values and back.

use std::collections::HashMap;

use stile_domain::{
    AttemptKind, B256, Bytes, EventKind, Header, NodeId, Outcome, Payload, Receipt, Rival,
    Standing, SubState, TxId, TxState,
};
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::rows::{broken, lane, nonce};
use crate::tx_columns::{fees_of, finality_of, finality_text};
use crate::tx_types::read_outcome;
use crate::{
    Attempt, FencingToken, HistoryId, NewTx, Offer, OpenAttempt, OpenCost, OpenTx, StoreError,
    StreamPosition, Tx, TxEvent, Wish,
};

/// The columns of a list of new transactions, as `unnest` takes them.
pub(super) struct NewTxColumns<'t> {
    pub(super) ids: Vec<Uuid>,
    pub(super) tenants: Vec<&'t str>,
    pub(super) chains: Vec<i64>,
    pub(super) signers: Vec<&'t [u8]>,
    pub(super) request_ids: Vec<Option<&'t str>>,
    pub(super) request_hashes: Vec<&'t [u8]>,
    pub(super) payloads: Vec<Json<&'t Payload>>,
    pub(super) finalities: Vec<String>,
    pub(super) gas_limits: Vec<Option<i64>>,
    pub(super) replaces: Vec<Option<Uuid>>,
}

impl<'t> NewTxColumns<'t> {
    pub(super) fn of(txs: impl Iterator<Item = &'t NewTx> + Clone) -> Self {
        Self {
            ids: txs.clone().map(|tx| tx.id.0).collect(),
            tenants: txs.clone().map(|tx| tx.tenant.as_str()).collect(),
            chains: txs.clone().map(|tx| super::rows::chain(tx.lane)).collect(),
            signers: txs.clone().map(|tx| tx.lane.signer.as_slice()).collect(),
            request_ids: txs.clone().map(|tx| tx.request_id.as_deref()).collect(),
            request_hashes: txs.clone().map(|tx| tx.request_hash.as_slice()).collect(),
            payloads: txs.clone().map(|tx| Json(&tx.payload)).collect(),
            finalities: txs.clone().map(|tx| finality_text(tx.finality)).collect(),
            gas_limits: txs.clone().map(|tx| tx.gas_limit.map(u64::cast_signed)).collect(),
            replaces: txs.map(|tx| tx.replaces.map(|id| id.0)).collect(),
        }
    }
}

/// A name from the domain that a constraint keeps in order.
pub(super) fn name<T: std::str::FromStr>(row: &Row, column: &str) -> Result<T, StoreError> {
    row.try_get::<_, &str>(column)?.parse().map_err(|_| broken(column))
}

pub(super) fn optional_name<T: std::str::FromStr>(
    row: &Row,
    column: &str,
) -> Result<Option<T>, StoreError> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|_| broken(column))).transpose()
}

pub(super) fn hash(row: &Row, column: &str) -> Result<B256, StoreError> {
    B256::try_from(row.try_get::<_, &[u8]>(column)?).map_err(|_| broken(column))
}

fn optional_hash(row: &Row, column: &str) -> Result<Option<B256>, StoreError> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    bytes.map(|bytes| B256::try_from(bytes).map_err(|_| broken(column))).transpose()
}

fn count(row: &Row, column: &str) -> Result<u32, StoreError> {
    Ok(row.try_get::<_, i32>(column)?.unsigned_abs())
}

fn optional_id(row: &Row, column: &str) -> Result<Option<TxId>, StoreError> {
    Ok(row.try_get::<_, Option<Uuid>>(column)?.map(TxId))
}

pub(super) fn position(row: &Row) -> Result<u64, StoreError> {
    Ok(row.try_get::<_, i64>("position")?.unsigned_abs())
}

pub(super) fn tx(row: &Row) -> Result<Tx, StoreError> {
    let nonce = row.try_get::<_, Option<i64>>("nonce")?.map(nonce);
    let finality: &str = row.try_get("finality")?;
    let told_height: Option<i64> = row.try_get("told_height")?;
    let standing = Standing {
        state: name::<TxState>(row, "state")?,
        sub_state: optional_name::<SubState>(row, "sub_state")?,
        outcome: optional_name::<Outcome>(row, "outcome")?,
        bound: nonce.is_some(),
    };
    let receipt = row.try_get::<_, Option<Json<Receipt>>>("receipt")?.map(|json| json.0);
    let (standing, receipt) = read_outcome(standing, receipt);
    Ok(Tx {
        id: TxId(row.try_get("tx_id")?),
        tenant: row.try_get("tenant")?,
        lane: lane(row)?,
        request_id: row.try_get("request_id")?,
        payload: row.try_get::<_, Json<Payload>>("payload")?.0,
        request_hash: hash(row, "request_hash")?,
        finality: finality_of(finality).ok_or_else(|| broken("finality"))?,
        gas_limit: row.try_get::<_, Option<i64>>("gas_limit")?.map(i64::unsigned_abs),
        position: position(row)?,
        nonce,
        standing,
        tx_hash: optional_hash(row, "tx_hash")?,
        receipt,
        told: told_height.map(i64::unsigned_abs).zip(optional_hash(row, "told_hash")?),
        rival: row.try_get::<_, Option<Json<Rival>>>("rival")?.map(|json| json.0),
        wish: row.try_get::<_, Option<Json<Wish>>>("wish")?.map(|json| json.0),
        replaces: optional_id(row, "replaces")?,
        replaced_by: optional_id(row, "replaced_by")?,
        error: row.try_get("error")?,
        events: count(row, "events")?,
        sends: count(row, "sends")?,
        created_at: row.try_get("created_at")?,
        updated_at: row.try_get("updated_at")?,
        first_submit_at: row.try_get("first_submit_at")?,
        last_submit_at: row.try_get("last_submit_at")?,
        next_resubmit_at: row.try_get("next_resubmit_at")?,
        last_receipt_check_at: row.try_get("last_receipt_check_at")?,
        confirmed_at: row.try_get("confirmed_at")?,
    })
}

pub(super) fn by_id(rows: &[Row]) -> Result<HashMap<TxId, Tx>, StoreError> {
    rows.iter().map(|row| tx(row).map(|tx| (tx.id, tx))).collect()
}

pub(super) fn open_tx(row: &Row) -> Result<OpenTx, StoreError> {
    // An empty list of attempts comes back as no list.
    let kinds: Option<Vec<&str>> = row.try_get("kinds")?;
    let hashes: Option<Vec<&[u8]>> = row.try_get("hashes")?;
    let raws: Option<Vec<&[u8]>> = row.try_get("raws")?;
    let attempts = kinds.unwrap_or_default().into_iter().zip(hashes.unwrap_or_default());
    let attempts = attempts.zip(raws.unwrap_or_default()).map(|((kind, hash), raw)| {
        Ok(OpenAttempt {
            kind: kind.parse().map_err(|_| broken("kind"))?,
            hash: B256::try_from(hash).map_err(|_| broken("hash"))?,
            raw: Bytes::copy_from_slice(raw),
        })
    });
    Ok(OpenTx {
        tx: tx(row)?,
        attempts: attempts.collect::<Result<_, StoreError>>()?,
        forked: row.try_get("forked")?,
    })
}

pub(super) fn attempt(row: &Row) -> Result<Attempt, StoreError> {
    let fees: serde_json::Value = row.try_get("fees")?;
    Ok(Attempt {
        number: count(row, "number")?,
        kind: name::<AttemptKind>(row, "kind")?,
        hash: hash(row, "hash")?,
        raw: Bytes::copy_from_slice(row.try_get("raw")?),
        fees: fees_of(&fees).ok_or_else(|| broken("fees"))?,
        gas_limit: row.try_get::<_, i64>("gas_limit")?.unsigned_abs(),
        fencing_token: FencingToken(row.try_get("fencing_token")?),
        created_at: row.try_get("created_at")?,
        last_sent_at: row.try_get("last_sent_at")?,
        sends: count(row, "sends")?,
        said: row.try_get("said")?,
    })
}

pub(super) fn open_cost(row: &Row) -> Result<OpenCost, StoreError> {
    let kind: Option<&str> = row.try_get("kind")?;
    let fees: Option<serde_json::Value> = row.try_get("fees")?;
    let offered = (kind, fees, row.try_get::<_, Option<i64>>("offered_gas")?);
    Ok(OpenCost {
        id: TxId(row.try_get("tx_id")?),
        lane: lane(row)?,
        payload: row.try_get::<_, Json<Payload>>("payload")?.0,
        gas_limit: row.try_get::<_, Option<i64>>("gas_limit")?.map(i64::unsigned_abs),
        offer: match offered {
            (Some(kind), Some(fees), Some(gas)) => {
                Some(Offer::of(kind, &fees, gas).ok_or_else(|| broken("fees"))?)
            }
            _ => None,
        },
    })
}

/// A place in the stream, of the history that was being written when it was read.
pub(super) fn place(row: &Row) -> Result<StreamPosition, StoreError> {
    Ok(StreamPosition {
        transaction: row.try_get("transaction")?,
        entry: row.try_get("entry")?,
        history: row.try_get::<_, Option<i64>>("here")?.map(HistoryId),
    })
}

pub(super) fn event(row: &Row) -> Result<TxEvent, StoreError> {
    Ok(TxEvent {
        position: place(row)?,
        tx: TxId(row.try_get("tx_id")?),
        tenant: row.try_get("tenant")?,
        lane: lane(row)?,
        seq: count(row, "seq")?,
        kind: name::<EventKind>(row, "kind")?,
        state: name::<TxState>(row, "state")?,
        sub_state: optional_name::<SubState>(row, "sub_state")?,
        at: row.try_get("at")?,
        node: NodeId(row.try_get("node_id")?),
        fencing_token: row.try_get::<_, Option<i64>>("fencing_token")?.map(FencingToken),
        data: row.try_get("data")?,
    })
}

pub(super) fn header(row: &Row) -> Result<Header, StoreError> {
    Ok(Header {
        height: row.try_get::<_, i64>("height")?.unsigned_abs(),
        hash: hash(row, "hash")?,
        parent: hash(row, "parent")?,
    })
}
