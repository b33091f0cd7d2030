//! What needs no lease: callers' marks on their own holds.

use rusqlite::{Connection, OptionalExtension, params};

use super::read;
use super::rows::{self, HOLD_COLUMNS};
use crate::mark_rules;
use crate::{Mark, MarkOutcome, MarkVerdict, StoreError};

pub(super) fn mark(connection: &Connection, mark: &Mark) -> Result<MarkOutcome, StoreError> {
    let (hash, reason) = match &mark.verdict {
        MarkVerdict::Used(hash) => (Some(hash.as_slice()), None),
        MarkVerdict::Recyclable(reason) => (None, Some(reason.as_str())),
    };
    let sql = format!(
        "UPDATE nonce
         SET status = CASE WHEN ?5 IS NULL THEN 'RELEASED' ELSE 'CONSUMED' END,
             tx_hash = ?5, reason = coalesce(?6, reason), updated_at = ?7
         WHERE chain_id = ?1 AND signer = ?2 AND nonce = ?3 AND owner_kind = 'hold' AND owner_id = ?4
           AND CASE WHEN ?5 IS NULL THEN status IN ('HELD', 'SUSPECT')
                    ELSE status <> 'CONSUMED' OR tx_hash IS NULL END
         RETURNING {HOLD_COLUMNS}"
    );
    let changed = connection
        .prepare_cached(&sql)?
        .query_row(
            params![
                rows::chain(mark.lane),
                mark.lane.signer.as_slice(),
                mark.nonce.cast_signed(),
                mark.hold.0,
                hash,
                reason,
                rows::now(connection)?,
            ],
            rows::hold,
        )
        .optional()?;
    if let Some(hold) = changed {
        return Ok(MarkOutcome::Done(hold));
    }
    let found = read::hold(connection, mark.lane, mark.nonce, mark.hold)?;
    Ok(mark_rules::unchanged(mark, found))
}
