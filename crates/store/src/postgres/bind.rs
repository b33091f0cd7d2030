//! Planned holds: what `allocate` commits.

use std::collections::HashSet;
use std::time::Duration;

use stile_domain::{Hold, Lane, Timestamp};
use uuid::Uuid;

use super::fence::{FenceResult, Fenced, fence};
use super::lane_work::{Answers, Attempt, LaneWork};
use super::rows;
use super::session::Sessions;
use crate::{Advance, Binding, Refusal, StoreError};

/// Planned holds, on these terms.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bind {
    pub(super) lease: Duration,
    pub(super) hold_timeout: Duration,
}

impl LaneWork for Bind {
    type Part = Binding;
    type Answer = Vec<Hold>;

    fn lane(part: &Binding) -> Lane {
        part.claim.lane
    }

    fn rows(part: &Binding) -> usize {
        part.holds.len()
    }

    async fn attempt(
        &self,
        sessions: &Sessions,
        bindings: &[&Binding],
    ) -> Result<Attempt<Vec<Hold>>, StoreError> {
        let claims: Vec<_> = bindings
            .iter()
            .map(|b| (b.claim, Some(Advance { first: b.plan.first, count: b.plan.fresh })))
            .collect();
        let FenceResult { fenced, refused } = fence(sessions, &claims, self.lease).await?;
        let mut answers: Answers<Vec<Hold>> =
            refused.into_iter().map(|(lane, refusal)| (lane, Err(refusal))).collect();
        let Some(now) = fenced.time() else {
            fenced.into_transaction().rollback().await?;
            return Ok(Attempt::Committed(answers));
        };
        let passed: Vec<&Binding> =
            bindings.iter().copied().filter(|b| fenced.claim(b.claim.lane).is_some()).collect();
        let lost = fenced.reissue(&passed, now, self.hold_timeout).await?;
        if !lost.is_empty() {
            fenced.into_transaction().rollback().await?;
            let lost = lost.into_iter().map(|lane| (lane, Refusal::RowLost));
            return Ok(Attempt::Lost(lost.collect()));
        }
        fenced.insert_keys(&passed, now).await?;
        fenced.insert_and_commit(&passed, now, self.hold_timeout).await?;
        let locked_until = crate::open::after(now, self.hold_timeout)?;
        answers.extend(passed.iter().map(|b| (b.claim.lane, Ok(b.written(locked_until)))));
        Ok(Attempt::Committed(answers))
    }
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
