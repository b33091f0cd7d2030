//! Lanes of a restored database.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use stile_domain::{
    Bytes, EventKind, Lane, LaneEventKind, NodeId, Nonce, Payload, REMEMBERED, Standing, Step,
    Timestamp, TxId,
};
use tokio_postgres::Row;
use tokio_postgres::types::{Json, Type};
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::session::{Sessions, Statement};
use super::{PostgresStore, rows, tx_rows};
use crate::tx_columns::{fees_json, standing_after};
use crate::{
    Bindable, Claim, LostTx, NewLaneEvent, Realign, Recovery, Refusal, RestoreMark, RestoreStore,
    StoreError, Tx, TxBinding,
};

#[async_trait]
impl RestoreStore for PostgresStore {
    async fn restored_lanes(&self) -> Result<Vec<(Lane, RestoreMark)>, StoreError> {
        let found = self.sessions.read(include_str!("sql/restored_lanes.sql"), &[]).await?;
        let mut lanes = Vec::with_capacity(found.len());
        for row in &found {
            lanes.extend(rows::restored(row)?.map(|mark| rows::lane(row).map(|lane| (lane, mark))));
        }
        lanes.into_iter().collect()
    }

    async fn lacks_synchronous_standby(&self) -> Result<bool, StoreError> {
        let sql = "SELECT current_setting('synchronous_standby_names') = '' AS lacks";
        let found = self.sessions.read(sql, &[]).await?;
        Ok(found.first().map(|row| row.try_get("lacks")).transpose()?.unwrap_or(true))
    }

    async fn history_name(&self) -> Result<String, StoreError> {
        super::origin::history_name(&self.sessions).await
    }

    async fn unread_nonces(
        &self,
        lane: Lane,
        below: Nonce,
        limit: u32,
    ) -> Result<Vec<Nonce>, StoreError> {
        let found = self
            .sessions
            .read(
                include_str!("sql/unread_nonces.sql"),
                &[
                    (&rows::chain(lane), Type::INT8),
                    (&lane.signer.as_slice(), Type::BYTEA),
                    (&i64::try_from(below).unwrap_or(i64::MAX), Type::INT8),
                    (&i64::from(limit), Type::INT8),
                ],
            )
            .await?;
        found.iter().map(|row| Ok(rows::nonce(row.try_get("nonce")?))).collect()
    }

    async fn lost_txs(&self, lane: Lane) -> Result<Vec<LostTx>, StoreError> {
        let found = self
            .sessions
            .read(
                include_str!("sql/lost_txs.sql"),
                &[(&rows::chain(lane), Type::INT8), (&lane.signer.as_slice(), Type::BYTEA)],
            )
            .await?;
        found.iter().map(lost_tx).collect()
    }

    async fn awaiting_word(&self, lane: Lane, limit: u32) -> Result<Vec<Tx>, StoreError> {
        let found = self
            .sessions
            .read(
                include_str!("sql/awaiting_word.sql"),
                &[
                    (&rows::chain(lane), Type::INT8),
                    (&lane.signer.as_slice(), Type::BYTEA),
                    (&i64::from(limit), Type::INT8),
                ],
            )
            .await?;
        found.iter().map(tx_rows::tx).collect()
    }

    async fn set_unaligned(
        &self,
        claim: &Claim,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let passed = async {
            match pass(&self.sessions, claim, None, lease).await? {
                Ok((fenced, _)) => fenced.set_unaligned_and_commit(claim.lane).await,
                Err(refusal) => Ok(Err(refusal)),
            }
        };
        self.sessions.within(StoreError::CommitUnknown, passed).await
    }

    async fn note_lost(
        &self,
        claim: &Claim,
        found: &[LostTx],
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let passed = async {
            match pass(&self.sessions, claim, None, lease).await? {
                Ok((fenced, now)) => {
                    fenced.note_lost_and_commit(claim.lane, found, now).await.map(Ok)
                }
                Err(refusal) => Ok(Err(refusal)),
            }
        };
        self.sessions.within(StoreError::CommitUnknown, passed).await
    }

    async fn step_over(
        &self,
        claim: &Claim,
        realign: Realign,
        event: &NewLaneEvent,
        lease: Duration,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let Some(advance) = realign.forward() else { return Ok(Err(Refusal::CursorMoved)) };
        let passed = async {
            match pass(&self.sessions, claim, Some(advance), lease).await? {
                Ok((fenced, _)) => {
                    fenced.step_over_and_commit(claim.lane, realign.to, event).await.map(Ok)
                }
                Err(refusal) => Ok(Err(refusal)),
            }
        };
        self.sessions.within(StoreError::CommitUnknown, passed).await
    }

    async fn recover(
        &self,
        node: &NodeId,
        claim: &Claim,
        recovery: &Recovery,
        lease: Duration,
    ) -> Result<Result<Option<Tx>, Refusal>, StoreError> {
        let passed = async {
            match pass(&self.sessions, claim, None, lease).await? {
                Ok((fenced, now)) => fenced.recover(node, claim, recovery, now).await.map(Ok),
                Err(refusal) => Ok(Err(refusal)),
            }
        };
        self.sessions.within(StoreError::CommitUnknown, passed).await
    }

    async fn clear(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        said(&self.sessions, node, (tx, mark), Step::Cleared, None, data).await
    }

    async fn close_as_sent(
        &self,
        node: &NodeId,
        tx: TxId,
        mark: &RestoreMark,
        words: &str,
        data: &Value,
    ) -> Result<Option<Tx>, StoreError> {
        said(&self.sessions, node, (tx, mark), Step::Closed, Some(words), data).await
    }

    async fn settle_restore(
        &self,
        node: &NodeId,
        lane: Lane,
        mark: &RestoreMark,
        data: &Value,
    ) -> Result<Option<u64>, StoreError> {
        let settled = settle_restore(&self.sessions, node, lane, mark, data);
        self.sessions.within(StoreError::CommitUnknown, settled).await
    }
}

/// Passes the fence for one lane; answers with the database's time when it did.
async fn pass(
    sessions: &Sessions,
    claim: &Claim,
    advance: Option<crate::Advance>,
    lease: Duration,
) -> Result<Result<(Fenced, Timestamp), Refusal>, StoreError> {
    let FenceResult { fenced, mut refused } = fence(sessions, &[(*claim, advance)], lease).await?;
    match fenced.time() {
        Some(now) => Ok(Ok((fenced, now))),
        None => {
            fenced.into_transaction().rollback().await?;
            let gone = || StoreError::Internal(format!("the row of {} is gone", claim.lane));
            refused.remove(&claim.lane).ok_or_else(gone).map(Err)
        }
    }
}

fn lost_tx(row: &Row) -> Result<LostTx, StoreError> {
    let raw: Option<&[u8]> = row.try_get("raw")?;
    let payload: Option<Json<Payload>> = row.try_get("payload")?;
    Ok(LostTx {
        nonce: rows::nonce(row.try_get("nonce")?),
        hash: tx_rows::hash(row, "hash")?,
        block_number: row.try_get::<_, i64>("block_number")?.unsigned_abs(),
        signed: raw.map(Bytes::copy_from_slice).zip(payload.map(|json| json.0)),
        claimed_by: row.try_get::<_, Option<Uuid>>("claimed_by")?.map(TxId),
    })
}

/// What a person says of a transaction that has no nonce.
async fn said(
    sessions: &Sessions,
    node: &NodeId,
    (tx, mark): (TxId, &RestoreMark),
    step: Step,
    error: Option<&str>,
    data: &Value,
) -> Result<Option<Tx>, StoreError> {
    let standing = standing_after(step)?;
    let changed = sessions
        .write(
            include_str!("sql/say_of_restored.sql"),
            &[
                &tx.0,
                &standing.state.name(),
                &standing.sub_state.map(|sub_state| sub_state.name()),
                &error,
                &Standing::CREATED.kind_of(step).name(),
                &node.0,
                &Json(mark.said(data)),
                &mark.number.cast_signed(),
                &mark.at,
                &mark.to.cast_signed(),
            ],
        )
        .await?;
    changed.first().map(tx_rows::tx).transpose()
}

async fn settle_restore(
    sessions: &Sessions,
    node: &NodeId,
    lane: Lane,
    mark: &RestoreMark,
    data: &Value,
) -> Result<Option<u64>, StoreError> {
    let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
    let (number, to) = (mark.number.cast_signed(), mark.to.cast_signed());
    let mut data = mark.said(data);
    let (transaction, locked) = sessions
        .begin(
            include_str!("sql/lock_restored_lane.sql"),
            &[&chain, &signer, &number, &mark.at, &to],
        )
        .await?;
    if locked.is_empty() {
        transaction.rollback().await?;
        return Ok(None);
    }
    let standing = standing_after(Step::Cleared)?;
    let cleared = transaction
        .query(
            include_str!("sql/clear_restored.sql"),
            &[
                &chain,
                &signer,
                &standing.state.name(),
                &standing.sub_state.map(|sub_state| sub_state.name()),
                &EventKind::Cleared.name(),
                &node.0,
                &Json(&data),
            ],
        )
        .await?;
    let cleared = match cleared.first() {
        Some(row) => row.try_get::<_, i64>("cleared")?.unsigned_abs(),
        None => 0,
    };
    data["cleared"] = cleared.into();
    transaction
        .execute_and_commit(
            include_str!("sql/settle_restore.sql"),
            &[&chain, &signer, &LaneEventKind::RestoreSettled.name(), &node.0, &Json(data)],
        )
        .await?;
    Ok(Some(cleared))
}

impl Fenced {
    /// On lanes of a restored database nothing gets a nonce that may have been sent before.
    pub(super) async fn refused_as_restored(
        &self,
        bindings: &[&TxBinding],
    ) -> Result<HashMap<Lane, Refusal>, StoreError> {
        let restored = bindings.iter().filter(|binding| self.is_restored(binding.claim.lane));
        let (mut refused, mut waiting) = (HashMap::new(), Vec::new());
        let (mut chains, mut signers, mut payloads) = (Vec::new(), Vec::new(), Vec::new());
        for binding in restored {
            let lane = &binding.claim.lane;
            for tx in &binding.txs {
                match &tx.what {
                    Bindable::New(new) => {
                        chains.push(rows::chain(*lane));
                        signers.push(lane.signer.as_slice());
                        payloads.push(Json(&new.payload));
                    }
                    Bindable::Waiting(id) => waiting.push(id.0),
                }
            }
        }
        if !payloads.is_empty() {
            let sql = include_str!("sql/new_refused_as_restored.sql");
            for row in &self.transaction().query(sql, &[&chains, &signers, &payloads]).await? {
                refused.insert(rows::lane(row)?, Refusal::Restored);
            }
        }
        if !waiting.is_empty() {
            let sql = include_str!("sql/refused_as_restored.sql");
            for row in &self.transaction().query(sql, &[&waiting]).await? {
                refused.insert(rows::lane(row)?, Refusal::Restored);
            }
        }
        Ok(refused)
    }

    async fn note_lost_and_commit(
        self,
        lane: Lane,
        found: &[LostTx],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let nonces: Vec<i64> = found.iter().map(|tx| tx.nonce.cast_signed()).collect();
        let hashes: Vec<&[u8]> = found.iter().map(|tx| tx.hash.as_slice()).collect();
        let blocks: Vec<i64> = found.iter().map(|tx| tx.block_number.cast_signed()).collect();
        let signed = || found.iter().map(|tx| tx.signed.as_ref());
        let raws: Vec<Option<&[u8]>> = signed().map(|it| it.map(|(raw, _)| &raw[..])).collect();
        let payloads: Vec<Option<Json<&Payload>>> =
            signed().map(|it| it.map(|(_, payload)| Json(payload))).collect();
        self.into_transaction()
            .execute_and_commit(
                include_str!("sql/note_lost.sql"),
                &[
                    &rows::chain(lane),
                    &lane.signer.as_slice(),
                    &nonces,
                    &hashes,
                    &blocks,
                    &raws,
                    &payloads,
                    &now,
                ],
            )
            .await
    }

    async fn set_unaligned_and_commit(self, lane: Lane) -> Result<Result<(), Refusal>, StoreError> {
        let set = self
            .into_transaction()
            .query_and_commit(
                include_str!("sql/set_unaligned.sql"),
                &[&rows::chain(lane), &lane.signer.as_slice()],
            )
            .await?;
        Ok(if set.is_empty() { Err(Refusal::CursorMoved) } else { Ok(()) })
    }

    async fn step_over_and_commit(
        self,
        lane: Lane,
        to: Nonce,
        event: &NewLaneEvent,
    ) -> Result<(), StoreError> {
        self.into_transaction()
            .execute_and_commit(
                include_str!("sql/step_over.sql"),
                &[
                    &rows::chain(lane),
                    &lane.signer.as_slice(),
                    &to.cast_signed(),
                    &event.kind.name(),
                    &Json(&event.data),
                ],
            )
            .await
    }

    async fn recover(
        self,
        node: &NodeId,
        claim: &Claim,
        recovery: &Recovery,
        now: Timestamp,
    ) -> Result<Option<Tx>, StoreError> {
        let Recovery { tx, nonce, attempt, data } = recovery;
        let lane = claim.lane;
        let (chain, signer, token) = (rows::chain(lane), lane.signer.as_slice(), claim.token.0);
        let (nonce, hash, raw) = (nonce.cast_signed(), attempt.hash.as_slice(), &attempt.raw[..]);
        let standing = standing_after(Step::Recovered)?;
        let (state, sub_state) =
            (standing.state.name(), standing.sub_state.map(|sub_state| sub_state.name()));
        let gas_limit = attempt.gas_limit.cast_signed();
        let contested: [Statement<'_>; 4] = [
            (include_str!("sql/claim_lost.sql"), &[&chain, &signer, &nonce, &hash, &tx.0, &raw]),
            (
                include_str!("sql/give_up_remembered.sql"),
                &[&chain, &signer, &nonce, &now, &REMEMBERED],
            ),
            (include_str!("sql/keep_past_hold_at.sql"), &[&chain, &signer, &nonce]),
            (
                include_str!("sql/recover_nonce.sql"),
                &[&chain, &signer, &nonce, &tx.0, &hash, &token, &now],
            ),
        ];
        let answers = self.transaction().query_all(&contested).await?;
        let lost = |place: usize| answers.get(place).is_none_or(Vec::is_empty);
        if lost(0) || lost(3) {
            self.into_transaction().rollback().await?;
            return Ok(None);
        }
        let bound = self
            .transaction()
            .query(
                include_str!("sql/recover_tx.sql"),
                &[&tx.0, &chain, &signer, &nonce, &hash, &gas_limit, &state, &sub_state, &now],
            )
            .await?;
        let Some(row) = bound.first() else {
            self.into_transaction().rollback().await?;
            return Ok(None);
        };
        let bound = tx_rows::tx(row)?;
        let (ids, hashes, raws) = (vec![tx.0], vec![hash], vec![raw]);
        let (fees, gas_limits) = (vec![Json(fees_json(&attempt.fees))], vec![gas_limit]);
        let (tokens, kinds) = (vec![token], vec![attempt.kind.name()]);
        let attempts: Statement<'_> = (
            include_str!("sql/insert_attempts.sql"),
            &[&ids, &hashes, &raws, &fees, &gas_limits, &tokens, &kinds, &now],
        );
        let (seqs, tenants) = (vec![bound.events.cast_signed()], vec![bound.tenant.as_str()]);
        let (chains, signers) = (vec![chain], vec![signer]);
        let (event_kinds, states) = (vec![EventKind::Recovered.name()], vec![state]);
        let (sub_states, event_tokens, told) =
            (vec![sub_state], vec![Some(token)], vec![Json(data)]);
        let events: Statement<'_> = (
            include_str!("sql/insert_events.sql"),
            &[
                &ids,
                &seqs,
                &tenants,
                &chains,
                &signers,
                &event_kinds,
                &states,
                &sub_states,
                &event_tokens,
                &told,
                &now,
                &node.0,
            ],
        );
        self.into_transaction().execute_all_and_commit(&[attempts, events]).await?;
        Ok(Some(bound))
    }
}
