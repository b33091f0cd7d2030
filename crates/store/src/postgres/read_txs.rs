//! Reads of transactions.

use std::collections::HashMap;

use stile_domain::{B256, ChainId, Lane, Nonce, TxId, TxState};
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::rows::{self, LaneColumns};
use super::session::Sessions;
use super::tx_rows;
use crate::in_flight::{self, Candidate};
use crate::{
    Attempt, InFlightFrom, InFlightPage, LedgerOwner, NonceOwner, OpenCost, OpenTx, PageLimit,
    StoreError, Tx, TxEvent, TxFilter, TxPage,
};

fn uuids(ids: &[TxId]) -> Vec<Uuid> {
    ids.iter().map(|id| id.0).collect()
}

fn in_order(ids: &[TxId], found: &HashMap<TxId, Tx>) -> Vec<Option<Tx>> {
    ids.iter().map(|id| found.get(id).cloned()).collect()
}

pub(super) async fn txs(sessions: &Sessions, ids: &[TxId]) -> Result<Vec<Option<Tx>>, StoreError> {
    let found =
        sessions.read(include_str!("sql/txs.sql"), &[(&uuids(ids), Type::UUID_ARRAY)]).await?;
    Ok(in_order(ids, &tx_rows::by_id(&found)?))
}

pub(super) async fn read_back(
    sessions: &Sessions,
    lane: Lane,
    ids: &[TxId],
) -> Result<Vec<Option<Tx>>, StoreError> {
    sessions
        .within(StoreError::Unavailable, async {
            // Whoever is still committing has the lane's row locked; this waits for the end of it.
            let (transaction, _) = sessions
                .begin(
                    "SELECT 1 FROM lane WHERE chain_id = $1 AND signer = $2 FOR UPDATE",
                    &[&rows::chain(lane), &lane.signer.as_slice()],
                )
                .await?;
            let found = transaction
                .query_anew(include_str!("sql/txs.sql"), &[(&uuids(ids), Type::UUID_ARRAY)])
                .await?;
            let found = tx_rows::by_id(&found)?;
            transaction.rollback().await?;
            let found = found.into_iter().filter(|(_, tx)| tx.lane == lane).collect();
            Ok(in_order(ids, &found))
        })
        .await
}

/// What is not confirmed is little beside the history, and has indexes of its own. The condition
/// names one of them, and the tenant is compared in a way that no other index answers: a plan that
/// hopes to meet such a transaction soon on the way through the history would read all of it.
fn narrowed(sql: &str, filter: &TxFilter) -> String {
    let phase = match filter.state {
        None | Some(TxState::Confirmed) => return sql.to_owned(),
        Some(TxState::Created) => "t.phase = 'WAITING'",
        Some(TxState::Allocated | TxState::Submitted | TxState::Tracking) => "t.phase = 'OPEN'",
        Some(TxState::Failed) => {
            "((t.phase = 'DONE' AND t.done_block IS NULL) OR t.rival_block IS NOT NULL)"
        }
    };
    sql.replace("t.tenant = $1", &format!("t.tenant || '' = $1 AND {phase}"))
}

pub(super) async fn tx_page(sessions: &Sessions, filter: &TxFilter) -> Result<TxPage, StoreError> {
    let before = filter.before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let state = filter.state.map(|state| state.name());
    let limit = i64::from(filter.limit) + 1;
    let columns = LaneColumns::of(filter.lanes.iter().flatten().copied());
    let params: [(&(dyn ToSql + Sync), Type); 6] = [
        (&filter.tenant, Type::TEXT),
        (&before, Type::INT8),
        (&state, Type::TEXT),
        (&limit, Type::INT8),
        (&columns.chains, Type::INT8_ARRAY),
        (&columns.signers, Type::BYTEA_ARRAY),
    ];
    let found = match filter.lanes {
        None => {
            sessions.read(&narrowed(include_str!("sql/tx_page.sql"), filter), &params[..4]).await?
        }
        Some(_) => {
            let sql = narrowed(include_str!("sql/tx_page_of_lanes.sql"), filter);
            sessions.read(&sql, &params).await?
        }
    };
    let txs = found.iter().map(tx_rows::tx).collect::<Result<_, _>>()?;
    Ok(TxPage::cut(txs, filter.limit))
}

pub(super) async fn history(sessions: &Sessions, tx: TxId) -> Result<Vec<TxEvent>, StoreError> {
    let found = sessions.read(include_str!("sql/history.sql"), &[(&tx.0, Type::UUID)]).await?;
    found.iter().map(tx_rows::event).collect()
}

pub(super) async fn attempts(sessions: &Sessions, tx: TxId) -> Result<Vec<Attempt>, StoreError> {
    let found = sessions.read(include_str!("sql/attempts.sql"), &[(&tx.0, Type::UUID)]).await?;
    found.iter().map(tx_rows::attempt).collect()
}

pub(super) async fn lanes_with_waiting(
    sessions: &Sessions,
    lanes: &[Lane],
) -> Result<Vec<Lane>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let found = sessions
        .read(
            include_str!("sql/lanes_with_waiting.sql"),
            &[(&columns.chains, Type::INT8_ARRAY), (&columns.signers, Type::BYTEA_ARRAY)],
        )
        .await?;
    found.iter().map(rows::lane).collect()
}

pub(super) async fn waiting(
    sessions: &Sessions,
    lane: Lane,
    limit: u32,
) -> Result<Vec<Tx>, StoreError> {
    let found = sessions
        .read(
            include_str!("sql/waiting.sql"),
            &[
                (&rows::chain(lane), Type::INT8),
                (&lane.signer.as_slice(), Type::BYTEA),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found.iter().map(tx_rows::tx).collect()
}

pub(super) async fn unestimated(
    sessions: &Sessions,
    lanes: &[Lane],
    limit: u32,
) -> Result<Vec<Tx>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied());
    let found = sessions
        .read(
            include_str!("sql/unestimated.sql"),
            &[
                (&columns.chains, Type::INT8_ARRAY),
                (&columns.signers, Type::BYTEA_ARRAY),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found.iter().map(tx_rows::tx).collect()
}

pub(super) async fn open_costs(
    sessions: &Sessions,
    from: &[InFlightFrom],
    limit: u32,
) -> Result<Vec<OpenCost>, StoreError> {
    if from.is_empty() {
        return Ok(Vec::new());
    }
    let columns = LaneColumns::of(from.iter().map(|from| from.lane));
    let nonces: Vec<i64> =
        from.iter().map(|from| i64::try_from(from.nonce).unwrap_or(i64::MAX)).collect();
    let found = sessions
        .read(
            include_str!("sql/open_costs.sql"),
            &[
                (&columns.chains, Type::INT8_ARRAY),
                (&columns.signers, Type::BYTEA_ARRAY),
                (&nonces, Type::INT8_ARRAY),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found.iter().map(tx_rows::open_cost).collect()
}

pub(super) async fn in_flight_page(
    sessions: &Sessions,
    from: &[InFlightFrom],
    limit: PageLimit,
) -> Result<InFlightPage, StoreError> {
    if from.is_empty() {
        return Ok(InFlightPage::default());
    }
    let per_lane = in_flight::candidates_per_lane(from.len(), limit);
    let columns = LaneColumns::of(from.iter().map(|from| from.lane));
    let nonces: Vec<i64> =
        from.iter().map(|from| i64::try_from(from.nonce).unwrap_or(i64::MAX)).collect();
    let found = sessions
        .read(
            include_str!("sql/in_flight_candidates.sql"),
            &[
                (&columns.chains, Type::INT8_ARRAY),
                (&columns.signers, Type::BYTEA_ARRAY),
                (&nonces, Type::INT8_ARRAY),
                (&i64::try_from(per_lane).unwrap_or(i64::MAX), Type::INT8),
            ],
        )
        .await?;
    let candidates = found.iter().map(|row| {
        Ok(Candidate {
            lane: rows::lane(row)?,
            nonce: rows::nonce(row.try_get("nonce")?),
            id: TxId(row.try_get("tx_id")?),
            raw_bytes: row.try_get::<_, i64>("raw_bytes")?.unsigned_abs(),
        })
    });
    let candidates = candidates.collect::<Result<Vec<_>, StoreError>>()?;
    let cut = in_flight::cut(from, per_lane, candidates, limit);
    if cut.ids.is_empty() {
        return Ok(cut.page(Vec::new()));
    }
    let found = sessions
        .read(include_str!("sql/in_flight.sql"), &[(&uuids(&cut.ids), Type::UUID_ARRAY)])
        .await?;
    let txs = found.iter().map(tx_rows::open_tx).collect::<Result<_, _>>()?;
    Ok(cut.page(txs))
}

pub(super) async fn done_between(
    sessions: &Sessions,
    chain: ChainId,
    lanes: &[Lane],
    above: u64,
    up_to: u64,
) -> Result<Vec<OpenTx>, StoreError> {
    let columns = LaneColumns::of(lanes.iter().copied().filter(|lane| lane.chain == chain));
    let found = sessions
        .read(
            include_str!("sql/done_between.sql"),
            &[
                (&chain.get().cast_signed(), Type::INT8),
                (&columns.signers, Type::BYTEA_ARRAY),
                (&above.cast_signed(), Type::INT8),
                (&up_to.cast_signed(), Type::INT8),
            ],
        )
        .await?;
    found.iter().map(tx_rows::open_tx).collect()
}

pub(super) async fn with_attempts(
    sessions: &Sessions,
    ids: &[TxId],
) -> Result<Vec<OpenTx>, StoreError> {
    let found = sessions
        .read(include_str!("sql/with_attempts.sql"), &[(&uuids(ids), Type::UUID_ARRAY)])
        .await?;
    found.iter().map(tx_rows::open_tx).collect()
}

pub(super) async fn txs_of_attempts(
    sessions: &Sessions,
    hashes: &[B256],
) -> Result<Vec<Option<TxId>>, StoreError> {
    let wanted: Vec<&[u8]> = hashes.iter().map(|hash| hash.as_slice()).collect();
    let found = sessions
        .read(include_str!("sql/txs_of_attempts.sql"), &[(&wanted, Type::BYTEA_ARRAY)])
        .await?;
    let mut owners: HashMap<B256, TxId> = HashMap::with_capacity(found.len());
    for row in &found {
        owners.insert(tx_rows::hash(row, "hash")?, TxId(row.try_get("tx_id")?));
    }
    Ok(hashes.iter().map(|hash| owners.get(hash).copied()).collect())
}

pub(super) async fn nonce_owners(
    sessions: &Sessions,
    lane: Lane,
    from: Nonce,
    limit: u32,
) -> Result<Vec<NonceOwner>, StoreError> {
    let from = i64::try_from(from).unwrap_or(i64::MAX);
    let found = sessions
        .read(
            include_str!("sql/nonce_owners.sql"),
            &[
                (&rows::chain(lane), Type::INT8),
                (&lane.signer.as_slice(), Type::BYTEA),
                (&from, Type::INT8),
                (&i64::from(limit), Type::INT8),
            ],
        )
        .await?;
    found
        .iter()
        .map(|row| {
            let owner = match tx_rows::optional_name::<TxState>(row, "state")? {
                Some(state) => LedgerOwner::Tx(TxId(row.try_get("owner_id")?), state),
                None => LedgerOwner::Hold(rows::hold(row)?),
            };
            Ok(NonceOwner { nonce: rows::nonce(row.try_get("nonce")?), owner })
        })
        .collect()
}
