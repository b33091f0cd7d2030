//! Which lanes are Stile's.

use std::collections::HashMap;

use stile_domain::{ChainId, Lane, LaneEventKind, LaneOwner, NodeId, Percent, Rollout};

use super::rows::{self, LaneColumns};
use super::session::{Sessions, Transaction};
use crate::{OwnerChange, StoreError};

pub(super) async fn version(sessions: &Sessions) -> Result<u64, StoreError> {
    let found = sessions.read_often(include_str!("sql/rollout_version.sql"), &[]).await?;
    let row = found.first().ok_or_else(|| rows::broken("rollout_version"))?;
    Ok(row.try_get::<_, i64>("version")?.unsigned_abs())
}

pub(super) async fn rollout(sessions: &Sessions) -> Result<Rollout, StoreError> {
    // The number first: what is read after it may only be newer, and is then read again.
    let mut rollout = Rollout { version: version(sessions).await?, ..Rollout::default() };
    for row in sessions.read(include_str!("sql/rollout_shares.sql"), &[]).await? {
        let chain: i64 = row.try_get("chain_id")?;
        let chain = ChainId::new(chain.unsigned_abs()).map_err(|_| rows::broken("chain_id"))?;
        let percent = u8::try_from(row.try_get::<_, i16>("percent")?).ok();
        let percent = percent.and_then(|percent| Percent::new(percent).ok());
        rollout.shares.insert(chain, percent.ok_or_else(|| rows::broken("percent"))?);
    }
    for row in sessions.read(include_str!("sql/rollout_lanes.sql"), &[]).await? {
        let owner: &str = row.try_get("owner")?;
        let owner = owner.parse().map_err(|_| rows::broken("owner"))?;
        rollout.owners.insert(rows::lane(&row)?, owner);
    }
    Ok(rollout)
}

pub(super) async fn set_share(
    sessions: &Sessions,
    node: &NodeId,
    chain: ChainId,
    percent: Option<Percent>,
) -> Result<Vec<Lane>, StoreError> {
    let chain = chain.get().cast_signed();
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, _) =
                sessions.begin(include_str!("sql/begin_rollout.sql"), &[]).await?;
            match percent {
                Some(percent) => {
                    let percent = i16::from(percent.get());
                    let sql = include_str!("sql/set_share.sql");
                    transaction.execute(sql, &[&chain, &percent]).await?
                }
                None => {
                    transaction.execute(include_str!("sql/remove_share.sql"), &[&chain]).await?
                }
            };
            let misplaced =
                transaction.query(include_str!("sql/lock_misplaced_lanes.sql"), &[&chain]).await?;
            let misplaced: Vec<Lane> =
                misplaced.iter().map(rows::lane).collect::<Result<_, _>>()?;
            apply_and_commit(transaction, node, &misplaced).await
        })
        .await
}

pub(super) async fn set_owner(
    sessions: &Sessions,
    node: &NodeId,
    lanes: &[Lane],
    from: &[Option<LaneOwner>],
    to: LaneOwner,
) -> Result<Vec<OwnerChange>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let from: Vec<&str> = from.iter().map(|owner| owner.map_or("", LaneOwner::name)).collect();
    sessions
        .within(StoreError::CommitUnknown, async {
            let (transaction, _) =
                sessions.begin(include_str!("sql/begin_rollout.sql"), &[]).await?;
            let key: [&(dyn tokio_postgres::types::ToSql + Sync); 2] =
                [&columns.chains, &columns.signers];
            transaction.query(include_str!("sql/lock_lanes.sql"), &key).await?;
            let found = transaction
                .query(
                    include_str!("sql/set_owner.sql"),
                    &[&columns.chains, &columns.signers, &from, &to.name()],
                )
                .await?;
            let mut changes = HashMap::with_capacity(found.len());
            for row in &found {
                changes.insert(rows::lane(row)?, change(row)?);
            }
            apply_and_commit(transaction, node, lanes).await?;
            let missing = || StoreError::Internal("a lane got no answer".into());
            lanes.iter().map(|lane| changes.remove(lane).ok_or_else(missing)).collect()
        })
        .await
}

fn change(row: &tokio_postgres::Row) -> Result<OwnerChange, StoreError> {
    let owner: Option<&str> = row.try_get("owner")?;
    let owner = owner.map(str::parse).transpose().map_err(|_| rows::broken("owner"))?;
    Ok(match (row.try_get("changed")?, owner, row.try_get("started")?) {
        (true, ..) => OwnerChange::Done,
        (false, None, true) => OwnerChange::Started,
        (false, owner, _) => OwnerChange::Was(owner),
    })
}

/// Writes what the rule says into these lanes' rows; answers with those that changed.
async fn apply_and_commit(
    transaction: Transaction,
    node: &NodeId,
    lanes: &[Lane],
) -> Result<Vec<Lane>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let changed = transaction
        .query_and_commit(
            include_str!("sql/apply_rollout.sql"),
            &[&columns.chains, &columns.signers, &LaneEventKind::RolledOut.name(), &node.0],
        )
        .await?;
    changed.iter().map(rows::lane).collect()
}
