//! Transactions that get their nonces.
//!
//! Three round trips: the fence; what can be lost, which decides for each lane (`contest`); what
//! cannot, with the commit.

mod contest;
mod items;

use std::collections::HashMap;
use std::time::Duration;

use stile_domain::{Lane, NodeId, Timestamp, TxId};
use tokio_postgres::types::Json;

use super::fence::{FenceResult, Fenced, fence};
use super::lane_work::{Answers, Attempt, LaneWork};
use super::session::{Sessions, Statement};
use crate::tx_columns::fees_json;
use crate::{Advance, StoreError, Tx, TxBinding};
use items::{BoundColumns, EventColumns, Item};

/// Planned transactions, by this node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BindTxs {
    pub(super) node: NodeId,
    pub(super) lease: Duration,
}

impl LaneWork for BindTxs {
    type Part = TxBinding;
    type Answer = Vec<Tx>;

    fn lane(part: &TxBinding) -> Lane {
        part.claim.lane
    }

    fn rows(part: &TxBinding) -> usize {
        part.txs.len()
    }

    async fn attempt(
        &self,
        sessions: &Sessions,
        bindings: &[&TxBinding],
    ) -> Result<Attempt<Vec<Tx>>, StoreError> {
        let claims: Vec<_> = bindings
            .iter()
            .map(|b| (b.claim, Some(Advance { first: b.plan.first, count: b.plan.fresh })))
            .collect();
        let FenceResult { fenced, refused } = fence(sessions, &claims, self.lease).await?;
        let mut answers: Answers<Vec<Tx>> =
            refused.into_iter().map(|(lane, refusal)| (lane, Err(refusal))).collect();
        let Some(now) = fenced.time() else {
            fenced.into_transaction().rollback().await?;
            return Ok(Attempt::Committed(answers));
        };
        let passed: Vec<&TxBinding> =
            bindings.iter().copied().filter(|b| fenced.claim(b.claim.lane).is_some()).collect();
        let items = Item::of(&passed, now)?;
        let lost = fenced.refused_as_restored(&passed).await?;
        if !lost.is_empty() {
            fenced.into_transaction().rollback().await?;
            return Ok(Attempt::Lost(lost));
        }
        let contest = fenced.contest(&passed, &items, now).await?;
        let mut bound = match contest.settle(&items, now)? {
            Ok(bound) => bound,
            Err(lost) => {
                fenced.into_transaction().rollback().await?;
                return Ok(Attempt::Lost(lost));
            }
        };
        fenced.write_and_commit(&items, &bound, now, &self.node).await?;
        for binding in passed {
            let txs = binding.txs.iter().filter_map(|tx| bound.remove(&tx.id())).collect();
            answers.insert(binding.claim.lane, Ok(txs));
        }
        Ok(Attempt::Committed(answers))
    }
}

impl Fenced {
    /// Writes what nobody contests, fresh nonces, attempts and history, and commits everything.
    async fn write_and_commit(
        self,
        items: &[Item<'_>],
        bound: &HashMap<TxId, Tx>,
        now: Timestamp,
        node: &NodeId,
    ) -> Result<(), StoreError> {
        let fresh = BoundColumns::of(items.iter().filter(|item| item.previous.is_none()));
        let nonces: Statement<'_> = (
            include_str!("../sql/insert_tx_nonces.sql"),
            &[
                &fresh.lanes.chains,
                &fresh.lanes.signers,
                &fresh.nonces,
                &fresh.ids,
                &fresh.hashes,
                &fresh.tokens,
                &now,
            ],
        );
        let all = BoundColumns::of(items.iter());
        let raws: Vec<&[u8]> = items.iter().map(|item| &item.tx.attempt.raw[..]).collect();
        let fees: Vec<_> =
            items.iter().map(|item| Json(fees_json(&item.tx.attempt.fees))).collect();
        let gas_limits: Vec<i64> =
            items.iter().map(|item| item.tx.attempt.gas_limit.cast_signed()).collect();
        let kinds: Vec<&str> = items.iter().map(|item| item.tx.attempt.kind.name()).collect();
        let attempts: Statement<'_> = (
            include_str!("../sql/insert_attempts.sql"),
            &[&all.ids, &all.hashes, &raws, &fees, &gas_limits, &all.tokens, &kinds, &now],
        );
        let told = EventColumns::of(items, bound);
        let events: Statement<'_> = (
            include_str!("../sql/insert_events.sql"),
            &[
                &told.ids,
                &told.seqs,
                &told.tenants,
                &told.lanes.chains,
                &told.lanes.signers,
                &told.kinds,
                &told.states,
                &told.sub_states,
                &told.tokens,
                &told.data,
                &now,
                &node.0,
            ],
        );
        let statements = [nonces, attempts, events];
        let needed = if fresh.ids.is_empty() { &statements[1..] } else { &statements[..] };
        self.into_transaction().execute_all_and_commit(needed).await
    }
}
