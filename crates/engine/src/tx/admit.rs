//! Acceptance, on the lane's worker.
//!
//! A request that was made before is answered as the first time; every node can do that. A new one
//! is accepted durably by whatever node it lands on. Where that node holds the lane, nothing older
//! waits, the lane has room and the key is in this process, its nonce is planned, its bytes are
//! signed, and acceptance, nonce and bytes go into one commit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use stile_domain::{Lane, Planner, TxId};
use stile_store::{
    Acceptance, Acquisition, BindTx, Bindable, NewTx, Refusal, StoreError, Tx, TxBinding,
};
use tokio::sync::{MutexGuard, oneshot};
use tracing::{debug, info, warn};

use crate::cluster;
use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::{Slot, Work};
use crate::metrics;
use crate::signers::LaneSigner;
use crate::tx::balance::Ticket;
use crate::tx::bind;
use crate::tx::error::TxError;
use crate::tx::memorise;
use crate::tx::sign::{self, ToSign};
use crate::tx::track::Track;

/// A transaction on its way in.
#[derive(Debug)]
pub(crate) struct SendCall {
    pub(crate) new: NewTx,
    pub(crate) came: Instant,
    /// By which it was let in.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) reply: oneshot::Sender<Result<Admitted, TxError>>,
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(crate) struct Admitted {
    pub(crate) tx: Tx,
    /// Whether it is new, or the answer to a request made before.
    pub(crate) new: bool,
}

impl SendCall {
    fn answer(self, result: Result<Admitted, TxError>) {
        if let Some(ticket) = self.ticket {
            ticket.answered(matches!(result, Ok(Admitted { new: true, .. })));
        }
        metrics::accepted(match &result {
            Ok(Admitted { new: true, .. }) => "new",
            Ok(_) => "repeated",
            Err(_) => "refused",
        });
        // Nobody may be there any more; the transaction lands all the same, as it was handed over.
        let _ = self.reply.send(result);
    }

    /// Whether its caller has been told that the store did not answer in time. Then nothing is begun
    /// any more; whoever only hung up has handed it over.
    fn is_given_up(&self, core: &Core) -> bool {
        self.reply.is_closed() && self.came.elapsed() >= core.settings.patience
    }

    fn key(&self) -> Option<(String, String)> {
        self.new.request_id.as_ref().map(|id| (self.new.tenant.clone(), id.clone()))
    }
}

/// Takes transactions in, for any number of lanes.
pub(crate) async fn admit(core: &Arc<Core>, calls: Vec<SendCall>) {
    let mut by_lane: BTreeMap<Lane, Vec<SendCall>> = BTreeMap::new();
    for call in calls.into_iter().filter(|call| !call.is_given_up(core)) {
        by_lane.entry(call.new.lane).or_default().push(call);
    }
    let lanes = by_lane.into_iter().map(|(lane, calls)| admit_lane(core, lane, calls));
    futures::future::join_all(lanes).await;
}

async fn admit_lane(core: &Arc<Core>, lane: Lane, mut calls: Vec<SendCall>) {
    let slot = core.lanes.slot(lane);
    if let Some(elsewhere) = core.rollout.elsewhere(lane) {
        // What was accepted before is answered still; the rest would wait for nobody knows how long, and
        // be sent long after its caller has sent it elsewhere.
        for call in unanswered(core, &slot, calls).await.unwrap_or_default() {
            call.answer(Err(NonceError::LaneNotOwned { lane, elsewhere }.into()));
        }
        return;
    }
    while !calls.is_empty() {
        let Some((track, signer)) = binder(core, &slot) else {
            // Acceptance finds by itself what was asked before.
            accept(core, &slot, calls).await;
            return bind::wake(core, &slot);
        };
        // Where callers repeat themselves it is cheaper to ask first; elsewhere the commit finds
        // the rare one that was made before, and acceptance then answers it.
        let fresh = if slot.has_repeats() {
            let Some(fresh) = unanswered(core, &slot, calls).await else { return };
            fresh
        } else {
            calls
        };
        let (round, later) = each_once(fresh);
        let left = at_once(core, &slot, track, signer, round).await;
        if !left.is_empty() {
            accept(core, &slot, left).await;
            bind::wake(core, &slot);
        }
        calls = later;
    }
}

/// Who signs and sends for a lane in the commit that accepts, if that may be: nothing older waits,
/// and the key is in this process.
fn binder<'c>(core: &'c Core, slot: &Slot) -> Option<(&'c Arc<Track>, &'c LaneSigner)> {
    let lane = slot.lane();
    let signer = core.signers.get(lane).filter(|signer| signer.is_local())?;
    let track = core.tracks.get(lane.chain)?;
    (!slot.has_waiting() && !slot.is_restored()).then_some((track, signer))
}

/// Answers what was asked before. `None` if nothing is left, because the store does not say.
async fn unanswered(core: &Core, slot: &Slot, calls: Vec<SendCall>) -> Option<Vec<SendCall>> {
    let lane = slot.lane();
    let mut ids: HashMap<String, Vec<String>> = HashMap::new();
    for (tenant, id) in calls.iter().filter_map(SendCall::key) {
        ids.entry(tenant).or_default().push(id);
    }
    let mut known: HashMap<(String, String), Tx> = HashMap::new();
    for (tenant, ids) in ids {
        match core.store.txs_by_request(&tenant, lane, &ids).await {
            Ok(found) => {
                let pairs = ids.into_iter().zip(found);
                known.extend(pairs.filter_map(|(id, tx)| Some(((tenant.clone(), id), tx?))));
            }
            Err(error) => {
                metrics::store_failed("txs_by_request");
                for call in calls {
                    call.answer(Err(error.clone().into()));
                }
                return None;
            }
        }
    }
    let mut fresh = Vec::with_capacity(calls.len());
    for call in calls {
        match call.key().and_then(|key| known.get(&key)) {
            Some(tx) => {
                slot.repeated();
                let answer = repeated(&call.new, tx.clone());
                call.answer(answer);
            }
            None => fresh.push(call),
        }
    }
    Some(fresh)
}

/// The answer to a request whose id was used before.
pub(crate) fn repeated(new: &NewTx, tx: Tx) -> Result<Admitted, TxError> {
    if new.request_hash == tx.request_hash {
        Ok(Admitted { tx, new: false })
    } else {
        Err(TxError::RequestIdReused { tx: Box::new(tx) })
    }
}

/// Two calls under one id cannot go into one commit: the later ones wait for the first.
fn each_once(calls: Vec<SendCall>) -> (Vec<SendCall>, Vec<SendCall>) {
    let mut seen: HashSet<(String, String)> = HashSet::new();
    calls.into_iter().partition(|call| call.key().is_none_or(|key| seen.insert(key)))
}

/// Gives nonces to calls in the same commit, where that is allowed. Answers with those that must
/// wait for theirs.
async fn at_once(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    track: &Arc<Track>,
    signer: &LaneSigner,
    calls: Vec<SendCall>,
) -> Vec<SendCall> {
    if calls.is_empty() {
        return calls;
    }
    let lane = slot.lane();
    // Acceptance waits for no long commit. It is cheaper, too, to accept now and to bind all that
    // has come by then together.
    if slot.is_recording() || core.recorder.is_behind() || track.unfunded().contains(&lane) {
        return calls;
    }
    let mut work = slot.work.lock().await;
    if slot.has_waiting() || !ready(core, slot, &mut work).await {
        return calls;
    }
    // A fresh nonce would leave a released one behind that nobody has looked at yet.
    if slot.has_unlooked() || !work.is_looked_up() {
        return calls;
    }
    let room = core.settings.tx.max_in_flight.saturating_sub(track.book().in_flight(lane));
    let Some(to_sign) = signable(core, track, &calls) else { return calls };
    if calls.len() > room {
        return calls;
    }
    let Some(claim) = slot.claim() else { return calls };
    let plan = match work.planner(&claim) {
        // Released nonces are looked at once more before they are used: not here.
        Some(planner) if planner.on_offer_for_stile() == 0 => planner.take_for_stile(calls.len()),
        _ => None,
    };
    let Some(plan) = plan else { return calls };
    let nonces: Vec<_> = plan.nonces().collect();
    let (attempts, failed) = sign::sign(signer, &nonces, &to_sign).await;
    if let Some(error) = failed {
        warn!(signer = %lane.signer, %error, "could not sign");
        work.forget();
        return calls;
    }
    let txs = calls.iter().zip(&attempts).map(|(call, attempt)| BindTx {
        what: Bindable::New(Box::new(call.new.clone())),
        attempt: attempt.clone(),
    });
    let binding = TxBinding {
        claim,
        plan,
        txs: txs.collect(),
        resubmit_after: core.settings.tx.resubmit_after,
    };
    let (sent, until) = (Instant::now(), core.trust_from_now());
    let remembered = memorise::binds(slot, &binding);
    let answer =
        core.store.bind_txs(&core.holder.node, std::slice::from_ref(&binding), core.lease()).await;
    memorise::answered(slot, claim, remembered, &answer);
    match answer.map(|mut answers| answers.pop()) {
        Ok(Some(Ok(txs))) => {
            metrics::committed("send", txs.len(), sent.elapsed());
            slot.renewed(claim, until);
            let came: Vec<Instant> = calls.iter().map(|call| call.came).collect();
            bind::bound(core, track, &claim, &binding, &txs, &came);
            for (call, tx) in calls.into_iter().zip(txs) {
                call.answer(Ok(Admitted { tx, new: true }));
            }
            Vec::new()
        }
        Ok(Some(Err(refusal))) => {
            work.forget();
            refused(core, slot, claim, refusal);
            drop(work);
            // A request id may have been taken meanwhile: acceptance finds out.
            calls
        }
        Ok(None) => calls,
        Err(error) => {
            work.forget();
            drop(work);
            after_failure(core, slot, calls, error).await
        }
    }
}

/// Whether the lane is ours with a planner filled under its token; asks the database if need be.
async fn ready(core: &Arc<Core>, slot: &Arc<Slot>, work: &mut MutexGuard<'_, Work>) -> bool {
    if slot.trusted_claim().is_some_and(|claim| work.planner(&claim).is_some()) {
        return true;
    }
    if core.is_known_elsewhere(slot) {
        return false;
    }
    let Ok(mut answers) = core.acquire(&[slot.lane()]).await else { return false };
    match answers.pop() {
        Some(Acquisition::Held(held)) if held.elsewhere.is_some() => false,
        Some(Acquisition::Held(held)) => match (held.paused, held.next_nonce) {
            (None, Some(cursor)) => {
                work.plan_from(&held.claim, Planner::new(cursor));
                core.refresh_soon(slot);
                // What is released is being looked up: until then fresh nonces would leave it
                // behind.
                false
            }
            _ => false,
        },
        _ => {
            work.forget();
            false
        }
    }
}

/// What is to be signed for each call; `None` if something is not known yet.
fn signable(core: &Core, track: &Track, calls: &[SendCall]) -> Option<Vec<ToSign>> {
    let quotes = track.quotes(bind::fresh_quote());
    calls
        .iter()
        .map(|call| {
            let payload = &call.new.payload;
            let fees = core.first_fees(call.new.lane.chain, payload, quotes.as_ref())?;
            Some(ToSign { payload: payload.clone(), gas_limit: call.new.gas_limit?, fees })
        })
        .collect()
}

fn refused(core: &Core, slot: &Slot, claim: stile_store::Claim, refusal: Refusal) {
    let lane = slot.lane();
    match refusal {
        Refusal::Fenced(owner) => core.lost(slot, claim, &owner, "send"),
        Refusal::OthersWait => slot.set_waiting(true),
        Refusal::Restored => {
            slot.set_restored(true);
        }
        Refusal::Inconsistent(why) => {
            tracing::error!(signer = %lane.signer, chain = %lane.chain, why,
                            "the nonce ledger contradicts the lane's cursor");
        }
        refusal => debug!(%refusal, signer = %lane.signer, "planned again"),
    }
}

/// A commit failed. If its fate is unknown it is read back; what was not written is accepted in a
/// commit of its own.
async fn after_failure(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    calls: Vec<SendCall>,
    error: StoreError,
) -> Vec<SendCall> {
    metrics::store_failed("send");
    warn!(%error, calls = calls.len(), "a commit of transactions failed");
    if !matches!(error, StoreError::CommitUnknown(_)) {
        for call in calls {
            call.answer(Err(error.clone().into()));
        }
        return Vec::new();
    }
    let ids: Vec<TxId> = calls.iter().map(|call| call.new.id).collect();
    let left = answer_written(core, slot.lane(), calls, &ids).await;
    // What was written is in the store and not in the book.
    super::adopt(core, vec![slot.lane()]);
    left
}

/// Answers calls whose transaction turns out to be written.
async fn answer_written(
    core: &Core,
    lane: Lane,
    calls: Vec<SendCall>,
    ids: &[TxId],
) -> Vec<SendCall> {
    match core.store.read_back_txs(lane, ids).await {
        Ok(found) => {
            let mut left = Vec::new();
            for (call, tx) in calls.into_iter().zip(found) {
                match tx {
                    Some(tx) => call.answer(Ok(Admitted { tx, new: true })),
                    None => left.push(call),
                }
            }
            left
        }
        Err(error) => {
            for call in calls {
                call.answer(Err(NonceError::from(&error).into()));
            }
            Vec::new()
        }
    }
}

/// Accepts without a nonce.
async fn accept(core: &Arc<Core>, slot: &Slot, calls: Vec<SendCall>) {
    let lane = slot.lane();
    let new: Vec<NewTx> = calls.iter().map(|call| call.new.clone()).collect();
    slot.set_waiting(true);
    let sent = Instant::now();
    match core.store.accept(&core.holder.node, &new).await {
        Ok(answers) => {
            metrics::committed("accept", answers.len(), sent.elapsed());
            core.events.send_modify(|count| *count += 1);
            cluster::ring(core, lane);
            for (call, answer) in calls.into_iter().zip(answers) {
                match answer {
                    Acceptance::New(tx) => {
                        debug!(txId = %tx.id, signer = %lane.signer, chain = %lane.chain,
                               node = %core.holder.node, op = "accept", "accepted");
                        call.answer(Ok(Admitted { tx, new: true }));
                    }
                    Acceptance::Existing(tx) => {
                        slot.repeated();
                        let answer = repeated(&call.new, tx);
                        call.answer(answer);
                    }
                    // It has just changed hands, and this node has not heard of it yet.
                    Acceptance::Elsewhere(elsewhere) => {
                        call.answer(Err(NonceError::LaneNotOwned { lane, elsewhere }.into()));
                    }
                }
            }
        }
        Err(error @ StoreError::CommitUnknown(_)) => {
            metrics::store_failed("accept");
            info!(%error, "the fate of an acceptance is read back");
            let ids: Vec<TxId> = new.iter().map(|new| new.id).collect();
            for call in answer_written(core, lane, calls, &ids).await {
                call.answer(Err(error.clone().into()));
            }
        }
        Err(error) => {
            metrics::store_failed("accept");
            for call in calls {
                call.answer(Err(error.clone().into()));
            }
        }
    }
}
