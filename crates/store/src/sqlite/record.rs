//! What happened to transactions.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};
use stile_domain::NodeId;

use super::bind::Stop;
use super::events::Entry;
use super::fence::{Fenced, fence};
use super::restored::AWAITS_WORD;
use super::tx_rows::json;
use super::writer::in_savepoint;
use super::{accept, rows};
use crate::tx_types::{outcome_name, receipt_column};
use crate::{LaneChanges, NewTx, Recorded, Refusal, Sending, StoreError, TxChange};

/// A lane's changes. One that lost harms no other.
pub(super) fn record(
    connection: &Connection,
    node: &NodeId,
    part: &LaneChanges,
    lease: Duration,
) -> Result<Result<Vec<Recorded>, Refusal>, StoreError> {
    let recorded = in_savepoint(connection, |connection| {
        let fenced = fence(connection, &part.claim, None, lease)?.map_err(Stop::Refused)?;
        let changes = part.changes.iter().map(|change| fenced.record(node, change));
        changes.collect::<Result<Vec<Recorded>, Stop>>()
    });
    match recorded {
        Ok(recorded) => Ok(Ok(recorded)),
        Err(Stop::Refused(refusal)) => Ok(Err(refusal)),
        Err(Stop::Failed(error)) => Err(error),
    }
}

impl Fenced<'_> {
    /// Writes a change, by compare-and-set on the length of the history.
    fn record(&self, node: &NodeId, change: &TxChange) -> Result<Recorded, Stop> {
        let lane = self.claim().lane;
        let receipt = change.receipt.value();
        let resubmit_at =
            change.resubmit_after.value().map(|after| self.now() + rows::micros(*after));
        let changed = self
            .connection()
            .prepare_cached(&format!(
                "UPDATE tx AS t
                 SET state = ?6,
                     sub_state = ?7,
                     outcome = ?8,
                     events = events + ?9,
                     updated_at = CASE WHEN ?9 THEN ?5 ELSE updated_at END,
                     confirmed_at = CASE WHEN ?6 <> 'CONFIRMED' THEN NULL
                                         WHEN state = 'CONFIRMED' THEN confirmed_at
                                         ELSE ?5 END,
                     receipt = CASE WHEN ?10 THEN ?11 ELSE receipt END,
                     block_number = CASE WHEN ?10 THEN ?12 ELSE block_number END,
                     block_hash = CASE WHEN ?10 THEN ?13 ELSE block_hash END,
                     -- The attempt that was mined; otherwise the newest.
                     tx_hash = CASE WHEN ?11 IS NOT NULL THEN ?14
                                    WHEN ?25 IS NOT NULL THEN ?25
                                    WHEN NOT ?10 THEN tx_hash
                                    ELSE (SELECT a.hash FROM attempt a WHERE a.tx_id = ?1
                                          ORDER BY a.number DESC LIMIT 1) END,
                     told_height = CASE WHEN ?15 THEN ?16 ELSE told_height END,
                     told_hash = CASE WHEN ?15 THEN ?17 ELSE told_hash END,
                     rival = CASE WHEN ?26 THEN ?27 ELSE rival END,
                     rival_block = CASE WHEN ?26 THEN ?28 ELSE rival_block END,
                     wish = CASE WHEN ?29 = '' OR ?29 = wish THEN NULL ELSE wish END,
                     replaced_by = coalesce(?30, replaced_by),
                     error = CASE WHEN ?18 THEN ?19 ELSE error END,
                     sends = sends + ?20,
                     first_submit_at = CASE WHEN ?21 THEN coalesce(first_submit_at, ?5)
                                            ELSE first_submit_at END,
                     last_submit_at = CASE WHEN ?21 THEN ?5 ELSE last_submit_at END,
                     next_resubmit_at = CASE WHEN ?22 THEN ?23 ELSE next_resubmit_at END,
                     last_receipt_check_at = CASE WHEN ?24 THEN ?5 ELSE last_receipt_check_at END
                 WHERE tx_id = ?1 AND chain_id = ?2 AND signer = ?3 AND events = ?4
                   -- What was made anew stays closed, unless the other one was withdrawn; the
                   -- trigger says so too.
                   AND (replaced_by IS NULL OR state <> 'FAILED' OR ?6 = 'FAILED'
                        OR EXISTS (SELECT 1 FROM tx s WHERE s.tx_id = t.replaced_by
                                   AND s.state = 'FAILED' AND s.nonce IS NULL))
                   -- What may be on the chain is not refused for what the chain says of it now.
                   AND (?6 <> 'FAILED' OR state <> 'CREATED'
                        OR NOT EXISTS (SELECT 1 FROM lane l
                                       WHERE l.chain_id = ?2 AND l.signer = ?3 AND {AWAITS_WORD}))
                 RETURNING tenant, events"
            ))?
            .query_row(
                params![
                    change.tx.0,
                    rows::chain(lane),
                    lane.signer.as_slice(),
                    change.events,
                    self.now(),
                    change.standing.state.name(),
                    change.standing.sub_state.map(|sub_state| sub_state.name()),
                    outcome_name(&change.standing),
                    change.event.is_some(),
                    change.receipt.is_set(),
                    receipt.map(|receipt| json(&receipt_column(receipt))).transpose()?,
                    receipt.map(|receipt| receipt.block_number.cast_signed()),
                    receipt.map(|receipt| receipt.block_hash.as_slice()),
                    receipt.map(|receipt| receipt.tx_hash.as_slice()),
                    change.told.is_set(),
                    change.told.value().map(|told| told.0.cast_signed()),
                    change.told.value().map(|told| told.1.as_slice()),
                    change.error.is_set(),
                    change.error.value(),
                    change.sent.is_some(),
                    change.sent.as_ref().is_some_and(|sent| sent.taken),
                    change.resubmit_after.is_set(),
                    resubmit_at,
                    change.receipt_checked,
                    change.attempt.as_ref().map(|attempt| attempt.hash.as_slice()),
                    change.rival.is_set(),
                    change.rival.value().map(json).transpose()?,
                    change.rival.value().map(|rival| rival.block_number.cast_signed()),
                    change.wish.text()?,
                    change.successor.as_ref().map(|new| new.id.0),
                ],
                |row| Ok((row.get::<_, String>("tenant")?, row.get::<_, u32>("events")?)),
            )
            .optional()?;
        let Some((tenant, events)) = changed else { return Ok(Recorded::Lost) };
        if let Some(event) = &change.event {
            let entry = Entry {
                tx: change.tx,
                tenant: &tenant,
                lane,
                seq: events,
                kind: event.kind,
                standing: change.standing,
                node,
                token: Some(self.claim().token),
                data: &event.data,
                now: self.now(),
            };
            entry.write(self.connection())?;
        }
        if let Some(sent) = &change.sent {
            self.note_sending(change, sent)?;
        }
        if let Some(attempt) = &change.attempt {
            self.insert_attempt(change.tx, attempt)?;
        }
        if let Some(new) = &change.successor {
            self.accept_in_place(node, change, new)?;
        }
        Ok(Recorded::Written { events })
    }

    /// Accepts a transaction in the place of another one. Its name and its request id must be free:
    /// it is made by Stile itself.
    fn accept_in_place(&self, node: &NodeId, change: &TxChange, new: &NewTx) -> Result<(), Stop> {
        let new = NewTx { replaces: Some(change.tx), ..new.clone() };
        let taken = || format!("the name or the request id of {} is taken", new.id);
        accept::insert(self.connection(), node, &new, self.now())?
            .map(drop)
            .ok_or_else(|| Stop::Refused(Refusal::Inconsistent(taken())))
    }

    /// Notes on the attempt that it was sent.
    fn note_sending(&self, change: &TxChange, sent: &Sending) -> Result<(), Stop> {
        self.connection()
            .prepare_cached(
                "UPDATE attempt SET sends = sends + 1, last_sent_at = ?3, said = ?4
                 WHERE hash = ?1 AND tx_id = ?2",
            )?
            .execute(params![sent.hash.as_slice(), change.tx.0, self.now(), json(&sent.said)?])?;
        Ok(())
    }
}
