//! The fence, and the guard it yields.
//!
//! [`Fenced`] is the proof that this transaction holds the rows of the lanes in it, under the
//! claims' tokens. Only [`fence`] makes one, and the functions that write what belongs to a lane
//! are methods of it.

use std::collections::HashMap;
use std::time::Duration;

use stile_domain::{Lane, Timestamp};

use super::rows::{self, LaneColumns};
use super::session::Transaction;
use crate::{Advance, Claim, Refusal, StoreError};

/// Lanes whose rows this transaction has locked.
pub(super) struct Fenced<'t> {
    transaction: &'t Transaction,
    /// The lanes that passed, with the database's time when they did.
    passed: HashMap<Lane, (Claim, Timestamp)>,
}

/// What the fence let through, and why it stopped the rest.
pub(super) struct FenceResult<'t> {
    pub(super) fenced: Fenced<'t>,
    pub(super) refused: HashMap<Lane, Refusal>,
}

/// Locks the claims' lanes, moves their cursors as asked, and sorts out which claims still stand.
pub(super) async fn fence<'t>(
    transaction: &'t Transaction,
    claims: &[(Claim, Option<Advance>)],
    lease: Duration,
) -> Result<FenceResult<'t>, StoreError> {
    let mut fenced = Fenced { transaction, passed: HashMap::with_capacity(claims.len()) };
    let mut refused = HashMap::new();
    let Some((any, _)) = claims.first() else {
        return Ok(FenceResult { fenced, refused });
    };
    let columns = LaneColumns::of(claims.iter().map(|(claim, _)| claim.lane));
    let tokens: Vec<i64> = claims.iter().map(|(claim, _)| claim.token.0).collect();
    let firsts: Vec<Option<i64>> =
        claims.iter().map(|(_, advance)| advance.map(|a| a.first.cast_signed())).collect();
    let counts: Vec<Option<i64>> =
        claims.iter().map(|(_, advance)| advance.map(|a| a.count.cast_signed())).collect();
    let passed = transaction
        .query(
            include_str!("sql/fence.sql"),
            &[
                &columns.chains,
                &columns.signers,
                &tokens,
                &firsts,
                &counts,
                &any.incarnation.0,
                &rows::seconds(lease),
            ],
        )
        .await?;
    let by_lane: HashMap<Lane, &(Claim, Option<Advance>)> =
        claims.iter().map(|item| (item.0.lane, item)).collect();
    for row in &passed {
        let lane = rows::lane(row)?;
        if let Some((claim, _)) = by_lane.get(&lane) {
            fenced.passed.insert(lane, (*claim, row.try_get("updated_at")?));
        }
    }
    if fenced.passed.len() < claims.len() {
        let missing = claims.iter().filter(|(claim, _)| !fenced.passed.contains_key(&claim.lane));
        let columns = LaneColumns::of(missing.map(|(claim, _)| claim.lane));
        let found = transaction
            .query(include_str!("sql/lane_rows.sql"), &[&columns.chains, &columns.signers])
            .await?;
        for row in &found {
            let lane = rows::lane(row)?;
            if let Some((claim, _)) = by_lane.get(&lane) {
                refused.insert(lane, why(row, claim)?);
            }
        }
    }
    Ok(FenceResult { fenced, refused })
}

/// Why a lane did not pass.
fn why(row: &tokio_postgres::Row, claim: &Claim) -> Result<Refusal, StoreError> {
    let owner = rows::owner(row)?;
    if owner.token != claim.token || owner.incarnation != claim.incarnation {
        return Ok(Refusal::Fenced(owner));
    }
    Ok(match row.try_get::<_, Option<String>>("paused")? {
        Some(reason) => Refusal::Paused(reason),
        None => Refusal::CursorMoved,
    })
}

impl Fenced<'_> {
    /// The transaction, for the statements that this proof allows.
    pub(super) fn transaction(&self) -> &Transaction {
        self.transaction
    }

    /// The claim a lane passed under.
    pub(super) fn claim(&self, lane: Lane) -> Option<Claim> {
        self.passed.get(&lane).map(|(claim, _)| *claim)
    }

    /// The lanes that passed.
    pub(super) fn lanes(&self) -> impl Iterator<Item = Lane> + '_ {
        self.passed.keys().copied()
    }

    /// The database's time when the fence was passed; `None` if no lane did.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.passed.values().map(|(_, time)| *time).max()
    }
}
