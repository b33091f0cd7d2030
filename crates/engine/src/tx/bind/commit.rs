//! Plan, sign, commit, then send.

use std::sync::Arc;
use std::time::Instant;

use stile_chain::SignError;
use stile_domain::{Nonce, Plan, Planner};
use stile_store::{BindTx, Bindable, Claim, NewAttempt, OpenAttempt, Refusal, Tx, TxBinding};
use tracing::{debug, warn};

use super::Progress;
use crate::core::Core;
use crate::lanes::{Slot, Work};
use crate::metrics;
use crate::signers::LaneSigner;
use crate::tx;
use crate::tx::book::Open;
use crate::tx::memorise;
use crate::tx::sign::{self, ToSign};
use crate::tx::track::Track;

/// Transactions that are ready to get their nonces, in order of acceptance.
pub(super) struct Batch {
    pub(super) waiting: Vec<Tx>,
    pub(super) to_sign: Vec<ToSign>,
    /// Nothing else was waiting when this was read.
    pub(super) last: bool,
}

/// Whoever gives nonces to what waits on one lane.
#[derive(Clone, Copy)]
pub(super) struct Binder<'b> {
    pub(super) core: &'b Arc<Core>,
    pub(super) slot: &'b Arc<Slot>,
    pub(super) track: &'b Arc<Track>,
    pub(super) claim: Claim,
    pub(super) signer: &'b LaneSigner,
}

impl Binder<'_> {
    /// Plan, sign and commit in one go: the signer is in this process.
    pub(super) async fn here(&self, batch: &Batch) -> Progress {
        let Self { slot, claim, signer, .. } = *self;
        let mut work = slot.work.lock().await;
        let Some(plan) =
            work.planner(&claim).and_then(|planner| planner.take_for_stile(batch.waiting.len()))
        else {
            return Progress::More;
        };
        let nonces: Vec<Nonce> = plan.nonces().collect();
        let (attempts, failed) = sign::sign(signer, &nonces, &batch.to_sign).await;
        if let Some(error) = failed {
            warn!(signer = %slot.lane().signer, %error, "could not sign");
            work.forget();
            return Progress::Stop;
        }
        self.commit(plan, batch, attempts, &mut work).await
    }

    /// Signs ahead without holding the lane, then commits the part that is signed without a gap, if the
    /// lane still stands where it was planned to. If somebody else took nonces meanwhile, the
    /// signatures are thrown away unsent.
    pub(super) async fn elsewhere(&self, batch: &Batch) -> Progress {
        let Self { core, slot, claim, signer, .. } = *self;
        let ahead = |planner: &mut Planner, count: usize| planner.clone().take_for_stile(count);
        let planned = {
            let mut work = slot.work.lock().await;
            work.planner(&claim).and_then(|planner| ahead(planner, batch.waiting.len()))
        };
        let Some(planned) = planned else { return Progress::More };
        let nonces: Vec<Nonce> = planned.nonces().collect();
        let (attempts, failed) = sign::sign(signer, &nonces, &batch.to_sign).await;
        core.signing.note(slot.lane(), failed.as_ref());
        if let Some(error) = &failed {
            metrics::sign_failed();
            match error {
                SignError::Unavailable(why) => {
                    debug!(signer = %slot.lane().signer, why, "the signer does not answer; transactions wait");
                }
                SignError::Refused(why) => {
                    warn!(signer = %slot.lane().signer, why, "the signer refuses; transactions wait");
                }
            }
        }
        if attempts.is_empty() {
            slot.reserved.send_replace(false);
            return Progress::Stop;
        }
        let mut work = slot.work.lock().await;
        let signed: Vec<Nonce> = nonces[..attempts.len()].to_vec();
        let plan = work.planner(&claim).and_then(|planner| {
            let same = ahead(planner, attempts.len())
                .is_some_and(|plan| plan.nonces().eq(signed.iter().copied()));
            if same { planner.take_for_stile(attempts.len()) } else { None }
        });
        let Some(plan) = plan else {
            metrics::signed_in_vain(attempts.len());
            // Once more, and this time callers for bare nonces wait for it.
            slot.reserved.send_replace(true);
            debug!(signer = %slot.lane().signer, count = attempts.len(), "signed in vain: the lane moved on");
            return Progress::More;
        };
        let progress = self.commit(plan, batch, attempts, &mut work).await;
        slot.reserved.send_replace(false);
        if failed.is_some() { Progress::Stop } else { progress }
    }

    /// All of the plan or none of it.
    async fn commit(
        &self,
        plan: Plan,
        batch: &Batch,
        attempts: Vec<NewAttempt>,
        work: &mut Work,
    ) -> Progress {
        let Self { core, slot, track, claim, .. } = *self;
        let lane = slot.lane();
        let last = batch.last && attempts.len() == batch.waiting.len();
        let txs = batch.waiting.iter().zip(attempts);
        let txs =
            txs.map(|(tx, attempt)| BindTx { what: Bindable::Waiting(tx.id), attempt }).collect();
        let binding =
            TxBinding { claim, plan, txs, resubmit_after: core.settings.tx.resubmit_after };
        let (sent, until) = (Instant::now(), core.trust_from_now());
        let remembered = memorise::binds(slot, &binding);
        let answer = core
            .store
            .bind_txs(&core.holder.node, std::slice::from_ref(&binding), core.lease())
            .await;
        memorise::answered(slot, claim, remembered, &answer);
        match answer.map(|mut answers| answers.pop()) {
            Ok(Some(Ok(txs))) => {
                metrics::committed("bind", txs.len(), sent.elapsed());
                slot.renewed(claim, until);
                if last {
                    // As far as is known; if another node has accepted one since, the store says so.
                    slot.set_waiting(false);
                }
                bound(core, track, &claim, &binding, &txs, &[]);
                Progress::More
            }
            Ok(Some(Err(refusal))) => {
                work.forget();
                match refusal {
                    Refusal::Fenced(owner) => {
                        core.lost(slot, claim, &owner, "bind");
                        if core.is_ours(&owner) { Progress::More } else { Progress::Stop }
                    }
                    Refusal::Paused(_) | Refusal::Elsewhere(_) => Progress::Stop,
                    Refusal::Restored => {
                        slot.set_restored(true);
                        Progress::Stop
                    }
                    Refusal::Inconsistent(why) => {
                        tracing::error!(signer = %lane.signer, chain = %lane.chain, why,
                                    "the nonce ledger contradicts the lane's cursor");
                        Progress::Stop
                    }
                    refusal => {
                        debug!(%refusal, signer = %lane.signer, "planned again");
                        Progress::More
                    }
                }
            }
            Ok(None) => Progress::Stop,
            Err(error) => {
                metrics::store_failed("bind");
                warn!(%error, signer = %lane.signer, "a commit of nonces failed");
                work.forget();
                // If it happened after all, what it wrote is in the store and not in the book.
                tx::adopt(core, vec![lane]);
                Progress::Stop
            }
        }
    }
}

/// An attempt that is on record, as the book keeps it.
pub(crate) fn written(attempt: &NewAttempt) -> OpenAttempt {
    OpenAttempt { kind: attempt.kind, hash: attempt.hash, raw: attempt.raw.clone() }
}

/// Takes note of transactions that have just got their nonces, and sends them.
pub(crate) fn bound(
    core: &Arc<Core>,
    track: &Track,
    claim: &Claim,
    binding: &TxBinding,
    txs: &[Tx],
    came: &[Instant],
) {
    let now = Instant::now();
    let check = now + core.settings.tx.stale_receipt;
    core.events.send_modify(|count| *count += 1);
    let plan = &binding.plan;
    core.lanes.slot(claim.lane()).note_given_out(plan.first + plan.fresh);
    {
        let mut book = track.book();
        for (place, (tx, bound)) in txs.iter().zip(&binding.txs).enumerate() {
            let lane = tx.lane;
            debug!(txId = %tx.id, signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                   token = claim.token().get(), op = "bind", nonce = tx.nonce, txHash = %bound.attempt.hash,
                   "fenced write");
            let attempt = written(&bound.attempt);
            let accepted = came.get(place).copied().unwrap_or(now);
            if let Some(open) = Open::bound(tx, attempt, accepted, check) {
                book.insert(open);
            }
        }
    }
    core.submit(track, txs.iter().map(|tx| tx.id));
}
