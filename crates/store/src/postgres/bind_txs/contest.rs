//! What a binding can lose: the order of acceptance, released nonces, request ids, transactions
//! that wait.

use std::collections::{HashMap, HashSet};

use stile_domain::{Lane, Nonce, Timestamp, TxId};
use uuid::Uuid;

use super::items::{BoundColumns, Item};
use crate::postgres::fence::Fenced;
use crate::postgres::rows::{self, LaneColumns};
use crate::postgres::session::Statement;
use crate::postgres::tx_rows::{self, NewTxColumns};
use crate::tx_columns::bound_standing;
use crate::{Refusal, StoreError, Tx, TxBinding};

/// What came back of everything that can be lost.
#[derive(Default)]
pub(super) struct Contest {
    /// Lanes on which others wait.
    pub(super) others_wait: HashSet<Lane>,
    /// Released nonces that were still to be had.
    pub(super) reissued: HashSet<(Lane, Nonce)>,
    /// New transactions whose request id was free, with their positions.
    pub(super) accepted: HashMap<TxId, u64>,
    /// Transactions that still waited, as they stand now.
    pub(super) waited: HashMap<TxId, Tx>,
}

impl Contest {
    /// The transactions as they stand now, or the lanes that lost.
    #[allow(clippy::type_complexity, reason = "two maps, either of which may be meant")]
    pub(super) fn settle(
        mut self,
        items: &[Item<'_>],
        now: Timestamp,
    ) -> Result<Result<HashMap<TxId, Tx>, HashMap<Lane, Refusal>>, StoreError> {
        let mut bound = HashMap::with_capacity(items.len());
        let mut lost: HashMap<Lane, Refusal> = HashMap::new();
        for item in items {
            let has_nonce =
                item.previous.is_none() || self.reissued.contains(&(item.lane(), item.nonce));
            let tx = match item.new_tx() {
                Some(new) => match self.accepted.remove(&new.id) {
                    Some(position) => {
                        let (attempt, again) = (&item.tx.attempt, item.resubmit_at);
                        Some(new.bound(position, now, item.nonce, attempt, again)?)
                    }
                    None => None,
                },
                None => self.waited.remove(&item.tx.id()),
            };
            match tx {
                Some(tx) if has_nonce && tx.nonce == Some(item.nonce) => {
                    bound.insert(tx.id, tx);
                }
                _ => {
                    lost.insert(item.lane(), Refusal::RowLost);
                }
            }
        }
        lost.extend(self.others_wait.into_iter().map(|lane| (lane, Refusal::OthersWait)));
        Ok(if lost.is_empty() { Ok(bound) } else { Err(lost) })
    }
}

impl Fenced {
    /// Tries everything that can be lost: the order of acceptance, released nonces, request ids,
    /// transactions that wait.
    pub(super) async fn contest(
        &self,
        bindings: &[&TxBinding],
        items: &[Item<'_>],
        now: Timestamp,
    ) -> Result<Contest, StoreError> {
        let standing = bound_standing()?;
        let state = standing.state.name();
        let sub_state = standing.sub_state.map(|sub_state| sub_state.name());
        let ids: Vec<Uuid> = items.iter().map(|item| item.tx.id().0).collect();

        let with_new = bindings.iter().filter(|binding| binding.has_new());
        let with_new = LaneColumns::of(with_new.map(|binding| binding.claim.lane));
        let reissued = items.iter().filter(|item| item.previous.is_some());
        let previous: Vec<Uuid> =
            reissued.clone().filter_map(|item| item.previous).map(|hold| hold.0).collect();
        let reissued = BoundColumns::of(reissued);
        let new = items.iter().filter(|item| item.new_tx().is_some());
        let new_txs = NewTxColumns::of(new.clone().filter_map(Item::new_tx));
        let new = BoundColumns::of(new);
        let waiting = BoundColumns::of(items.iter().filter(|item| item.new_tx().is_none()));

        let order: Statement<'_> =
            (include_str!("../sql/others_wait.sql"), &[&with_new.chains, &with_new.signers, &ids]);
        let keep: Statement<'_> = (
            include_str!("../sql/keep_past_holds.sql"),
            &[&reissued.lanes.chains, &reissued.lanes.signers, &reissued.nonces, &previous],
        );
        let reissue: Statement<'_> = (
            include_str!("../sql/reissue_to_txs.sql"),
            &[
                &reissued.lanes.chains,
                &reissued.lanes.signers,
                &reissued.nonces,
                &previous,
                &reissued.ids,
                &reissued.hashes,
                &reissued.tokens,
                &now,
            ],
        );
        let insert: Statement<'_> = (
            include_str!("../sql/insert_bound_txs.sql"),
            &[
                &new_txs.ids,
                &new_txs.tenants,
                &new_txs.chains,
                &new_txs.signers,
                &new_txs.request_ids,
                &new_txs.request_hashes,
                &new_txs.payloads,
                &new_txs.finalities,
                &new.gas_limits,
                &new.nonces,
                &new.hashes,
                &new.resubmit_at,
                &new.reissued,
                &new_txs.replaces,
                &state,
                &sub_state,
                &now,
            ],
        );
        let bind: Statement<'_> = (
            include_str!("../sql/bind_waiting_txs.sql"),
            &[
                &waiting.ids,
                &waiting.lanes.chains,
                &waiting.lanes.signers,
                &waiting.nonces,
                &waiting.hashes,
                &waiting.gas_limits,
                &waiting.resubmit_at,
                &waiting.reissued,
                &state,
                &sub_state,
                &now,
            ],
        );
        // Only what there is something for.
        let (any_new, any_reissued, any_waiting) =
            (!new.ids.is_empty(), !reissued.ids.is_empty(), !waiting.ids.is_empty());
        let all = [
            (any_new, order),
            (any_reissued, keep),
            (any_reissued, reissue),
            (any_new, insert),
            (any_waiting, bind),
        ];
        let needed: Vec<Statement<'_>> =
            all.iter().filter(|(needed, _)| *needed).map(|(_, statement)| *statement).collect();
        let mut answers = self.transaction().query_all(&needed).await?.into_iter();
        let mut answer = |needed: bool| {
            if needed { answers.next().unwrap_or_default() } else { Vec::new() }
        };

        let mut contest = Contest::default();
        for row in &answer(any_new) {
            contest.others_wait.insert(rows::lane(row)?);
        }
        answer(any_reissued);
        for row in &answer(any_reissued) {
            contest.reissued.insert((rows::lane(row)?, rows::nonce(row.try_get("nonce")?)));
        }
        for row in &answer(any_new) {
            contest.accepted.insert(TxId(row.try_get("tx_id")?), tx_rows::position(row)?);
        }
        contest.waited = tx_rows::by_id(&answer(any_waiting))?;
        Ok(contest)
    }
}
