//! The fence, and the guard it yields.
//!
//! [`Fenced`] is the proof that this transaction holds the rows of the lanes in it, under the
//! claims' tokens. Only [`fence`] makes one, and the functions that write what belongs to a lane
//! are methods of it.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stile_domain::{Lane, Timestamp};

use super::reached;
use super::rows::{self, ClaimColumns, LaneColumns};
use super::session::{Sessions, Transaction};
use crate::{Advance, Claim, Refusal, StoreError};

const FENCE: &str = include_str!("sql/fence.sql");

/// An open transaction, and the lanes whose rows it has locked.
pub(super) struct Fenced {
    transaction: Transaction,
    /// The lanes that passed, with the database's time when they did.
    passed: HashMap<Lane, (Claim, Timestamp)>,
    /// Those of them whose database was restored: what waits on them may have been sent before.
    restored: HashSet<Lane>,
}

/// What the fence let through, and why it stopped the rest.
pub(super) struct FenceResult {
    pub(super) fenced: Fenced,
    pub(super) refused: HashMap<Lane, Refusal>,
}

/// Opens a transaction that locks the claims' lanes, moves their cursors as asked, and sorts out
/// which claims still stand. If the database has lost commits that this process has seen, that is
/// noted first.
pub(super) async fn fence(
    sessions: &Sessions,
    claims: &[(Claim, Option<Advance>)],
    lease: Duration,
) -> Result<FenceResult, StoreError> {
    for _ in 0..2 {
        if let Some(result) = try_fence(sessions, claims, lease).await? {
            return Ok(result);
        }
        reached::note_loss(sessions).await?;
    }
    Err(StoreError::Unavailable("the database keeps losing commits".into()))
}

/// `None`: commits are gone, and nothing was written.
async fn try_fence(
    sessions: &Sessions,
    claims: &[(Claim, Option<Advance>)],
    lease: Duration,
) -> Result<Option<FenceResult>, StoreError> {
    let before = sessions.reached().so_far();
    let columns = ClaimColumns::of(claims.iter().map(|(claim, _)| claim));
    let firsts: Vec<Option<i64>> =
        claims.iter().map(|(_, advance)| advance.map(|a| a.first.cast_signed())).collect();
    let counts: Vec<Option<i64>> =
        claims.iter().map(|(_, advance)| advance.map(|a| a.count.cast_signed())).collect();
    let (mut transaction, locked) = sessions
        .begin(
            statement(),
            &[
                &columns.lanes.chains,
                &columns.lanes.signers,
                &columns.incarnations,
                &columns.tokens,
                &firsts,
                &counts,
                &rows::seconds(lease),
            ],
        )
        .await?;
    let Some(position) = sessions.reached().compare(before, locked.first()) else {
        transaction.rollback().await?;
        return Ok(None);
    };
    transaction.read_at(sessions.reached(), position);
    let mut passed = HashMap::with_capacity(claims.len());
    let (mut refused, mut restored) = (HashMap::new(), HashSet::new());
    let by_lane: HashMap<Lane, &(Claim, Option<Advance>)> =
        claims.iter().map(|item| (item.0.lane, item)).collect();
    for row in &locked {
        let lane = rows::lane(row)?;
        if let Some((claim, _)) = by_lane.get(&lane) {
            passed.insert(lane, (*claim, row.try_get("updated_at")?));
            if row.try_get("restored")? {
                restored.insert(lane);
            }
        }
    }
    if passed.len() < claims.len() {
        let missing = claims.iter().filter(|(claim, _)| !passed.contains_key(&claim.lane));
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
    Ok(Some(FenceResult { fenced: Fenced { transaction, passed, restored }, refused }))
}

/// The first statement of every write of a lane's holder.
fn statement() -> &'static str {
    #[cfg(feature = "planted-bugs")]
    if crate::planted::Bug::UnfencedWrite.is_planted() {
        return unfenced();
    }
    FENCE
}

/// A planted bug: the fence without its look at incarnation and token. Made from the fence, so that
/// it lacks nothing else.
#[cfg(feature = "planted-bugs")]
fn unfenced() -> &'static str {
    const LOOK: &str = "AND l.owner_incarnation = k.incarnation AND l.fencing_token = k.token\n";
    static UNFENCED: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| {
        assert_eq!(FENCE.matches(LOOK).count(), 1, "the fence has changed");
        FENCE.replace(LOOK, "\n")
    });
    &UNFENCED
}

/// Why a lane did not pass.
fn why(row: &tokio_postgres::Row, claim: &Claim) -> Result<Refusal, StoreError> {
    let owner = rows::owner(row)?;
    if owner.token != claim.token || owner.incarnation != claim.incarnation {
        return Ok(Refusal::Fenced(owner));
    }
    if let Some(elsewhere) = rows::elsewhere(row)? {
        return Ok(Refusal::Elsewhere(elsewhere));
    }
    Ok(match row.try_get::<_, Option<String>>("paused")? {
        Some(reason) => Refusal::Paused(reason),
        None if !row.try_get::<_, bool>("aligned")? => Refusal::Unaligned,
        None => Refusal::CursorMoved,
    })
}

impl Fenced {
    /// The transaction, for the statements that this proof allows.
    pub(super) fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    /// The transaction, to be ended.
    pub(super) fn into_transaction(self) -> Transaction {
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

    /// Whether the database was restored since the lane was last settled.
    pub(super) fn is_restored(&self, lane: Lane) -> bool {
        self.restored.contains(&lane)
    }

    /// The database's time when the fence was passed; `None` if no lane did.
    pub(super) fn time(&self) -> Option<Timestamp> {
        self.passed.values().map(|(_, time)| *time).max()
    }
}
