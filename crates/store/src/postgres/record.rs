//! What happened to transactions: the fence, then everything in one statement with the commit.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use stile_domain::{EventKind, Lane, NodeId, Receipt, Rival, Standing, Timestamp, TxId};
use tokio_postgres::types::Json;
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::lane_work::{Answers, Attempt, LaneWork};
use super::rows::LaneColumns;
use super::session::Sessions;
use super::tx_rows::NewTxColumns;
use crate::tx_columns::fees_json;
use crate::tx_types::{outcome_name, receipt_column};
use crate::{Claim, LaneChanges, NewAttempt, Recorded, StoreError, TxChange};

/// Changes of transactions, by this node.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Record {
    pub(super) node: NodeId,
    pub(super) lease: Duration,
}

impl LaneWork for Record {
    type Part = LaneChanges;
    type Answer = Vec<Recorded>;

    fn lane(part: &LaneChanges) -> Lane {
        part.claim.lane
    }

    fn rows(part: &LaneChanges) -> usize {
        part.changes.len()
    }

    async fn attempt(
        &self,
        sessions: &Sessions,
        parts: &[&LaneChanges],
    ) -> Result<Attempt<Vec<Recorded>>, StoreError> {
        let claims: Vec<_> = parts.iter().map(|part| (part.claim, None)).collect();
        let FenceResult { fenced, refused } = fence(sessions, &claims, self.lease).await?;
        let mut answers: Answers<Vec<Recorded>> =
            refused.into_iter().map(|(lane, refusal)| (lane, Err(refusal))).collect();
        let Some(now) = fenced.time() else {
            fenced.into_transaction().rollback().await?;
            return Ok(Attempt::Committed(answers));
        };
        let passed: Vec<&LaneChanges> =
            parts.iter().copied().filter(|part| fenced.claim(part.claim.lane).is_some()).collect();
        let written = fenced.record_and_commit(&passed, now, &self.node).await?;
        for part in passed {
            let recorded = part.changes.iter().map(|change| match written.get(&change.tx) {
                Some(events) => Recorded::Written { events: *events },
                None => Recorded::Lost,
            });
            answers.insert(part.claim.lane, Ok(recorded.collect()));
        }
        Ok(Attempt::Committed(answers))
    }
}

/// Changes as `unnest` takes them.
struct ChangeColumns<'c> {
    ids: Vec<Uuid>,
    lanes: LaneColumns,
    tokens: Vec<i64>,
    events: Vec<i32>,
    states: Vec<&'static str>,
    sub_states: Vec<Option<&'static str>>,
    outcomes: Vec<Option<&'static str>>,
    kinds: Vec<Option<&'static str>>,
    data: Vec<Option<Json<&'c serde_json::Value>>>,
    set_receipt: Vec<bool>,
    receipts: Vec<Option<Json<Cow<'c, Receipt>>>>,
    block_numbers: Vec<Option<i64>>,
    block_hashes: Vec<Option<&'c [u8]>>,
    mined_hashes: Vec<Option<&'c [u8]>>,
    set_told: Vec<bool>,
    told_heights: Vec<Option<i64>>,
    told_hashes: Vec<Option<&'c [u8]>>,
    set_error: Vec<bool>,
    errors: Vec<Option<&'c str>>,
    sent_hashes: Vec<Option<&'c [u8]>>,
    taken: Vec<bool>,
    said: Vec<Option<Json<&'c serde_json::Value>>>,
    set_resubmit: Vec<bool>,
    resubmit_at: Vec<Option<Timestamp>>,
    receipt_checked: Vec<bool>,
    attempt_hashes: Vec<Option<&'c [u8]>>,
    set_rival: Vec<bool>,
    rivals: Vec<Option<Json<&'c Rival>>>,
    rival_blocks: Vec<Option<i64>>,
    wishes_done: Vec<Option<String>>,
    successors: Vec<Option<Uuid>>,
}

impl<'c> ChangeColumns<'c> {
    fn of(changes: &[(Claim, &'c TxChange)], now: Timestamp) -> Result<Self, StoreError> {
        fn column<'c, T>(
            changes: &[(Claim, &'c TxChange)],
            of: impl Fn(&'c TxChange) -> T,
        ) -> Vec<T> {
            changes.iter().map(|(_, change)| of(change)).collect()
        }
        let resubmit_at = changes.iter().map(|(_, change)| {
            change.resubmit_after.value().map(|after| crate::open::after(now, *after)).transpose()
        });
        let wishes_done = changes.iter().map(|(_, change)| change.wish.text());
        Ok(Self {
            ids: column(changes, |c| c.tx.0),
            lanes: LaneColumns::of(changes.iter().map(|(claim, _)| claim.lane)),
            tokens: changes.iter().map(|(claim, _)| claim.token.0).collect(),
            events: column(changes, |c| c.events.cast_signed()),
            states: column(changes, |c| c.standing.state.name()),
            sub_states: column(changes, |c| c.standing.sub_state.map(|it| it.name())),
            outcomes: column(changes, |c| outcome_name(&c.standing)),
            kinds: column(changes, |c| c.event.as_ref().map(|event| event.kind.name())),
            data: column(changes, |c| c.event.as_ref().map(|event| Json(&event.data))),
            set_receipt: column(changes, |c| c.receipt.is_set()),
            receipts: column(changes, |c| c.receipt.value().map(|it| Json(receipt_column(it)))),
            block_numbers: column(changes, |c| {
                c.receipt.value().map(|receipt| receipt.block_number.cast_signed())
            }),
            block_hashes: column(changes, |c| c.receipt.value().map(|it| it.block_hash.as_slice())),
            mined_hashes: column(changes, |c| c.receipt.value().map(|it| it.tx_hash.as_slice())),
            set_told: column(changes, |c| c.told.is_set()),
            told_heights: column(changes, |c| c.told.value().map(|told| told.0.cast_signed())),
            told_hashes: column(changes, |c| c.told.value().map(|told| told.1.as_slice())),
            set_error: column(changes, |c| c.error.is_set()),
            errors: column(changes, |c| c.error.value().map(String::as_str)),
            sent_hashes: column(changes, |c| c.sent.as_ref().map(|sent| sent.hash.as_slice())),
            taken: column(changes, |c| c.sent.as_ref().is_some_and(|sent| sent.taken)),
            said: column(changes, |c| c.sent.as_ref().map(|sent| Json(&sent.said))),
            set_resubmit: column(changes, |c| c.resubmit_after.is_set()),
            resubmit_at: resubmit_at.collect::<Result<_, _>>()?,
            receipt_checked: column(changes, |c| c.receipt_checked),
            attempt_hashes: column(changes, |c| c.attempt.as_ref().map(|it| it.hash.as_slice())),
            set_rival: column(changes, |c| c.rival.is_set()),
            rivals: column(changes, |c| c.rival.value().map(Json)),
            rival_blocks: column(changes, |c| {
                c.rival.value().map(|rival| rival.block_number.cast_signed())
            }),
            wishes_done: wishes_done.collect::<Result<_, _>>()?,
            successors: column(changes, |c| c.successor.as_ref().map(|new| new.id.0)),
        })
    }
}

/// New attempts as `unnest` takes them: of the few changes that have one.
struct AttemptColumns<'c> {
    txs: Vec<Uuid>,
    kinds: Vec<&'static str>,
    hashes: Vec<&'c [u8]>,
    raws: Vec<&'c [u8]>,
    fees: Vec<Json<serde_json::Value>>,
    gas_limits: Vec<i64>,
}

impl<'c> AttemptColumns<'c> {
    fn of(changes: &[(Claim, &'c TxChange)]) -> Self {
        let new: Vec<(TxId, &NewAttempt)> = changes
            .iter()
            .filter_map(|(_, change)| Some((change.tx, change.attempt.as_ref()?)))
            .collect();
        Self {
            txs: new.iter().map(|(tx, _)| tx.0).collect(),
            kinds: new.iter().map(|(_, attempt)| attempt.kind.name()).collect(),
            hashes: new.iter().map(|(_, attempt)| attempt.hash.as_slice()).collect(),
            raws: new.iter().map(|(_, attempt)| &attempt.raw[..]).collect(),
            fees: new.iter().map(|(_, attempt)| Json(fees_json(&attempt.fees))).collect(),
            gas_limits: new.iter().map(|(_, attempt)| attempt.gas_limit.cast_signed()).collect(),
        }
    }
}

impl Fenced {
    /// Writes the changes and commits; answers with the lengths of the histories of those that won.
    async fn record_and_commit(
        self,
        parts: &[&LaneChanges],
        now: Timestamp,
        node: &NodeId,
    ) -> Result<HashMap<TxId, u32>, StoreError> {
        let changes: Vec<(Claim, &TxChange)> = parts
            .iter()
            .flat_map(|part| part.changes.iter().map(|change| (part.claim, change)))
            .collect();
        let columns = ChangeColumns::of(&changes, now)?;
        let attempts = AttemptColumns::of(&changes);
        let replaced = changes.iter().filter(|(_, change)| change.successor.is_some());
        let replaced: Vec<Uuid> = replaced.map(|(_, change)| change.tx.0).collect();
        let made = changes.iter().filter_map(|(_, change)| change.successor.as_deref());
        let made = NewTxColumns::of(made);
        let created = Standing::CREATED;
        let rows = self
            .into_transaction()
            .query_and_commit(
                include_str!("sql/record.sql"),
                &[
                    &columns.ids,
                    &columns.lanes.chains,
                    &columns.lanes.signers,
                    &columns.tokens,
                    &columns.events,
                    &columns.states,
                    &columns.sub_states,
                    &columns.outcomes,
                    &columns.kinds,
                    &columns.data,
                    &columns.set_receipt,
                    &columns.receipts,
                    &columns.block_numbers,
                    &columns.block_hashes,
                    &columns.mined_hashes,
                    &columns.set_told,
                    &columns.told_heights,
                    &columns.told_hashes,
                    &columns.set_error,
                    &columns.errors,
                    &columns.sent_hashes,
                    &columns.taken,
                    &columns.said,
                    &columns.set_resubmit,
                    &columns.resubmit_at,
                    &columns.receipt_checked,
                    &columns.attempt_hashes,
                    &columns.set_rival,
                    &columns.rivals,
                    &columns.rival_blocks,
                    &columns.wishes_done,
                    &columns.successors,
                    &now,
                    &node.0,
                    &attempts.txs,
                    &attempts.kinds,
                    &attempts.hashes,
                    &attempts.raws,
                    &attempts.fees,
                    &attempts.gas_limits,
                    &replaced,
                    &made.ids,
                    &made.tenants,
                    &made.chains,
                    &made.signers,
                    &made.request_ids,
                    &made.request_hashes,
                    &made.payloads,
                    &made.finalities,
                    &made.gas_limits,
                    &created.state.name(),
                    &created.sub_state.map(|sub_state| sub_state.name()),
                    &EventKind::Accepted.name(),
                ],
            )
            .await?;
        rows.iter()
            .map(|row| {
                let events: i32 = row.try_get("events")?;
                Ok((TxId(row.try_get("tx_id")?), events.unsigned_abs()))
            })
            .collect()
    }
}
