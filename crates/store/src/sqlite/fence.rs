//! The fence, and the guard it yields.
//!
//! [`Fenced`] is the proof that the lane's row has been updated under the claim's token in this
//! transaction. Only [`fence`] makes one, and the functions that write what belongs to a lane are
//! methods of it.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{self, LANE_COLUMNS};
use crate::{Advance, Claim, Refusal, StoreError};

pub(super) struct Fenced<'t> {
    connection: &'t Connection,
    claim: Claim,
    now: i64,
}

/// Checks the claim against the lane's row, extends the lease, and moves the cursor as asked.
pub(super) fn fence<'t>(
    connection: &'t Connection,
    claim: &Claim,
    advance: Option<Advance>,
    lease: Duration,
) -> Result<Result<Fenced<'t>, Refusal>, StoreError> {
    let now = rows::now(connection)?;
    let passed = connection
        .prepare_cached(
            "UPDATE lane
             SET expires_at = ?5, updated_at = ?6,
                 next_nonce = CASE WHEN ?7 IS NULL THEN next_nonce ELSE next_nonce + ?8 END
             WHERE chain_id = ?1 AND signer = ?2 AND owner_incarnation = ?3 AND fencing_token = ?4
               AND (?7 IS NULL OR (next_nonce = ?7 AND paused IS NULL AND elsewhere IS NULL
                                   AND timeline IS NOT NULL))",
        )?
        .execute(params![
            rows::chain(claim.lane),
            claim.lane.signer.as_slice(),
            claim.incarnation.0,
            claim.token.0,
            now + rows::micros(lease),
            now,
            advance.map(|a| a.first.cast_signed()),
            advance.map(|a| a.count.cast_signed()),
        ])?;
    if passed == 1 {
        return Ok(Ok(Fenced { connection, claim: *claim, now }));
    }
    why(connection, claim, now).map(Err)
}

/// Why the lane did not pass.
fn why(connection: &Connection, claim: &Claim, now: i64) -> Result<Refusal, StoreError> {
    let sql = format!("SELECT {LANE_COLUMNS} FROM lane WHERE chain_id = ?1 AND signer = ?2");
    let found = connection
        .prepare_cached(&sql)?
        .query_row(params![rows::chain(claim.lane), claim.lane.signer.as_slice()], |row| {
            let paused = row.get::<_, Option<String>>("paused")?;
            let elsewhere = rows::elsewhere(row)?;
            Ok((rows::owner(row, now)?, paused, elsewhere, rows::is_aligned(row)?))
        })
        .optional()?;
    let (owner, paused, elsewhere, aligned) =
        found.ok_or_else(|| StoreError::Internal(format!("the row of {} is gone", claim.lane)))?;
    if owner.token != claim.token || owner.incarnation != claim.incarnation {
        return Ok(Refusal::Fenced(owner));
    }
    if let Some(elsewhere) = elsewhere {
        return Ok(Refusal::Elsewhere(elsewhere));
    }
    Ok(match paused {
        Some(reason) => Refusal::Paused(reason),
        None if !aligned => Refusal::Unaligned,
        None => Refusal::CursorMoved,
    })
}

impl Fenced<'_> {
    /// The connection, for the statements that this proof allows.
    pub(super) fn connection(&self) -> &Connection {
        self.connection
    }

    /// The claim that passed.
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// The database's time when it did, in microseconds.
    pub(super) fn now(&self) -> i64 {
        self.now
    }
}
