//! Acceptance: what needs no lease.

use std::collections::HashMap;

use stile_domain::{Elsewhere, EventKind, Lane, NodeId, Standing, Timestamp, TxId};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::gather::Together;
use super::rows;
use super::session::Sessions;
use super::tx_rows::{self, NewTxColumns};
use crate::{Acceptance, NewTx, StoreError, Tx};

/// How often a request id that is taken, and then free when it is looked up, is tried again.
const ROUNDS: usize = 5;

/// Acceptance by this node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Accept {
    pub(super) node: NodeId,
}

impl Together for Accept {
    type Part = NewTx;
    type Answer = Acceptance;

    fn alone(_: &NewTx) -> Option<Lane> {
        None
    }

    fn rows(_: &NewTx) -> usize {
        1
    }

    async fn run(&self, sessions: &Sessions, txs: &[NewTx]) -> Result<Vec<Acceptance>, StoreError> {
        accept(sessions, &self.node, txs).await
    }
}

async fn accept(
    sessions: &Sessions,
    node: &NodeId,
    txs: &[NewTx],
) -> Result<Vec<Acceptance>, StoreError> {
    check_places(sessions, txs).await?;
    let mut answers: Vec<Option<Acceptance>> = vec![None; txs.len()];
    for round in 0..ROUNDS {
        let open: Vec<usize> = (0..txs.len()).filter(|place| answers[*place].is_none()).collect();
        if open.is_empty() {
            break;
        }
        // Earlier rounds are committed, so from the second one on a failure leaves the fate of the
        // whole call to be asked for again.
        let unknown = |error: StoreError| match round {
            0 => error,
            _ => StoreError::CommitUnknown(error.to_string()),
        };
        let Inserted { mut accepted, elsewhere } =
            insert(sessions, node, txs, &open).await.map_err(unknown)?;
        for place in &open {
            // Two of the list may bear one name: the first is the one that was written.
            if let Some((position, at)) = accepted.remove(&txs[*place].id) {
                answers[*place] = Some(Acceptance::New(txs[*place].accepted(position, at)));
            }
        }
        let rest: Vec<usize> = open.into_iter().filter(|place| answers[*place].is_none()).collect();
        if rest.is_empty() {
            break;
        }
        let found = accepted_before(sessions, txs, &rest)
            .await
            .map_err(|error| StoreError::CommitUnknown(error.to_string()))?;
        for (place, tx) in found {
            answers[place] = Some(Acceptance::Existing(tx));
        }
        // What was accepted before is answered as before, whosever the lane is now.
        for place in rest {
            let why = elsewhere.get(&txs[place].lane).copied();
            answers[place] = answers[place].take().or(why.map(Acceptance::Elsewhere));
        }
    }
    let gone = || StoreError::CommitUnknown("a request id is taken and then free again".into());
    answers.into_iter().map(|answer| answer.ok_or_else(gone)).collect()
}

/// Fails if one of these is to be made in the place of a transaction that has a successor already.
/// Asked before, because afterwards it could not be told from a request id that is taken.
async fn check_places(sessions: &Sessions, txs: &[NewTx]) -> Result<(), StoreError> {
    let (ids, replaced): (Vec<Uuid>, Vec<Uuid>) =
        txs.iter().filter_map(|tx| Some((tx.id.0, tx.replaces?.0))).unzip();
    if ids.is_empty() {
        return Ok(());
    }
    let taken = sessions
        .read(
            include_str!("sql/replaced_before.sql"),
            &[(&ids, Type::UUID_ARRAY), (&replaced, Type::UUID_ARRAY)],
        )
        .await?;
    match taken.first() {
        None => Ok(()),
        Some(row) => {
            let replaced: Uuid = row.try_get("replaces")?;
            Err(StoreError::Constraint(format!("{replaced} has a successor already")))
        }
    }
}

/// What an insertion came to.
struct Inserted {
    /// The position and time of what was written.
    accepted: HashMap<TxId, (u64, Timestamp)>,
    /// The lanes that are not Stile's, for which nothing was.
    elsewhere: HashMap<Lane, Elsewhere>,
}

/// Inserts what can be.
async fn insert(
    sessions: &Sessions,
    node: &NodeId,
    txs: &[NewTx],
    places: &[usize],
) -> Result<Inserted, StoreError> {
    let columns = NewTxColumns::of(places.iter().map(|place| &txs[*place]));
    let rows = sessions
        .write(
            include_str!("sql/accept.sql"),
            &[
                &columns.ids,
                &columns.tenants,
                &columns.chains,
                &columns.signers,
                &columns.request_ids,
                &columns.request_hashes,
                &columns.payloads,
                &columns.finalities,
                &columns.gas_limits,
                &columns.replaces,
                &Standing::CREATED.state.name(),
                &Standing::CREATED.sub_state.map(|sub_state| sub_state.name()),
                &EventKind::Accepted.name(),
                &node.0,
            ],
        )
        .await?;
    let mut inserted = Inserted { accepted: HashMap::new(), elsewhere: HashMap::new() };
    for row in &rows {
        if let Some(elsewhere) = rows::elsewhere(row)? {
            inserted.elsewhere.insert(rows::lane(row)?, elsewhere);
        } else {
            let written = (tx_rows::position(row)?, row.try_get("created_at")?);
            inserted.accepted.insert(TxId(row.try_get("tx_id")?), written);
        }
    }
    Ok(inserted)
}

/// What stood in the way. Read by a statement of its own: the one that met it may have begun
/// before it was committed, and so cannot see it.
async fn accepted_before(
    sessions: &Sessions,
    txs: &[NewTx],
    places: &[usize],
) -> Result<HashMap<usize, Tx>, StoreError> {
    let columns = NewTxColumns::of(places.iter().map(|place| &txs[*place]));
    let rows = sessions
        .read(
            include_str!("sql/txs_accepted_before.sql"),
            &[
                (&columns.ids, Type::UUID_ARRAY),
                (&columns.tenants, Type::TEXT_ARRAY),
                (&columns.chains, Type::INT8_ARRAY),
                (&columns.signers, Type::BYTEA_ARRAY),
                (&columns.request_ids, Type::TEXT_ARRAY),
            ],
        )
        .await?;
    // Sorted so that the same request, where both are found, comes last and counts.
    rows.iter()
        .map(|row| {
            let place = row.try_get::<_, i64>("place")?.unsigned_abs() as usize - 1;
            Ok((places[place], tx_rows::tx(row)?))
        })
        .collect()
}
