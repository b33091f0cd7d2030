//! Rows to values and back.

use std::time::Duration;

use stile_domain::{
    Address, B256, ChainId, Elsewhere, Hold, HoldId, HoldStatus, Incarnation, Lane, NodeId, Nonce,
};
use tokio_postgres::Row;
use uuid::Uuid;

use crate::{Claim, FencingToken, HeldLane, Owner, RestoreMark, StoreError, Takeover};

/// The columns of a list of lanes, as `unnest` takes them.
pub(super) struct LaneColumns {
    pub(super) chains: Vec<i64>,
    pub(super) signers: Vec<Vec<u8>>,
}

impl LaneColumns {
    pub(super) fn of(lanes: impl IntoIterator<Item = Lane>) -> Self {
        let (chains, signers) =
            lanes.into_iter().map(|lane| (chain(lane), lane.signer.to_vec())).unzip();
        Self { chains, signers }
    }
}

/// The columns of a list of claims.
pub(super) struct ClaimColumns {
    pub(super) lanes: LaneColumns,
    pub(super) incarnations: Vec<Uuid>,
    pub(super) tokens: Vec<i64>,
}

impl ClaimColumns {
    pub(super) fn of<'c>(claims: impl Iterator<Item = &'c Claim> + Clone) -> Self {
        Self {
            lanes: LaneColumns::of(claims.clone().map(|claim| claim.lane)),
            incarnations: claims.clone().map(|claim| claim.incarnation.0).collect(),
            tokens: claims.map(|claim| claim.token.0).collect(),
        }
    }
}

pub(super) fn chain(lane: Lane) -> i64 {
    lane.chain.get().cast_signed()
}

pub(super) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// A column that a constraint keeps in order is out of order.
pub(super) fn broken(column: &str) -> StoreError {
    StoreError::Internal(format!("column {column} holds what its constraint forbids"))
}

pub(super) fn nonce(value: i64) -> Nonce {
    value.unsigned_abs()
}

pub(crate) fn lane(row: &Row) -> Result<Lane, StoreError> {
    let chain: i64 = row.try_get("chain_id")?;
    let signer: &[u8] = row.try_get("signer")?;
    Ok(Lane::new(
        ChainId::new(chain.unsigned_abs()).map_err(|_| broken("chain_id"))?,
        Address::try_from(signer).map_err(|_| broken("signer"))?,
    ))
}

pub(super) fn hold(row: &Row) -> Result<Hold, StoreError> {
    let tx_hash: Option<&[u8]> = row.try_get("tx_hash")?;
    let status: &str = row.try_get("status")?;
    Ok(Hold {
        id: HoldId(row.try_get::<_, Uuid>("owner_id")?),
        lane: lane(row)?,
        nonce: nonce(row.try_get("nonce")?),
        status: status.parse::<HoldStatus>().map_err(|_| broken("status"))?,
        locked_until: row.try_get("locked_until")?,
        tx_hash: tx_hash.map(B256::try_from).transpose().map_err(|_| broken("tx_hash"))?,
        reason: row.try_get("reason")?,
    })
}

pub(super) fn held_lane(row: &Row, incarnation: Incarnation) -> Result<HeldLane, StoreError> {
    let taken: bool = row.try_get("taken")?;
    Ok(HeldLane {
        claim: Claim {
            lane: lane(row)?,
            incarnation,
            token: FencingToken(row.try_get("fencing_token")?),
        },
        expires_at: row.try_get("expires_at")?,
        next_nonce: row.try_get::<_, Option<i64>>("next_nonce")?.map(nonce),
        paused: row.try_get("paused")?,
        elsewhere: elsewhere(row)?,
        takeover: if taken { Takeover::Taken } else { Takeover::Kept },
    })
}

/// Why a lane is not Stile's.
pub(super) fn elsewhere(row: &Row) -> Result<Option<Elsewhere>, StoreError> {
    let text: Option<&str> = row.try_get("elsewhere")?;
    text.map(str::parse).transpose().map_err(|_| broken("elsewhere"))
}

/// Whether commits that concern a lane may be missing.
pub(super) fn restored(row: &Row) -> Result<Option<RestoreMark>, StoreError> {
    let Some(at) = row.try_get("restored_at")? else { return Ok(None) };
    Ok(Some(RestoreMark {
        number: row.try_get::<_, i64>("restored_number")?.unsigned_abs(),
        at,
        from: nonce(row.try_get("restored_from")?),
        to: nonce(row.try_get("restored_to")?),
        begun: row.try_get("restored_begun")?,
        settled_at: row.try_get("restore_settled_at")?,
    }))
}

pub(super) fn owner(row: &Row) -> Result<Owner, StoreError> {
    Ok(Owner {
        node: NodeId(row.try_get("owner_node")?),
        incarnation: Incarnation(row.try_get("owner_incarnation")?),
        url: row.try_get("owner_url")?,
        token: FencingToken(row.try_get("fencing_token")?),
        remaining: Duration::try_from_secs_f64(row.try_get("remaining_secs")?).unwrap_or_default(),
    })
}
