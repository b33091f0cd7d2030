//! Lanes of a restored database.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::{Value, json as json_value};
use stile_domain::{
    B256, Bytes, EventKind, Lane, LaneEventKind, NodeId, Nonce, Payload, REMEMBERED, Standing,
    Step, TxId,
};

use super::bind::Stop;
use super::events::Entry;
use super::fence::{Fenced, fence};
use super::rows::{self, LANE_COLUMNS};
use super::stream::LaneEntry;
use super::tx_rows::{self, json};
use super::writer::in_savepoint;
use super::{SqliteStore, read_txs};
use crate::tx_columns::standing_after;
use crate::{
    BindTx, Bindable, Claim, LostTx, NewLaneEvent, Realign, Recovery, Refusal, RestoreMark,
    RestoreStore, StoreError, Tx, TxBinding,
};

/// Whether the mark of a lane `l` holds up a transaction `t`: see `stile_is_marked` on PostgreSQL.
macro_rules! is_marked {
    () => {
        "(l.restored_at IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM tx_event e
                          WHERE e.tx_id = t.tx_id AND e.kind = 'CLEARED'
                            AND json_extract(e.data, '$.mark') = l.restored_number)
          AND t.tenant <> 'stile:filler'
          AND (l.restore_settled_at IS NULL
               OR EXISTS (SELECT 1 FROM lost_tx f
                          WHERE f.chain_id = t.chain_id AND f.signer = t.signer AND f.claimed_by IS NULL
                            AND json_extract(f.payload, '$.to') IS json_extract(t.payload, '$.to')
                            AND json_extract(f.payload, '$.value') = json_extract(t.payload, '$.value')
                            AND json_extract(f.payload, '$.data') = json_extract(t.payload, '$.data')
                            AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.hash = f.hash)
                            AND NOT EXISTS (SELECT 1 FROM nonce n
                                            WHERE n.chain_id = f.chain_id AND n.signer = f.signer
                                              AND n.nonce = f.nonce AND n.owner_kind = 'hold'
                                              AND n.tx_hash = f.hash))))"
    };
}

pub(super) const IS_MARKED: &str = is_marked!();

/// Whether a transaction `t` of a lane `l` waits for a person's word, or for the chain's: see
/// `stile_awaits_word` on PostgreSQL.
pub(super) const AWAITS_WORD: &str = concat!(
    "(",
    is_marked!(),
    " OR (l.next_nonce IS NOT NULL AND l.timeline IS NULL AND t.tenant <> 'stile:filler'))"
);

/// Whether a payload (`?3`) does the same as a transaction that was found on a lane's chain and belongs
/// to nobody: see `stile_is_like_lost` on PostgreSQL.
const IS_LIKE_LOST: &str = "SELECT 1 FROM lost_tx f
    WHERE f.chain_id = ?1 AND f.signer = ?2 AND f.claimed_by IS NULL
      AND json_extract(f.payload, '$.to') IS json_extract(?3, '$.to')
      AND json_extract(f.payload, '$.value') = json_extract(?3, '$.value')
      AND json_extract(f.payload, '$.data') = json_extract(?3, '$.data')
      AND NOT EXISTS (SELECT 1 FROM attempt a WHERE a.hash = f.hash)
      AND NOT EXISTS (SELECT 1 FROM nonce n
                      WHERE n.chain_id = f.chain_id AND n.signer = f.signer AND n.nonce = f.nonce
                        AND n.owner_kind = 'hold' AND n.tx_hash = f.hash)";

#[async_trait]
impl RestoreStore for SqliteStore {
    async fn restored_lanes(&self) -> Result<Vec<(Lane, RestoreMark)>, StoreError> {
        self.read(restored_lanes).await
    }

    async fn lacks_synchronous_standby(&self) -> Result<bool, StoreError> {
        // There is no standby that anything could fail over to.
        Ok(false)
    }

    async fn history_name(&self) -> Result<String, StoreError> {
        // An older file is put in the place of this one only while nobody has it open.
        Ok(super::origin::HERE.to_owned())
    }

    async fn unread_nonces(
        &self,
        lane: Lane,
        below: Nonce,
        limit: u32,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read(move |c| unread_nonces(c, lane, below, limit)).await
    }

    async fn lost_txs(&self, lane: Lane) -> Result<Vec<LostTx>, StoreError> {
        self.read(move |c| lost_txs(c, lane)).await
    }

    async fn awaiting_word(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        self.read(move |c| awaiting_word(c, lane, limit)).await
    }

    async fn set_unaligned(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let claim = *claim;
        self.write(move |c| match fence(c, &claim, None, lease)? {
            Ok(fenced) => fenced.set_unaligned().map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        })
        .await
    }

    async fn note_lost(
        &self,
        claim: &Claim,
        found: &[LostTx],
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let (claim, found) = (*claim, found.to_vec());
        self.write(move |c| match fence(c, &claim, None, lease)? {
            Ok(fenced) => fenced.note_lost(&found).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        })
        .await
    }

    async fn step_over(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let Some(advance) = realign.forward() else { return Ok(Err(Refusal::CursorMoved)) };
        let (claim, event) = (*claim, event.clone());
        self.write(move |c| match fence(c, &claim, Some(advance), lease)? {
            Ok(fenced) => fenced.step_over(realign.to, &event).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        })
        .await
    }

    async fn recover(
        &self,
        node: &NodeId,
        claim: &Claim,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Result<Option<Tx>, Refusal>, StoreError> {
        let (node, claim, recovery) = (node.clone(), *claim, recovery.clone());
        self.write(move |c| recover(c, &node, &claim, &recovery, lease)).await
    }

    async fn clear(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        let (node, mark, data) = (node.clone(), *mark, data.clone());
        self.write(move |c| said(c, &node, (tx, &mark), Step::Cleared, None, &data)).await
    }

    async fn close_as_sent(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        words: &str,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        let (node, mark, words, data) = (node.clone(), *mark, words.to_owned(), data.clone());
        self.write(move |c| said(c, &node, (tx, &mark), Step::Closed, Some(&words), &data)).await
    }

    async fn settle_restore(
        &self,
        node: &NodeId,
        lane: Lane,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<u64>, StoreError> {
        let (node, mark, data) = (node.clone(), *mark, data.clone());
        self.write(move |c| settle_restore(c, &node, lane, &mark, &data)).await
    }
}

fn restored_lanes(connection: &Connection) -> Result<Vec<(Lane, RestoreMark)>, StoreError> {
    let sql = format!("SELECT {LANE_COLUMNS} FROM lane WHERE restored_at IS NOT NULL");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map([], |row| Ok((rows::lane(row)?, rows::restored(row)?)))?;
    let found: Vec<_> = found.collect::<Result<_, _>>()?;
    Ok(found.into_iter().filter_map(|(lane, mark)| Some((lane, mark?))).collect())
}

fn unread_nonces(
    connection: &Connection,
    lane: Lane,
    below: Nonce,
    limit: u32,
) -> Result<Vec<Nonce>, StoreError> {
    let below = i64::try_from(below).unwrap_or(i64::MAX);
    let mut statement = connection.prepare_cached(
        "WITH RECURSIVE mark AS (
             SELECT restored_at, restore_settled_at IS NULL AS is_open, restored_from,
                    min(restored_to, ?3) AS below FROM lane
             WHERE chain_id = ?1 AND signer = ?2 AND restored_at IS NOT NULL
         ), stepped (nonce, below) AS (
             SELECT restored_from, below FROM mark WHERE restored_from < below
             UNION ALL
             SELECT nonce + 1, below FROM stepped WHERE nonce + 1 < below
         ), suspected (nonce) AS (
             SELECT s.nonce FROM stepped s
             WHERE NOT EXISTS (SELECT 1 FROM nonce n
                               WHERE n.chain_id = ?1 AND n.signer = ?2 AND n.nonce = s.nonce)
             UNION ALL
             SELECT n.nonce FROM mark m
             JOIN nonce n INDEXED BY nonce_open ON n.chain_id = ?1 AND n.signer = ?2
             WHERE n.status <> 'CONSUMED' AND n.nonce < ?3 AND n.owner_kind = 'hold'
               AND (m.is_open OR (n.nonce < m.below
                                  AND (n.created_at < m.restored_at
                                       OR (n.status = 'SUSPECT' AND n.reason = ?5))))
         )
         SELECT w.nonce FROM suspected w
         WHERE NOT EXISTS (SELECT 1 FROM lost_tx f
                           WHERE f.chain_id = ?1 AND f.signer = ?2 AND f.nonce = w.nonce)
         ORDER BY w.nonce LIMIT ?4",
    )?;
    let key = params![rows::chain(lane), lane.signer.as_slice(), below, limit, REMEMBERED];
    let nonces = statement.query_map(key, |row| row.get(0).map(rows::nonce))?;
    Ok(nonces.collect::<Result<_, _>>()?)
}

fn lost_txs(connection: &Connection, lane: Lane) -> Result<Vec<LostTx>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT f.nonce, f.hash, f.block_number, f.raw, f.payload,
                coalesce(f.claimed_by, a.tx_id) AS claimed_by
         FROM lost_tx f
         LEFT JOIN attempt a ON a.hash = f.hash
         LEFT JOIN nonce n ON n.chain_id = f.chain_id AND n.signer = f.signer AND n.nonce = f.nonce
         WHERE f.chain_id = ?1 AND f.signer = ?2
           AND (n.owner_kind = 'hold' AND n.tx_hash = f.hash) IS NOT TRUE
         ORDER BY f.nonce",
    )?;
    let found = statement.query_map(params![rows::chain(lane), lane.signer.as_slice()], |row| {
        let raw: Option<Vec<u8>> = row.get("raw")?;
        let payload: Option<String> = row.get("payload")?;
        Ok((
            LostTx {
                nonce: rows::nonce(row.get("nonce")?),
                hash: B256::from(row.get::<_, [u8; 32]>("hash")?),
                block_number: row.get::<_, i64>("block_number")?.unsigned_abs(),
                signed: None,
                claimed_by: row.get::<_, Option<uuid::Uuid>>("claimed_by")?.map(TxId),
            },
            raw.zip(payload),
        ))
    })?;
    let mut lost = Vec::new();
    for row in found {
        let (mut tx, signed) = row?;
        if let Some((raw, payload)) = signed {
            let payload = serde_json::from_str(&payload)
                .map_err(|e| StoreError::Internal(format!("a payload cannot be read: {e}")))?;
            tx.signed = Some((Bytes::from(raw), payload));
        }
        lost.push(tx);
    }
    Ok(lost)
}

fn awaiting_word(connection: &Connection, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
    read_txs::list(
        connection,
        &format!(
            "SELECT t.* FROM tx t JOIN lane l USING (chain_id, signer)
             WHERE t.chain_id = ?1 AND t.signer = ?2 AND t.state = 'CREATED' AND {IS_MARKED}
             ORDER BY t.position LIMIT ?3"
        ),
        params![rows::chain(lane), lane.signer.as_slice(), limit],
    )
}

fn recover(
    connection: &Connection,
    node: &NodeId,
    claim: &Claim,
    recovery: &Recovery,
    lease: Duration,
) -> Result<Result<Option<Tx>, Refusal>, StoreError> {
    let part = in_savepoint(connection, |connection| {
        let fenced = fence(connection, claim, None, lease)?.map_err(Stop::Refused)?;
        fenced.recover(node, recovery)
    });
    match part {
        Ok(tx) => Ok(Ok(Some(tx))),
        Err(Stop::Refused(Refusal::RowLost)) => Ok(Ok(None)),
        Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// What a person says of a transaction that has no nonce.
fn said(
    connection: &Connection,
    node: &NodeId,
    (id, mark): (TxId, &RestoreMark),
    step: Step,
    error: Option<&str>,
    data: &Value,
) -> Result<Option<Tx>, StoreError> {
    let (standing, now) = (standing_after(step)?, rows::now(connection)?);
    let changed = connection
        .prepare_cached(
            "UPDATE tx SET state = ?2, sub_state = ?3, error = ?4, events = events + 1, updated_at = ?5
             WHERE tx_id = ?1 AND state = 'CREATED'
               AND EXISTS (SELECT 1 FROM lane l
                           WHERE l.chain_id = tx.chain_id AND l.signer = tx.signer
                             AND l.restored_number = ?6 AND l.restored_at = ?7 AND l.restored_to = ?8
                             AND l.timeline IS NOT NULL)
             RETURNING *",
        )?
        .query_row(
            params![
                id.0,
                standing.state.name(),
                standing.sub_state.map(|sub_state| sub_state.name()),
                error,
                now,
                mark.number.cast_signed(),
                mark.at.as_microsecond(),
                mark.to.cast_signed(),
            ],
            tx_rows::tx,
        )
        .optional()?;
    if let Some(tx) = &changed {
        let data = mark.said(data);
        tell(connection, node, tx, Standing::CREATED.kind_of(step), &data, now)?;
    }
    Ok(changed)
}

fn tell(
    connection: &Connection,
    node: &NodeId,
    tx: &Tx,
    kind: EventKind,
    data: &Value,
    now: i64,
) -> Result<(), StoreError> {
    let entry = Entry {
        tx: tx.id,
        tenant: &tx.tenant,
        lane: tx.lane,
        seq: tx.events,
        kind,
        standing: tx.standing,
        node,
        token: None,
        data,
        now,
    };
    entry.write(connection)
}

fn settle_restore(
    connection: &Connection,
    node: &NodeId,
    lane: Lane,
    mark: &RestoreMark,
    data: &Value,
) -> Result<Option<u64>, StoreError> {
    let marked = connection
        .prepare_cached(
            "SELECT 1 FROM lane
             WHERE chain_id = ?1 AND signer = ?2 AND restored_number = ?3 AND restored_at = ?4
               AND restored_to = ?5 AND restore_settled_at IS NULL AND timeline IS NOT NULL",
        )?
        .exists(params![
            rows::chain(lane),
            lane.signer.as_slice(),
            mark.number.cast_signed(),
            mark.at.as_microsecond(),
            mark.to.cast_signed(),
        ])?;
    if !marked {
        return Ok(None);
    }
    let mut cleared = 0;
    for tx in awaiting_word(connection, lane, u32::MAX)? {
        // That takes a word of its own.
        if is_like_lost(connection, lane, &tx.payload)? {
            continue;
        }
        let done = said(connection, node, (tx.id, mark), Step::Cleared, None, data)?;
        cleared += u64::from(done.is_some());
    }
    let now = rows::now(connection)?;
    connection
        .prepare_cached(
            "UPDATE lane SET restore_settled_at = ?3, updated_at = ?3
             WHERE chain_id = ?1 AND signer = ?2",
        )?
        .execute(params![rows::chain(lane), lane.signer.as_slice(), now])?;
    let mut data = mark.said(data);
    data["cleared"] = json_value!(cleared);
    let kind = LaneEventKind::RestoreSettled;
    LaneEntry { lane, kind, node, token: None, data: &data, now }.write(connection)?;
    Ok(Some(cleared))
}

fn is_like_lost(
    connection: &Connection,
    lane: Lane,
    payload: &Payload,
) -> Result<bool, StoreError> {
    let key = params![rows::chain(lane), lane.signer.as_slice(), json(payload)?];
    Ok(connection.prepare_cached(IS_LIKE_LOST)?.exists(key)?)
}

impl Fenced<'_> {
    /// On a lane of a restored database nothing gets a nonce that may have been sent before.
    pub(super) fn check_restored(&self, binding: &TxBinding) -> Result<(), Stop> {
        let lane = self.claim().lane;
        let open: Option<bool> = self
            .connection()
            .prepare_cached(
                "SELECT restore_settled_at IS NULL FROM lane
                 WHERE chain_id = ?1 AND signer = ?2 AND restored_at IS NOT NULL",
            )?
            .query_row(params![rows::chain(lane), lane.signer.as_slice()], |row| row.get(0))
            .optional()?;
        let Some(open) = open else { return Ok(()) };
        let sql = format!(
            "SELECT 1 FROM tx t JOIN lane l USING (chain_id, signer) WHERE t.tx_id = ?1 AND {IS_MARKED}"
        );
        let mut awaits = self.connection().prepare_cached(&sql)?;
        for BindTx { what, .. } in &binding.txs {
            let refused = match what {
                Bindable::New(new) => open || is_like_lost(self.connection(), lane, &new.payload)?,
                Bindable::Waiting(id) => awaits.exists(params![id.0])?,
            };
            if refused {
                return Err(Stop::Refused(Refusal::Restored));
            }
        }
        Ok(())
    }

    fn set_unaligned(&self) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached("UPDATE lane SET timeline = NULL WHERE chain_id = ?1 AND signer = ?2")?
            .execute(params![rows::chain(lane), lane.signer.as_slice()])?;
        Ok(())
    }

    fn note_lost(&self, found: &[LostTx]) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        for tx in found {
            let (raw, payload) = tx.signed.as_ref().map(|(raw, payload)| (raw, payload)).unzip();
            self.connection()
                .prepare_cached(
                    "INSERT INTO lost_tx (chain_id, signer, nonce, hash, block_number, raw, payload, found_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                     -- A reorganisation may have put another one there.
                     ON CONFLICT (chain_id, signer, nonce) DO UPDATE
                     SET hash = excluded.hash, block_number = excluded.block_number, raw = excluded.raw,
                         payload = excluded.payload, found_at = excluded.found_at
                     WHERE lost_tx.claimed_by IS NULL
                       AND (lost_tx.hash <> excluded.hash
                            OR lost_tx.block_number <> excluded.block_number)",
                )?
                .execute(params![
                    rows::chain(lane),
                    lane.signer.as_slice(),
                    tx.nonce.cast_signed(),
                    tx.hash.as_slice(),
                    tx.block_number.cast_signed(),
                    raw.map(|raw| &raw[..]),
                    payload.map(json).transpose()?,
                    self.now(),
                ])?;
        }
        Ok(())
    }

    fn step_over(&self, to: Nonce, event: &NewLaneEvent) -> Result<(), StoreError> {
        let lane = self.claim().lane;
        self.connection()
            .prepare_cached(
                "UPDATE lane SET restored_to = max(restored_to, ?3)
                 WHERE chain_id = ?1 AND signer = ?2 AND restored_at IS NOT NULL",
            )?
            .execute(params![rows::chain(lane), lane.signer.as_slice(), to.cast_signed()])?;
        self.tell(event)
    }

    fn recover(&self, node: &NodeId, recovery: &Recovery) -> Result<Tx, Stop> {
        let Recovery { tx, nonce, attempt, data } = recovery;
        let lane = self.claim().lane;
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        let lost = || Stop::Refused(Refusal::RowLost);
        let claimed = self
            .connection()
            .prepare_cached(
                "UPDATE lost_tx SET claimed_by = ?5
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND hash = ?4 AND raw = ?6
                   AND claimed_by IS NULL",
            )?
            .execute(params![
                chain,
                signer,
                nonce.cast_signed(),
                attempt.hash.as_slice(),
                tx.0,
                &attempt.raw[..]
            ])?;
        if claimed == 0 {
            return Err(lost());
        }
        // A nonce that only a node remembered is in nobody's hands: the chain shows whose it is.
        self.connection()
            .prepare_cached(
                "UPDATE nonce SET status = 'RELEASED', updated_at = ?4
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND status = 'SUSPECT' AND reason = ?5",
            )?
            .execute(params![chain, signer, nonce.cast_signed(), self.now(), REMEMBERED])?;
        self.connection()
            .prepare_cached(
                "INSERT INTO past_hold (hold_id, chain_id, signer, nonce, locked_until, reason, released_at)
                 SELECT owner_id, chain_id, signer, nonce, locked_until, reason, updated_at FROM nonce
                 WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND status = 'RELEASED'",
            )?
            .execute(params![chain, signer, nonce.cast_signed()])?;
        let won = self
            .connection()
            .prepare_cached(
                "INSERT INTO nonce (chain_id, signer, nonce, owner_kind, owner_id, status, tx_hash,
                                    locked_until, fencing_token, created_at, updated_at)
                 VALUES (?1, ?2, ?3, 'tx', ?4, 'CONSUMED', ?5, ?7, ?6, ?7, ?7)
                 ON CONFLICT (chain_id, signer, nonce) DO UPDATE
                 SET owner_kind = excluded.owner_kind, owner_id = excluded.owner_id,
                     status = excluded.status, tx_hash = excluded.tx_hash, reason = NULL,
                     locked_until = excluded.locked_until, fencing_token = excluded.fencing_token,
                     created_at = excluded.created_at, updated_at = excluded.updated_at
                 WHERE nonce.status = 'RELEASED'",
            )?
            .execute(params![
                chain,
                signer,
                nonce.cast_signed(),
                tx.0,
                attempt.hash.as_slice(),
                self.claim().token.0,
                self.now()
            ])?;
        if won == 0 {
            return Err(lost());
        }
        let standing = standing_after(Step::Recovered)?;
        let bound = self
            .connection()
            .prepare_cached(
                "UPDATE tx
                 SET nonce = ?4, tx_hash = ?5, gas_limit = coalesce(gas_limit, ?6), state = ?7,
                     sub_state = ?8, events = events + 1, updated_at = ?9
                 WHERE tx_id = ?1 AND chain_id = ?2 AND signer = ?3 AND state = 'CREATED'
                 RETURNING *",
            )?
            .query_row(
                params![
                    tx.0,
                    chain,
                    signer,
                    nonce.cast_signed(),
                    attempt.hash.as_slice(),
                    attempt.gas_limit.cast_signed(),
                    standing.state.name(),
                    standing.sub_state.map(|sub_state| sub_state.name()),
                    self.now(),
                ],
                tx_rows::tx,
            )
            .optional()?
            .ok_or_else(lost)?;
        self.insert_attempt(*tx, attempt)?;
        let entry = Entry {
            tx: bound.id,
            tenant: &bound.tenant,
            lane,
            seq: bound.events,
            kind: EventKind::Recovered,
            standing: bound.standing,
            node,
            token: Some(self.claim().token),
            data,
            now: self.now(),
        };
        entry.write(self.connection())?;
        Ok(bound)
    }
}
