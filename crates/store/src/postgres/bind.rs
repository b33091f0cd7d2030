//! Planned holds: what `allocate` commits.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use stile_domain::{Hold, Lane, Timestamp};
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::rows;
use super::session::Sessions;
use crate::{Advance, Binding, Refusal, StoreError};

type Answers = HashMap<Lane, Result<Vec<Hold>, Refusal>>;

pub(super) async fn bind(
    sessions: &Sessions,
    bindings: &[Binding],
    lease: Duration,
    hold_timeout: Duration,
) -> Result<Vec<Result<Vec<Hold>, Refusal>>, StoreError> {
    let mut answers = Answers::with_capacity(bindings.len());
    let mut open: Vec<&Binding> = bindings.iter().collect();
    while !open.is_empty() {
        let attempt = attempt(sessions, &open, lease, hold_timeout);
        match sessions.within(StoreError::CommitUnknown, attempt).await {
            Ok(Attempt::Committed(committed)) => {
                answers.extend(committed);
                open.clear();
            }
            Ok(Attempt::Lost(lost)) => {
                // All or nothing for a lane: its part is refused, the others go again without it.
                answers.extend(lost.iter().map(|lane| (*lane, Err(Refusal::RowLost))));
                open.retain(|binding| !lost.contains(&binding.claim.lane));
            }
            // One lane's rows break a constraint. Each lane on its own shows which one it is.
            Err(StoreError::Constraint(_)) if open.len() > 1 => {
                one_by_one(sessions, &open, lease, hold_timeout, &mut answers).await?;
                open.clear();
            }
            Err(StoreError::Constraint(text)) => {
                answers.insert(open[0].claim.lane, Err(Refusal::Inconsistent(text)));
                open.clear();
            }
            Err(error) => return Err(error),
        }
    }
    bindings
        .iter()
        .map(|binding| {
            let lane = binding.claim.lane;
            answers
                .remove(&lane)
                .ok_or_else(|| StoreError::Internal(format!("the row of {lane} is gone")))
        })
        .collect()
}

async fn one_by_one(
    sessions: &Sessions,
    bindings: &[&Binding],
    lease: Duration,
    hold_timeout: Duration,
    answers: &mut Answers,
) -> Result<(), StoreError> {
    for binding in bindings {
        let part = Box::pin(bind(sessions, std::slice::from_ref(*binding), lease, hold_timeout));
        // Earlier lanes are committed by now, so a failure here leaves the whole call's fate to
        // be read back.
        let part = part.await.map_err(|e| StoreError::CommitUnknown(e.to_string()))?;
        answers.extend(part.into_iter().map(|answer| (binding.claim.lane, answer)));
    }
    Ok(())
}

enum Attempt {
    Committed(Answers),
    /// Lanes that lost a planned row; everything was rolled back.
    Lost(HashSet<Lane>),
}

async fn attempt(
    sessions: &Sessions,
    bindings: &[&Binding],
    lease: Duration,
    hold_timeout: Duration,
) -> Result<Attempt, StoreError> {
    let claims: Vec<_> = bindings
        .iter()
        .map(|b| (b.claim, Some(Advance { first: b.plan.first, count: b.plan.fresh })))
        .collect();
    let FenceResult { fenced, refused } = fence(sessions, &claims, lease).await?;
    let mut answers: Answers =
        refused.into_iter().map(|(lane, refusal)| (lane, Err(refusal))).collect();
    let Some(now) = fenced.time() else {
        fenced.into_transaction().rollback().await?;
        return Ok(Attempt::Committed(answers));
    };
    let passed: Vec<&Binding> =
        bindings.iter().copied().filter(|b| fenced.claim(b.claim.lane).is_some()).collect();
    let lost = fenced.reissue(&passed, now, hold_timeout).await?;
    if !lost.is_empty() {
        fenced.into_transaction().rollback().await?;
        return Ok(Attempt::Lost(lost));
    }
    fenced.insert_keys(&passed, now).await?;
    fenced.insert_and_commit(&passed, now, hold_timeout).await?;
    let locked_until = crate::open::after(now, hold_timeout)?;
    answers.extend(passed.iter().map(|b| (b.claim.lane, Ok(b.written(locked_until)))));
    Ok(Attempt::Committed(answers))
}

impl Fenced {
    /// Puts released nonces into new hands; answers with the lanes for which one was lost.
    async fn reissue(
        &self,
        bindings: &[&Binding],
        now: Timestamp,
        hold_timeout: Duration,
    ) -> Result<HashSet<Lane>, StoreError> {
        let wanted: Vec<_> = bindings
            .iter()
            .flat_map(|b| {
                b.plan.reissued.iter().zip(&b.holds).map(|(old, new)| (b.claim, old, new))
            })
            .collect();
        if wanted.is_empty() {
            return Ok(HashSet::new());
        }
        let columns = rows::LaneColumns::of(wanted.iter().map(|(claim, ..)| claim.lane));
        let nonces: Vec<i64> = wanted.iter().map(|(_, old, _)| old.nonce.cast_signed()).collect();
        let previous: Vec<Uuid> = wanted.iter().map(|(_, old, _)| old.hold.0).collect();
        let holds: Vec<Uuid> = wanted.iter().map(|(.., new)| new.id.0).collect();
        let tokens: Vec<i64> = wanted.iter().map(|(claim, ..)| claim.token.0).collect();
        let transaction = self.transaction();
        transaction
            .execute(
                include_str!("sql/keep_past_holds.sql"),
                &[&columns.chains, &columns.signers, &nonces, &previous],
            )
            .await?;
        let won = transaction
            .query(
                include_str!("sql/reissue_holds.sql"),
                &[
                    &columns.chains,
                    &columns.signers,
                    &nonces,
                    &previous,
                    &holds,
                    &tokens,
                    &now,
                    &rows::seconds(hold_timeout),
                ],
            )
            .await?;
        let mut won_nonces = HashSet::with_capacity(won.len());
        for row in &won {
            won_nonces.insert((rows::lane(row)?, rows::nonce(row.try_get("nonce")?)));
        }
        Ok(wanted
            .iter()
            .filter(|(claim, old, _)| !won_nonces.contains(&(claim.lane, old.nonce)))
            .map(|(claim, ..)| claim.lane)
            .collect())
    }

    /// Writes fresh nonces, and commits everything.
    async fn insert_and_commit(
        self,
        bindings: &[&Binding],
        now: Timestamp,
        hold_timeout: Duration,
    ) -> Result<(), StoreError> {
        let count = bindings.iter().map(|b| b.plan.fresh as usize).sum();
        let mut chains = Vec::with_capacity(count);
        let mut signers: Vec<&[u8]> = Vec::with_capacity(count);
        let mut nonces = Vec::with_capacity(count);
        let mut holds = Vec::with_capacity(count);
        let mut tokens = Vec::with_capacity(count);
        for binding in bindings {
            for (nonce, hold) in binding.planned().skip(binding.plan.reissued.len()) {
                chains.push(rows::chain(binding.claim.lane));
                signers.push(binding.claim.lane.signer.as_slice());
                nonces.push(nonce.cast_signed());
                holds.push(hold.id.0);
                tokens.push(binding.claim.token.0);
            }
        }
        if nonces.is_empty() {
            return self.into_transaction().commit().await;
        }
        self.into_transaction()
            .execute_and_commit(
                include_str!("sql/insert_holds.sql"),
                &[&chains, &signers, &nonces, &holds, &tokens, &now, &rows::seconds(hold_timeout)],
            )
            .await
    }

    /// Writes the callers' idempotency keys.
    async fn insert_keys(&self, bindings: &[&Binding], now: Timestamp) -> Result<(), StoreError> {
        let keyed: Vec<_> = bindings
            .iter()
            .flat_map(|b| b.planned().map(|(nonce, hold)| (b.claim.lane, nonce, hold)))
            .filter_map(|(lane, nonce, hold)| {
                hold.key.as_ref().map(|key| (lane, nonce, hold.id, key))
            })
            .collect();
        if keyed.is_empty() {
            return Ok(());
        }
        let columns = rows::LaneColumns::of(keyed.iter().map(|(lane, ..)| *lane));
        let tenants: Vec<&str> = keyed.iter().map(|(.., key)| key.tenant.as_str()).collect();
        let keys: Vec<&str> = keyed.iter().map(|(.., key)| key.key.as_str()).collect();
        let nonces: Vec<i64> = keyed.iter().map(|(_, nonce, ..)| nonce.cast_signed()).collect();
        let holds: Vec<Uuid> = keyed.iter().map(|(_, _, id, _)| id.0).collect();
        self.transaction()
            .execute(
                include_str!("sql/insert_keys.sql"),
                &[&tenants, &columns.chains, &columns.signers, &keys, &nonces, &holds, &now],
            )
            .await?;
        Ok(())
    }
}
