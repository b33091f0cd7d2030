//! Which lanes are Stile's.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Row, params};
use stile_domain::{ChainId, Elsewhere, Lane, LaneEventKind, LaneOwner, NodeId, Percent, Rollout};

use super::rows;
use super::stream::LaneEntry;
use crate::rollout_store::rolled_out_data;
use crate::{OwnerChange, StoreError};

pub(super) fn version(connection: &Connection) -> Result<u64, StoreError> {
    let version: i64 = connection
        .prepare_cached("SELECT version FROM rollout_version")?
        .query_row([], |row| row.get(0))?;
    Ok(version.unsigned_abs())
}

pub(super) fn rollout(connection: &Connection) -> Result<Rollout, StoreError> {
    let mut rollout = Rollout { version: version(connection)?, ..Rollout::default() };
    let mut shares = connection.prepare_cached("SELECT chain_id, percent FROM rollout_share")?;
    for share in shares.query_map([], |row| Ok((chain(row)?, percent(row)?)))? {
        rollout.shares.extend([share?]);
    }
    let mut owners =
        connection.prepare_cached("SELECT chain_id, signer, owner FROM rollout_lane")?;
    for owner in owners.query_map([], |row| Ok((rows::lane(row)?, owner(row)?)))? {
        rollout.owners.extend([owner?]);
    }
    Ok(rollout)
}

fn chain(row: &Row<'_>) -> rusqlite::Result<ChainId> {
    let chain: i64 = row.get("chain_id")?;
    ChainId::new(chain.unsigned_abs()).map_err(|_| rows::broken(row, "chain_id", Type::Integer))
}

fn percent(row: &Row<'_>) -> rusqlite::Result<Percent> {
    Percent::new(row.get("percent")?).map_err(|_| rows::broken(row, "percent", Type::Integer))
}

fn owner(row: &Row<'_>) -> rusqlite::Result<LaneOwner> {
    let text: String = row.get("owner")?;
    text.parse().map_err(|_| rows::broken(row, "owner", Type::Text))
}

/// Why a lane is not Stile's, by the rule.
pub(super) fn elsewhere(
    connection: &Connection,
    lane: Lane,
) -> Result<Option<Elsewhere>, StoreError> {
    let mut rule = Rollout::default();
    rule.owners.extend(listed(connection, lane)?.map(|owner| (lane, owner)));
    let share = connection
        .prepare_cached("SELECT percent FROM rollout_share WHERE chain_id = ?1")?
        .query_row([rows::chain(lane)], percent)
        .optional()?;
    rule.shares.extend(share.map(|share| (lane.chain, share)));
    Ok(rule.elsewhere(lane))
}

fn listed(connection: &Connection, lane: Lane) -> Result<Option<LaneOwner>, StoreError> {
    let sql = "SELECT owner FROM rollout_lane WHERE chain_id = ?1 AND signer = ?2";
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    Ok(connection.prepare_cached(sql)?.query_row(key, owner).optional()?)
}

pub(super) fn set_share(
    connection: &Connection,
    node: &NodeId,
    chain: ChainId,
    percent: Option<Percent>,
) -> Result<Vec<Lane>, StoreError> {
    raise(connection)?;
    let key = chain.get().cast_signed();
    match percent {
        Some(percent) => connection
            .prepare_cached(
                "INSERT INTO rollout_share (chain_id, percent) VALUES (?1, ?2)
                 ON CONFLICT (chain_id) DO UPDATE SET percent = excluded.percent",
            )?
            .execute(params![key, percent.get()])?,
        None => connection
            .prepare_cached("DELETE FROM rollout_share WHERE chain_id = ?1")?
            .execute([key])?,
    };
    let lanes: Vec<Lane> = connection
        .prepare_cached("SELECT chain_id, signer FROM lane WHERE chain_id = ?1 ORDER BY signer")?
        .query_map([key], rows::lane)?
        .collect::<Result<_, _>>()?;
    apply(connection, node, &lanes)
}

pub(super) fn set_owner(
    connection: &Connection,
    node: &NodeId,
    lanes: &[Lane],
    from: &[Option<LaneOwner>],
    to: LaneOwner,
) -> Result<Vec<OwnerChange>, StoreError> {
    raise(connection)?;
    let changes = lanes.iter().map(|lane| change(connection, *lane, from, to));
    let changes = changes.collect::<Result<_, _>>()?;
    apply(connection, node, lanes)?;
    Ok(changes)
}

fn change(
    connection: &Connection,
    lane: Lane,
    from: &[Option<LaneOwner>],
    to: LaneOwner,
) -> Result<OwnerChange, StoreError> {
    let key = params![rows::chain(lane), lane.signer.as_slice()];
    let owner = listed(connection, lane)?;
    let started: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM lane
                            WHERE chain_id = ?1 AND signer = ?2 AND next_nonce IS NOT NULL)",
        )?
        .query_row(key, |row| row.get(0))?;
    if !from.contains(&owner) {
        return Ok(match owner {
            None if started => OwnerChange::Started,
            owner => OwnerChange::Was(owner),
        });
    }
    if to == LaneOwner::V1 && owner.is_none() && started {
        return Ok(OwnerChange::Started);
    }
    connection
        .prepare_cached(
            "INSERT INTO rollout_lane (chain_id, signer, owner, updated_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (chain_id, signer)
                 DO UPDATE SET owner = excluded.owner, updated_at = excluded.updated_at",
        )?
        .execute(params![
            rows::chain(lane),
            lane.signer.as_slice(),
            to.name(),
            rows::now(connection)?
        ])?;
    Ok(OwnerChange::Done)
}

fn raise(connection: &Connection) -> Result<(), StoreError> {
    connection.prepare_cached("UPDATE rollout_version SET version = version + 1")?.execute([])?;
    Ok(())
}

/// Writes what the rule says into these lanes' rows, and raises their tokens, so that plans in memory
/// die. Answers with those that changed.
fn apply(connection: &Connection, node: &NodeId, lanes: &[Lane]) -> Result<Vec<Lane>, StoreError> {
    let now = rows::now(connection)?;
    let mut changed = Vec::new();
    for lane in lanes.iter().copied() {
        let elsewhere = elsewhere(connection, lane)?;
        let written = connection
            .prepare_cached(
                "UPDATE lane SET elsewhere = ?3, fencing_token = fencing_token + 1, updated_at = ?4
                 WHERE chain_id = ?1 AND signer = ?2 AND elsewhere IS NOT ?3",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                elsewhere.map(Elsewhere::name),
                now
            ])?;
        if written == 1 {
            let (kind, data) = (LaneEventKind::RolledOut, rolled_out_data(elsewhere));
            LaneEntry { lane, kind, node, token: None, data: &data, now }.write(connection)?;
            changed.push(lane);
        }
    }
    Ok(changed)
}
