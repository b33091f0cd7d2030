//! Leases: renewed while the node lives, taken over from nodes that died, given back at the end.

use std::sync::Arc;
use std::time::Duration;

use stile_store::{Claim, HeldLane, LANES_A_RENEWAL, Renewal};
use tracing::{error, info, warn};

use crate::cluster;
use crate::core::{Core, PATIENCE};
use crate::metrics;
use crate::tx;

/// How often expired lanes are looked for. With this, a dead node's lanes are taken within two
/// seconds of their expiry.
const TAKEOVER_INTERVAL: Duration = Duration::from_secs(1);

/// Expired lanes looked at in one go.
const MOST_EXPIRED: u32 = 100_000;

/// Lanes taken over by one statement.
const TAKEOVER_CHUNK: u32 = 500;

/// At start: takes the lanes that this node's last incarnation left behind.
pub(crate) async fn take_own(core: &Arc<Core>) -> Result<(), stile_store::StoreError> {
    let until = core.trust_from_now();
    let taken = core.store.take_own(&core.holder, core.lease()).await?;
    metrics::taken_over("restart", taken.len());
    remember(core, &taken, until);
    Ok(())
}

pub(crate) async fn run(core: Arc<Core>) {
    let mut renewals = tokio::time::interval(core.settings.lease.renew_interval);
    renewals.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut next_look = tokio::time::Instant::now();
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            _ = renewals.tick() => renew(&core).await,
            () = tokio::time::sleep_until(next_look) => {
                let pause = take_over(&core).await;
                next_look = tokio::time::Instant::now() + pause;
            }
        }
    }
}

pub(crate) async fn renew(core: &Arc<Core>) {
    let held = core.lanes.held();
    metrics::lanes_held(held.len());
    if held.is_empty() {
        return;
    }
    let claims: Vec<Claim> = held.iter().map(|(_, claim)| *claim).collect();
    let until = core.trust_from_now();
    metrics::lease_statements("renew", claims.len().div_ceil(LANES_A_RENEWAL));
    let answers = match core.store.renew(&claims, core.lease()).await {
        Ok(answers) => answers,
        Err(error) => {
            metrics::lease_renewed("error", claims.len());
            metrics::store_failed("renew");
            warn!(%error, lanes = claims.len(), "leases could not be renewed");
            return;
        }
    };
    let (mut renewed, mut skipped, mut fenced) = (0, 0, 0);
    let mut raised = Vec::new();
    for ((slot, claim), answer) in held.iter().zip(answers) {
        match answer {
            Renewal::Renewed => {
                renewed += 1;
                slot.renewed(*claim, until);
            }
            Renewal::Skipped => skipped += 1,
            // Paused or resumed since: ours still, under a newer token.
            Renewal::Fenced(owner) if core.is_ours(&owner) => raised.push(slot.lane()),
            Renewal::Fenced(owner) => {
                fenced += 1;
                core.lost(slot, *claim, &owner, "renew");
            }
        }
    }
    metrics::lease_renewed("renewed", renewed);
    metrics::lease_renewed("skipped", skipped);
    metrics::lease_renewed("fenced", fenced);
    if !raised.is_empty()
        && let Err(error) = core.acquire(&raised).await
    {
        warn!(%error, lanes = raised.len(), "leases could not be renewed");
    }
}

/// Looks for expired lanes with open work, and takes them. Those that had best be on another node
/// are left to that one for a moment, so that they need not move again. Answers with when to look
/// again.
pub(crate) async fn take_over(core: &Arc<Core>) -> Duration {
    if !core.members.move_lanes(&core.holder) {
        take_any(core).await;
        return TAKEOVER_INTERVAL;
    }
    let window = core.settings.tx.reorg_window;
    metrics::lease_statements("look", 1);
    let expired = match core.store.expired_lanes(MOST_EXPIRED, window).await {
        Ok(expired) => expired,
        Err(error) => {
            metrics::store_failed("take_expired");
            warn!(%error, "expired lanes could not be looked for");
            return TAKEOVER_INTERVAL;
        }
    };
    let (mut due, mut pause) = (Vec::new(), TAKEOVER_INTERVAL);
    // What is held here is only late, and renewed by whoever renews.
    for expired in expired.iter().filter(|it| !core.lanes.holds(it.lane)) {
        let patient = core.members.better(&core.holder, expired.lane).is_some();
        match PATIENCE.checked_sub(expired.overdue).filter(|left| patient && !left.is_zero()) {
            Some(left) => pause = pause.min(left),
            None => due.push(expired.lane),
        }
    }
    for chunk in due.chunks(TAKEOVER_CHUNK as usize) {
        let until = core.trust_from_now();
        metrics::lease_statements("take_over", 1);
        match core.store.take_lanes(&core.holder, chunk, core.lease()).await {
            Ok(taken) => {
                metrics::taken_over("expired", taken.len());
                remember(core, &taken, until);
            }
            Err(error) => {
                metrics::store_failed("take_expired");
                warn!(%error, lanes = chunk.len(), "expired lanes could not be taken");
                break;
            }
        }
    }
    pause
}

/// Takes whatever has run out: lanes do not move here.
async fn take_any(core: &Arc<Core>) {
    loop {
        let until = core.trust_from_now();
        metrics::lease_statements("take_over", 1);
        match core
            .store
            .take_expired(&core.holder, core.lease(), TAKEOVER_CHUNK, core.settings.tx.reorg_window)
            .await
        {
            Ok(taken) => {
                metrics::taken_over("expired", taken.len());
                remember(core, &taken, until);
                if taken.len() < TAKEOVER_CHUNK as usize {
                    return;
                }
            }
            Err(error) => {
                metrics::store_failed("take_expired");
                warn!(%error, "expired lanes could not be looked for");
                return;
            }
        }
    }
}

fn remember(core: &Arc<Core>, taken: &[HeldLane], until: std::time::Instant) {
    for held in taken {
        core.remember(&core.lanes.slot(held.claim.lane()), held, until);
    }
    tx::adopt(core, taken.iter().map(|held| held.claim.lane()).collect());
}

/// At the end: gives every lane back, so that others need not wait for the leases to run out.
pub(crate) async fn release_all(core: &Arc<Core>) {
    let handed_over = cluster::hand_over_all(core).await;
    let held = core.lanes.held();
    let claims: Vec<Claim> = held.iter().map(|(_, claim)| *claim).collect();
    if claims.is_empty() {
        if handed_over > 0 {
            info!(node = %core.holder.node, lanes = handed_over, "leases given back");
        }
        return;
    }
    match core.store.release(&claims).await {
        Ok(released) => {
            for ((slot, claim), released) in held.iter().zip(&released) {
                if !released {
                    metrics::fence_rejected("release");
                    let (lane, node) = (slot.lane(), &core.holder.node);
                    warn!(signer = %lane.signer, chain = %lane.chain, %node, op = "release",
                          provided_token = claim.token().get(),
                          "write refused: the lane has a newer token");
                }
                slot.drop_claim(*claim);
            }
            let count = handed_over + released.iter().filter(|released| **released).count();
            info!(node = %core.holder.node, lanes = count, "leases given back");
        }
        Err(error) => {
            metrics::store_failed("release");
            error!(%error, lanes = claims.len(),
                   "leases could not be given back: others take the lanes when they run out");
        }
    }
}
