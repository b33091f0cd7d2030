//! What a holder does about nonces that are not as they should be: those that somebody else used,
//! and those that nobody has.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::{Hold, HoldId, NodeId, Nonce, USED_BY_OTHERS};

use super::fence::{Fenced, fence};
use super::rows::{self, HOLD_COLUMNS};
use super::stream::LaneEntry;
use crate::{Claim, NewLaneEvent, Realign, Refusal, StoreError};

pub(super) fn follow_chain(
    connection: &Connection,
    claim: &Claim,
    realign: Realign,
    event: &NewLaneEvent,
    lease: Duration,
) -> Result<Result<(), Refusal>, StoreError> {
    let Some(advance) = realign.forward() else { return Ok(Err(Refusal::CursorMoved)) };
    match fence(connection, claim, Some(advance), lease)? {
        Ok(fenced) => fenced.tell(event).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

pub(super) fn own_up(
    connection: &Connection,
    claim: &Claim,
    nonces: &[Nonce],
    reason: &str,
    lease: Duration,
) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.own_up(nonces, reason).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

impl Fenced<'_> {
    /// Adds to the lane's history. Whoever passed the fence is the owner of the row.
    pub(super) fn tell(&self, event: &NewLaneEvent) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        let node = self
            .connection()
            .prepare_cached("SELECT owner_node FROM lane WHERE chain_id = ?1 AND signer = ?2")?
            .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| {
                row.get(0).map(NodeId)
            })?;
        let entry = LaneEntry {
            lane,
            kind: event.kind,
            node: &node,
            token: Some(self.claim().token),
            data: &event.data,
            now: self.now(),
        };
        entry.write(self.connection())
    }

    /// Writes nonces below the cursor that nobody has, as given back.
    fn own_up(&self, nonces: &[Nonce], reason: &str) -> Result<Vec<Hold>, StoreError> {
        let lane = self.claim().lane;
        let sql = format!(
            "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, locked_until,
                                reason, fencing_token, created_at, updated_at)
             SELECT ?1, ?2, ?3, 'hold', ?4, 'RELEASED', ?5, ?6, ?7, ?5, ?5
             FROM lane WHERE chain_id = ?1 AND signer = ?2 AND next_nonce > ?3
             ON CONFLICT (chain_id, signer, nonce) DO NOTHING
             RETURNING {HOLD_COLUMNS}"
        );
        let mut holds = Vec::new();
        for nonce in nonces {
            self.forget_used_by_others(*nonce)?;
            let written = self
                .connection()
                .prepare_cached(&sql)?
                .query_row(
                    params![
                        rows::chain(lane),
                        lane.signer.as_slice(),
                        i64::try_from(*nonce).unwrap_or(i64::MAX),
                        HoldId::fresh().0,
                        self.now(),
                        reason,
                        self.claim().token.0,
                    ],
                    rows::hold,
                )
                .optional()?;
            holds.extend(written);
        }
        holds.sort_unstable_by_key(|hold| hold.nonce);
        Ok(holds)
    }

    /// A nonce that was given back and used by somebody else, whose transaction a reorganisation took
    /// out of the chain. Nobody has it again. Its hold is past.
    fn forget_used_by_others(&self, nonce: Nonce) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        let nonce = i64::try_from(nonce).unwrap_or(i64::MAX);
        let nobodys = "chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND owner_kind = 'hold'
                       AND status = 'CONSUMED' AND tx_hash IS NULL AND reason = ?4";
        let keep = format!(
            "INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
             SELECT owner_id, chain_id, signer, nonce, locked_until, reason, updated_at FROM nonce
             WHERE {nobodys}"
        );
        for sql in [keep, format!("DELETE FROM nonce WHERE {nobodys}")] {
            self.connection().prepare_cached(&sql)?.execute(params![
                chain,
                signer,
                nonce,
                USED_BY_OTHERS
            ])?;
        }
        Ok(())
    }
}
