//! What callers want of their transactions afterwards: what needs no lease.

use stile_domain::{EventKind, Lane, NodeId, TxId};
use tokio_postgres::types::{Json, Type};

use super::rows::{self, LaneColumns};
use super::session::Sessions;
use super::{read_txs, tx_rows};
use crate::tx_columns::{unwithdrawn, withdrawn_standing};
use crate::{StoreError, Tx, Wish, Withdrawal};

pub(super) async fn withdraw(
    sessions: &Sessions,
    node: &NodeId,
    id: TxId,
) -> Result<Withdrawal, StoreError> {
    let standing = withdrawn_standing()?;
    let changed = sessions
        .write(
            include_str!("sql/withdraw.sql"),
            &[
                &id.0,
                &standing.state.name(),
                &standing.sub_state.map(|sub_state| sub_state.name()),
                &EventKind::Cancelled.name(),
                &node.0,
            ],
        )
        .await?;
    match changed.first() {
        Some(row) => tx_rows::tx(row).map(Withdrawal::Done),
        None => Ok(unwithdrawn(one(sessions, id).await?)),
    }
}

pub(super) async fn wish(
    sessions: &Sessions,
    id: TxId,
    wish: &Wish,
) -> Result<Option<Tx>, StoreError> {
    let changed = sessions.write(include_str!("sql/wish.sql"), &[&id.0, &Json(wish)]).await?;
    match changed.first() {
        Some(row) => tx_rows::tx(row).map(Some),
        None => one(sessions, id).await,
    }
}

async fn one(sessions: &Sessions, id: TxId) -> Result<Option<Tx>, StoreError> {
    Ok(read_txs::txs(sessions, &[id]).await?.into_iter().flatten().next())
}

pub(super) async fn wishes(
    sessions: &Sessions,
    lanes: &[Lane],
) -> Result<Vec<(Lane, TxId, Wish)>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let found = sessions
        .read(
            include_str!("sql/wishes.sql"),
            &[(&columns.chains, Type::INT8_ARRAY), (&columns.signers, Type::BYTEA_ARRAY)],
        )
        .await?;
    found
        .iter()
        .map(|row| {
            let Json(wish) = row.try_get("wish")?;
            Ok((rows::lane(row)?, TxId(row.try_get("tx_id")?), wish))
        })
        .collect()
}
