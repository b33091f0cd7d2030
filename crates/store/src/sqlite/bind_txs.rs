//! Transactions that get their nonces.

use std::collections::HashSet;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::{EventKind, NodeId, Nonce, Released, TxId};

use super::accept::{self, Bound};
use super::bind::Stop;
use super::events::Entry;
use super::fence::{Fenced, fence};
use super::rows;
use super::tx_rows::{self, json};
use super::writer::in_savepoint;
use crate::tx_columns::{bound_data, bound_standing, fees_json};
use crate::{Advance, BindTx, Bindable, NewAttempt, Refusal, StoreError, Tx, TxBinding};

/// All of a lane's part or none of it.
pub(super) fn bind(
    connection: &Connection,
    node: &NodeId,
    binding: &TxBinding,
    lease: Duration,
) -> Result<Result<Vec<Tx>, Refusal>, StoreError> {
    let part = in_savepoint(connection, |connection| {
        let advance = Advance { first: binding.plan.first, count: binding.plan.fresh };
        let fenced =
            fence(connection, &binding.claim, Some(advance), lease)?.map_err(Stop::Refused)?;
        fenced.check_restored(binding)?;
        fenced.check_order(binding)?;
        let resubmit_at = binding.resubmit_after.map(|after| fenced.now() + rows::micros(after));
        let released = binding.plan.reissued.iter().map(Some).chain(std::iter::repeat(None));
        let planned = binding.planned().zip(released);
        planned
            .map(|((nonce, tx), released)| {
                // What can be lost comes first, so that it is told from what cannot be right.
                if let Some(old) = released {
                    fenced.reissue_to(old, tx)?;
                }
                let bound = fenced.bind_tx(node, nonce, tx, resubmit_at)?;
                if released.is_none() {
                    fenced.insert_nonce(nonce, tx)?;
                }
                fenced.insert_attempt(tx.id(), &tx.attempt)?;
                Ok(bound)
            })
            .collect::<Result<Vec<Tx>, Stop>>()
    });
    match part {
        Ok(txs) => Ok(Ok(txs)),
        Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Fenced<'_> {
    /// A new transaction may not overtake one that waits and is not bound here as well. What waits
    /// for an estimate of its gas may be overtaken.
    fn check_order(&self, binding: &TxBinding) -> Result<(), Stop> {
        if !binding.has_new() {
            return Ok(());
        }
        let bound: HashSet<TxId> = binding.txs.iter().map(BindTx::id).collect();
        let lane = self.claim().lane;
        let mut statement = self.connection().prepare_cached(
            "SELECT tx_id FROM tx
             WHERE chain_id = ?1 AND signer = ?2 AND state = 'CREATED'
               AND sub_state IS NOT 'ESTIMATING'
             ORDER BY position",
        )?;
        let mut waiting = statement.query(params![rows::chain(lane), lane.signer.as_slice()])?;
        while let Some(row) = waiting.next()? {
            if !bound.contains(&TxId(row.get("tx_id")?)) {
                return Err(Stop::Refused(Refusal::OthersWait));
            }
        }
        Ok(())
    }

    /// Puts a released nonce into a transaction's hands, if it is still as it was.
    fn reissue_to(&self, old: &Released, tx: &BindTx) -> Result<(), Stop> {
        self.keep_past_hold(old)?;
        let lane = self.claim().lane;
        let won = self
            .connection()
            .prepare_cached(
                "UPDATE nonce
                 SET owner_kind = 'tx', owner_id = ?5, status = 'CONSUMED', tx_hash = ?6, reason = NULL,
                     locked_until = ?8, fencing_token = ?7, created_at = ?8, updated_at = ?8
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3
                   AND status = 'RELEASED' AND owner_id = ?4",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                old.nonce.cast_signed(),
                old.hold.0,
                tx.id().0,
                tx.attempt.hash.as_slice(),
                self.claim().token.0,
                self.now(),
            ])?;
        if won == 0 { Err(Stop::Refused(Refusal::RowLost)) } else { Ok(()) }
    }

    /// Writes a fresh nonce. A plain insert: a row that is there already is an error.
    fn insert_nonce(&self, nonce: Nonce, tx: &BindTx) -> Result<(), Stop> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached(
                "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, tx_hash,
                                    locked_until, fencing_token, created_at, updated_at)
                 VALUES (?1, ?2, ?3, 'tx', ?4, 'CONSUMED', ?5, ?7, ?6, ?7, ?7)",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                nonce.cast_signed(),
                tx.id().0,
                tx.attempt.hash.as_slice(),
                self.claim().token.0,
                self.now(),
            ])?;
        Ok(())
    }

    /// Writes an attempt after those that there are, before any byte of it reaches a chain node.
    pub(super) fn insert_attempt(&self, tx: TxId, attempt: &NewAttempt) -> Result<(), Stop> {
        self.connection()
            .prepare_cached(
                "INSERT INTO attempt (tx_id, number, kind, hash, raw, fees, gas_limit, fencing_token,
                                      created_at)
                 SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8
                 FROM attempt WHERE tx_id = ?1",
            )?
            .execute(params![
                tx.0,
                attempt.kind.name(),
                attempt.hash.as_slice(),
                &attempt.raw[..],
                json(&fees_json(&attempt.fees))?,
                attempt.gas_limit.cast_signed(),
                self.claim().token.0,
                self.now(),
            ])?;
        Ok(())
    }

    /// Binds the nonce to a transaction: to one that is accepted in the same commit, or to one that
    /// waited.
    fn bind_tx(
        &self,
        node: &NodeId,
        nonce: Nonce,
        tx: &BindTx,
        resubmit_at: Option<i64>,
    ) -> Result<Tx, Stop> {
        let bound = match &tx.what {
            Bindable::New(new) => {
                let bound = Bound { nonce, attempt: &tx.attempt, resubmit_at };
                let written = accept::insert_row(self.connection(), new, Some(&bound), self.now())?;
                let written = written.ok_or(Stop::Refused(Refusal::RowLost))?;
                accept::tell(self.connection(), node, new, self.now())?;
                written
            }
            Bindable::Waiting(id) => self.bind_waiting(nonce, *id, &tx.attempt, resubmit_at)?,
        };
        let entry = Entry {
            tx: bound.id,
            tenant: &bound.tenant,
            lane: self.claim().lane,
            seq: bound.events,
            kind: EventKind::Bound,
            standing: bound.standing,
            node,
            token: Some(self.claim().token),
            data: &bound_data(nonce, &tx.attempt),
            now: self.now(),
        };
        entry.write(self.connection())?;
        Ok(bound)
    }

    /// One that waited, by compare-and-set on `CREATED`.
    fn bind_waiting(
        &self,
        nonce: Nonce,
        id: TxId,
        attempt: &NewAttempt,
        resubmit_at: Option<i64>,
    ) -> Result<Tx, Stop> {
        let (lane, standing) = (self.claim().lane, bound_standing()?);
        self.connection()
            .prepare_cached(
                "UPDATE tx
                 SET nonce = ?4, tx_hash = ?5, gas_limit = coalesce(gas_limit, ?6), next_resubmit_at = ?7,
                     state = ?8, sub_state = ?9, events = events + 1, updated_at = ?10
                 WHERE tx_id = ?1 AND chain_id = ?2 AND signer = ?3 AND state = 'CREATED'
                 RETURNING *",
            )?
            .query_row(
                params![
                    id.0,
                    rows::chain(lane),
                    lane.signer.as_slice(),
                    nonce.cast_signed(),
                    attempt.hash.as_slice(),
                    attempt.gas_limit.cast_signed(),
                    resubmit_at,
                    standing.state.name(),
                    standing.sub_state.map(|sub_state| sub_state.name()),
                    self.now(),
                ],
                tx_rows::tx,
            )
            .optional()?
            .ok_or(Stop::Refused(Refusal::RowLost))
    }
}
