//! What a node remembers of a lane, held against what a failover has left of it.

use std::collections::HashMap;

use serde_json::json;
use stile_domain::{
    AttemptKind, B256, EventKind, HistoryChange, Lane, NodeId, Nonce, NotCovered, OnRecord,
    Remembered, RememberedAttempt, Step, TxId,
};
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::fence::Fenced;
use super::session::Statement;
use super::{rows, tx_rows};
use crate::tx_columns::{fees_json, standing_after};
use crate::{Claim, StoreError};

impl Fenced {
    /// The bindings that were lost, if the holder's memory covers everything that can have been.
    pub(super) async fn covered(
        &self,
        lane: Lane,
        change: HistoryChange,
        remembered: &Remembered,
        (cursor, highest): (Nonce, Option<Nonce>),
    ) -> Result<Result<Vec<RememberedAttempt>, NotCovered>, StoreError> {
        let memory = match (change, &remembered.memory) {
            (HistoryChange::Promotion | HistoryChange::Lossy, Some(memory)) => memory,
            _ => return Ok(Err(NotCovered::NotHeld)),
        };
        let asked: Vec<(TxId, B256)> = memory.attempts().collect();
        let ids: Vec<Uuid> = asked.iter().map(|(tx, _)| tx.0).collect();
        let hashes: Vec<&[u8]> = asked.iter().map(|(_, hash)| hash.as_slice()).collect();
        let (chain, signer) = (rows::chain(lane), lane.signer.as_slice());
        // One more than can be explained says as much as all of them.
        let most = i64::try_from(ids.len() + 1).unwrap_or(i64::MAX);
        let answers = self
            .transaction()
            .query_all(&[
                (include_str!("sql/remembered_txs.sql"), &[&ids, &hashes]),
                (include_str!("sql/count_waiting.sql"), &[&chain, &signer, &most]),
            ])
            .await?;
        let mut found = HashMap::with_capacity(asked.len());
        for row in answers.first().into_iter().flatten() {
            let place = row.try_get::<_, i64>("place")? - 1;
            let asked = usize::try_from(place).ok().and_then(|place| asked.get(place));
            let (known, waits, written) =
                (row.try_get("known")?, row.try_get("waits")?, row.try_get("written")?);
            let on_record = match (known, waits, written) {
                (_, _, true) => OnRecord::Attempt,
                (false, _, _) => OnRecord::Nothing,
                (true, true, _) => OnRecord::Waiting,
                (true, false, _) => OnRecord::Other,
            };
            found.extend(asked.map(|asked| (*asked, on_record)));
        }
        let waits: i64 = match answers.get(1).and_then(|rows| rows.first()) {
            Some(row) => row.try_get("waits")?,
            None => i64::MAX,
        };
        let waits = usize::try_from(waits).unwrap_or(usize::MAX);
        let unknown = cursor.max(highest.map_or(0, |nonce| nonce + 1));
        Ok(remembered.lost_bindings(unknown, waits, |tx, hash| {
            found.get(&(tx, hash)).copied().unwrap_or(OnRecord::Nothing)
        }))
    }

    /// Binds transactions to the nonces that they had, with the bytes that were signed. `false` if one
    /// of them does not wait any more: then nothing may be committed.
    pub(super) async fn bind_again(
        &self,
        node: &NodeId,
        claim: &Claim,
        lost: &[RememberedAttempt],
    ) -> Result<bool, StoreError> {
        let (Some(now), false) = (self.time(), lost.is_empty()) else { return Ok(true) };
        let (chain, signer) = (rows::chain(claim.lane), claim.lane.signer.as_slice());
        let standing = standing_after(Step::Recovered)?;
        let state = standing.state.name();
        let sub_state = standing.sub_state.map(|sub_state| sub_state.name());
        let mut bound = Vec::with_capacity(lost.len());
        for it in lost {
            let (nonce, gas_limit) = (it.nonce.cast_signed(), it.gas_limit.cast_signed());
            let hash = it.hash.as_slice();
            let rows = self
                .transaction()
                .query(
                    include_str!("sql/recover_tx.sql"),
                    &[
                        &it.tx.0, &chain, &signer, &nonce, &hash, &gas_limit, &state, &sub_state,
                        &now,
                    ],
                )
                .await?;
            match rows.first() {
                Some(row) => bound.push(tx_rows::tx(row)?),
                None => return Ok(false),
            }
        }
        let count = lost.len();
        let (chains, signers) = (vec![chain; count], vec![signer; count]);
        let tokens = vec![claim.token.0; count];
        let ids: Vec<Uuid> = lost.iter().map(|it| it.tx.0).collect();
        let nonces: Vec<i64> = lost.iter().map(|it| it.nonce.cast_signed()).collect();
        let hashes: Vec<&[u8]> = lost.iter().map(|it| it.hash.as_slice()).collect();
        let raws: Vec<&[u8]> =
            lost.iter().map(|it| it.raw.as_ref().map_or(&[][..], |raw| &raw[..])).collect();
        let fees: Vec<_> = lost.iter().map(|it| Json(fees_json(&it.fees))).collect();
        let gas_limits: Vec<i64> = lost.iter().map(|it| it.gas_limit.cast_signed()).collect();
        let kinds = vec![AttemptKind::Send.name(); count];
        let seqs: Vec<i32> = bound.iter().map(|tx| tx.events.cast_signed()).collect();
        let tenants: Vec<&str> = bound.iter().map(|tx| tx.tenant.as_str()).collect();
        let (event_kinds, states) = (vec![EventKind::Recovered.name(); count], vec![state; count]);
        let (sub_states, event_tokens) = (vec![sub_state; count], vec![Some(claim.token.0); count]);
        let told: Vec<_> = lost
            .iter()
            .map(|it| {
                Json(json!({
                    "nonce": it.nonce,
                    "txHash": it.hash,
                    "reason": "this node remembers the nonce and the bytes, which the database had lost",
                }))
            })
            .collect();
        let statements: [Statement<'_>; 3] = [
            (
                include_str!("sql/insert_tx_nonces.sql"),
                &[&chains, &signers, &nonces, &ids, &hashes, &tokens, &now],
            ),
            (
                include_str!("sql/insert_attempts.sql"),
                &[&ids, &hashes, &raws, &fees, &gas_limits, &tokens, &kinds, &now],
            ),
            (
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
            ),
        ];
        self.transaction().query_all(&statements).await?;
        Ok(true)
    }
}
