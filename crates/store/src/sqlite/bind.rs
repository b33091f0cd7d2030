//! Planned holds: what `allocate` commits.

use std::time::Duration;

use rusqlite::{Connection, params};
use stile_domain::{Hold, Nonce, Released};

use super::fence::{Fenced, fence};
use super::rows;
use super::writer::in_savepoint;
use crate::{Advance, AllocationKey, Binding, NewHold, Refusal, StoreError};

/// Why a lane's part is taken back.
pub(super) enum Stop {
    Refused(Refusal),
    Failed(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Constraint(text) => Self::Refused(Refusal::Inconsistent(text)),
            other => Self::Failed(other),
        }
    }
}

impl From<rusqlite::Error> for Stop {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::from(error).into()
    }
}

/// All of a lane's part or none of it.
pub(super) fn bind(
    connection: &Connection,
    binding: &Binding,
    lease: Duration,
    hold_timeout: Duration,
) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
    let part = in_savepoint(connection, |connection| {
        let advance = Advance { first: binding.plan.first, count: binding.plan.fresh };
        let fenced =
            fence(connection, &binding.claim, Some(advance), lease)?.map_err(Stop::Refused)?;
        let locked_until = fenced.now() + rows::micros(hold_timeout);
        let (again, fresh) = binding.holds.split_at(binding.plan.reissued.len());
        for (released, hold) in binding.plan.reissued.iter().zip(again) {
            fenced.reissue(released, hold, locked_until)?;
        }
        for (nonce, hold) in (binding.plan.first..).zip(fresh) {
            fenced.insert(nonce, hold, locked_until)?;
        }
        Ok(binding.written(rows::timestamp(locked_until)?))
    });
    match part {
        Ok(holds) => Ok(Ok(holds)),
        Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Fenced<'_> {
    /// Writes a fresh nonce. A plain insert: a row that is there already is an error.
    fn insert(&self, nonce: Nonce, hold: &NewHold, locked_until: i64) -> Result<(), Stop> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached(
                "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status,
                                    locked_until, fencing_token, created_at, updated_at)
                 VALUES (?1, ?2, ?3, 'hold', ?4, 'HELD', ?5, ?6, ?7, ?7)",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                nonce.cast_signed(),
                hold.id.0,
                locked_until,
                self.claim().token.0,
                self.now(),
            ])?;
        self.keep_key(nonce, hold)
    }

    /// Puts a released nonce into new hands, if it is still as it was.
    fn reissue(&self, old: &Released, hold: &NewHold, locked_until: i64) -> Result<(), Stop> {
        self.keep_past_hold(old)?;
        let lane = self.claim().lane;
        let won = self
            .connection()
            .prepare_cached(
                "UPDATE nonce
                 SET owner_kind = 'hold', owner_id = ?5, status = 'HELD', reason = NULL,
                     locked_until = ?6, fencing_token = ?7, created_at = ?8, updated_at = ?8
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3
                   AND status = 'RELEASED' AND owner_id = ?4",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                old.nonce.cast_signed(),
                old.hold.0,
                hold.id.0,
                locked_until,
                self.claim().token.0,
                self.now(),
            ])?;
        if won == 0 {
            return Err(Stop::Refused(Refusal::RowLost));
        }
        self.keep_key(old.nonce, hold)
    }

    /// Before a nonce changes hands: what became of its last hold, for late and repeated marks.
    pub(super) fn keep_past_hold(&self, old: &Released) -> Result<(), Stop> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached(
                "INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
                 SELECT owner_id, chain_id, signer, nonce, locked_until, reason, updated_at FROM nonce
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3
                   AND status = 'RELEASED' AND owner_id = ?4",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                old.nonce.cast_signed(),
                old.hold.0
            ])?;
        Ok(())
    }

    /// Writes the caller's idempotency key, if it gave one.
    fn keep_key(&self, nonce: Nonce, hold: &NewHold) -> Result<(), Stop> {
        let Some(AllocationKey { tenant, key }) = &hold.key else { return Ok(()) };
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached("INSERT INTO allocation_key VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?
            .execute(params![
                tenant,
                rows::chain(lane),
                lane.signer.as_slice(),
                key,
                nonce.cast_signed(),
                hold.id.0,
                self.now(),
            ])?;
        Ok(())
    }
}
