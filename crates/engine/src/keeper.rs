//! Leases: renewed while the node lives, taken over from nodes that died, given back at the end.
//!
//! Renewing is a task of its own ([`renew_leases`]) with a connection of its own. It asks the store
//! and takes note of the answers in the lanes' slots; it asks no chain, touches no book and waits for
//! nobody's work, so that nothing this node has to do makes it lose its lanes. What follows from the
//! answers is done beside it.

use std::sync::Arc;
use std::time::Duration;

use stile_domain::Lane;
use stile_store::{Claim, HeldLane, LANES_A_RENEWAL, Owner, Renewal};
use tracing::{error, info, warn};

use crate::cluster;
use crate::core::{Core, PATIENCE};
use crate::lanes::Slot;
use crate::metrics;
use crate::task;
use crate::tx;

/// How often expired lanes are looked for. With this, a dead node's lanes are taken within two
/// seconds of their expiry.
const TAKEOVER_INTERVAL: Duration = Duration::from_secs(1);

/// Expired lanes looked at in one go.
const MOST_EXPIRED: u32 = 100_000;

/// Lanes taken over by one statement.
const TAKEOVER_CHUNK: u32 = 500;

/// How often a renewal that failed is tried again in the time between two.
const RETRIES_AN_INTERVAL: u32 = 4;

/// At start: takes the lanes that this node's last incarnation left behind.
pub(crate) async fn take_own(core: &Arc<Core>) -> Result<(), stile_store::StoreError> {
    let until = core.trust_from_now();
    let taken = core.store.take_own(&core.holder, core.lease()).await?;
    metrics::taken_over("restart", taken.len());
    remember(core, &taken, until);
    Ok(())
}

/// Takes over what others have left, until the node stops.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        let pause = take_over(&core).await;
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Renews the leases of all lanes held, until the node stops.
pub(crate) async fn renew_leases(core: Arc<Core>) {
    let interval = core.settings.lease.renew_interval;
    loop {
        let began = tokio::time::Instant::now();
        // One that failed is tried again soon: there is a lease to lose.
        let pause = if renew(&core).await { interval } else { interval / RETRIES_AN_INTERVAL };
        tokio::select! {
            () = core.stopping.cancelled() => return,
            () = tokio::time::sleep_until(began + pause) => {}
        }
    }
}

/// Renews all leases once. `false` if the store did not answer.
async fn renew(core: &Arc<Core>) -> bool {
    let held = core.lanes.held();
    metrics::lanes_held(held.len());
    if held.is_empty() {
        return true;
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
            return false;
        }
    };
    let (mut renewed, mut late, mut skipped) = (0, 0, 0);
    let (mut raised, mut fenced) = (Vec::new(), Vec::new());
    for ((slot, claim), answer) in held.into_iter().zip(answers) {
        match answer {
            Renewal::Renewed => {
                renewed += 1;
                late += usize::from(slot.renewed(claim, until));
            }
            Renewal::Skipped => skipped += 1,
            // Paused or resumed since: ours still, under a newer token.
            Renewal::Fenced(owner) if core.is_ours(&owner) => raised.push(slot.lane()),
            Renewal::Fenced(owner) => fenced.push((slot, claim, owner)),
        }
    }
    metrics::lease_renewed("renewed", renewed);
    metrics::lease_renewed("skipped", skipped);
    metrics::lease_renewed("fenced", fenced.len());
    metrics::renewed_late(late);
    if late > 0 {
        warn!(lanes = late, lease = ?core.lease(), "leases were renewed late: the database or this \
               node is slow");
    }
    if !raised.is_empty() || !fenced.is_empty() {
        let core = Arc::clone(core);
        core.tasks
            .clone()
            .spawn(task::FOLLOW_UP, async move { follow_up(&core, raised, fenced).await });
    }
    true
}

/// What follows from a renewal. It may wait for the store or for somebody's work, so it is not done
/// by whoever renews.
async fn follow_up(core: &Arc<Core>, raised: Vec<Lane>, fenced: Vec<(Arc<Slot>, Claim, Owner)>) {
    for (slot, claim, owner) in fenced {
        core.lost(&slot, claim, &owner, "renew");
    }
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
