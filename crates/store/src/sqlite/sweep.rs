//! What the holder does besides binding: the first cursor, holds that ran out, and what the chain
//! shows.

use std::time::Duration;

use rusqlite::{Connection, Params, params};
use stile_domain::{
    HeldExpiry, Hold, HoldStatus, LaneEventKind, NodeId, Nonce, REMEMBERED, USED_BY_OTHERS,
};

use super::fence::{Fenced, fence};
use super::origin;
use super::rows::{self, HOLD_COLUMNS};
use super::stream::LaneEntry;
use crate::lane_entries::started_data;
use crate::{Beginning, Claim, Refusal, StoreError};

pub(super) fn start_cursor(
    connection: &Connection,
    node: &NodeId,
    claim: &Claim,
    beginning: Beginning,
    lease: Duration,
) -> Result<Result<Nonce, Refusal>, StoreError> {
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.start_cursor(node, beginning).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

pub(super) fn expire(
    connection: &Connection,
    claim: &Claim,
    policy: HeldExpiry,
    lease: Duration,
) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
    let status = match policy {
        HeldExpiry::Suspect => HoldStatus::Suspect,
        HeldExpiry::Reclaim => HoldStatus::Released,
    };
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.expire(status).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

pub(super) fn settle(
    connection: &Connection,
    claim: &Claim,
    latest: Nonce,
    lease: Duration,
) -> Result<Result<Vec<Hold>, Refusal>, StoreError> {
    match fence(connection, claim, None, lease)? {
        Ok(fenced) => fenced.settle(latest).map(Ok),
        Err(refusal) => Ok(Err(refusal)),
    }
}

impl Fenced<'_> {
    /// Sets a cursor that is not set yet, with the first entry of the lane's history; answers where
    /// it stands.
    fn start_cursor(&self, node: &NodeId, beginning: Beginning) -> Result<Nonce, StoreError> {
        let Beginning { at, used, known_before, .. } = beginning;
        let lane = self.claim().lane;
        let started = self
            .connection()
            .prepare_cached(
                // See the statement of PostgreSQL for why it may be marked. Here it is known for good that
                // an older copy was put back: there is more than one history.
                "UPDATE lane
                 SET next_nonce = ?3, timeline = ?4,
                     restored_at = CASE WHEN r.open THEN ?5 END,
                     restored_from = CASE WHEN r.open THEN ?7 END,
                     restored_to = CASE WHEN r.open THEN ?3 END,
                     restored_number = r.open, restored_begun = r.open
                 FROM (SELECT ?3 > 0
                          AND (?6
                               OR EXISTS (SELECT 1 FROM lane o
                                       WHERE o.restored_at IS NOT NULL AND o.restore_settled_at IS NULL)
                               OR EXISTS (SELECT 1 FROM lane o
                                          WHERE o.timeline IS NULL AND o.next_nonce IS NOT NULL)
                               OR EXISTS (SELECT 1 FROM stream_history h WHERE h.reached IS NOT NULL)) AS open) r
                 WHERE chain_id = ?1 AND signer = ?2 AND next_nonce IS NULL",
            )?
            .execute(params![
                rows::chain(lane),
                lane.signer.as_slice(),
                at.cast_signed(),
                origin::HERE,
                self.now(),
                known_before,
                used.min(at).cast_signed(),
            ])?;
        if started == 1 {
            let entry = LaneEntry {
                lane,
                kind: LaneEventKind::Started,
                node,
                token: Some(self.claim().token),
                data: &started_data(at),
                now: self.now(),
            };
            entry.write(self.connection())?;
            return Ok(at);
        }
        let cursor = self
            .connection()
            .prepare_cached("SELECT next_nonce FROM lane WHERE chain_id = ?1 AND signer = ?2")?
            .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| row.get(0))?;
        Ok(rows::nonce(cursor))
    }

    fn expire(&self, status: HoldStatus) -> Result<Vec<Hold>, StoreError> {
        let lane = self.claim().lane;
        self.changed(
            "SET status = ?3, reason = coalesce(reason, 'the hold ran out'), updated_at = ?4
             WHERE chain_id = ?1 AND signer = ?2 AND status <> 'CONSUMED' AND status = 'HELD'
               AND owner_kind = 'hold' AND locked_until <= ?4",
            params![rows::chain(lane), lane.signer.as_slice(), status.name(), self.now()],
        )
    }

    fn settle(&self, latest: Nonce) -> Result<Vec<Hold>, StoreError> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached(
                "UPDATE lane SET last_chain_nonce = ?3 WHERE chain_id = ?1 AND signer = ?2",
            )?
            .execute(params![rows::chain(lane), lane.signer.as_slice(), latest.cast_signed()])?;
        self.changed(
            "SET status = 'CONSUMED', updated_at = ?4,
                 -- What its caller had given back was used by somebody else.
                 reason = CASE status WHEN 'RELEASED' THEN ?5
                                      ELSE 'the chain shows this nonce used' END
             WHERE chain_id = ?1 AND signer = ?2 AND nonce < ?3 AND owner_kind = 'hold'
               AND status <> 'CONSUMED' AND status IN ('SUSPECT', 'RELEASED')
               -- A lost history may have sent what the chain shows there: it is read first. What was given
               -- back, and what only a node remembers, may belong to what waits, until a person has
               -- settled the lane.
               AND (NOT EXISTS (SELECT 1 FROM lane l
                                WHERE l.chain_id = ?1 AND l.signer = ?2 AND l.restored_at IS NOT NULL
                                  AND l.restore_settled_at IS NULL)
                    OR (status = 'SUSPECT' AND reason IS NOT ?6
                        AND EXISTS (SELECT 1 FROM lost_tx x
                                    WHERE x.chain_id = ?1 AND x.signer = ?2 AND x.nonce = nonce.nonce)))",
            params![
                rows::chain(lane),
                lane.signer.as_slice(),
                latest.cast_signed(),
                self.now(),
                USED_BY_OTHERS,
                REMEMBERED
            ],
        )
    }

    /// Updates holds that are open and answers with them. The index is named: left to itself, SQLite
    /// reads all of the lane's nonces by their key.
    fn changed(&self, update: &str, params: impl Params) -> Result<Vec<Hold>, StoreError> {
        let sql = format!("UPDATE nonce INDEXED BY nonce_open {update} RETURNING {HOLD_COLUMNS}");
        let mut statement = self.connection().prepare_cached(&sql)?;
        let holds = statement.query_map(params, rows::hold)?;
        Ok(holds.collect::<Result<_, _>>()?)
    }
}
