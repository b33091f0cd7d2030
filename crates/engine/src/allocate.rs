//! Plan, commit, answer: what happens to allocations, one or many.
//!
//! A batch holds the work of its lanes from the plan to the answer, so plans of one lane never
//! overlap on this node; across nodes the fence sees to it. If anything is doubtful, a refusal, a
//! failed or unknown commit, the lane's planner is forgotten and the next round reads the database
//! again.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use stile_domain::{Hold, HoldId, Lane, Nonce, Planner};
use stile_store::{
    Acquisition, AllocationKey, Binding, Claim, HeldLane, NewHold, Refusal, StoreError,
};
use tokio::sync::{MutexGuard, oneshot};
use tracing::{debug, warn};

use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::{REFUSED_FOR, Slot, Work};
use crate::metrics;
use crate::park::{self, Question};

/// Rounds before a call is given up on. A second one follows a lane that was paused, resumed or
/// lost a released nonce; more only happen under interference.
const ROUNDS: usize = 4;

/// One call for a nonce.
#[derive(Debug)]
pub(crate) struct Allocate {
    pub(crate) lane: Lane,
    pub(crate) key: Option<AllocationKey>,
    pub(crate) reply: Reply,
    came: Instant,
    /// Whether the lane's released nonces have been looked at since this call came.
    pub(crate) looked: bool,
    /// Whether it has let transactions go first that wait for their signatures.
    pub(crate) stepped_aside: bool,
    /// Others who asked under the same key while this one waited.
    also: Vec<Reply>,
}

pub(crate) type Reply = oneshot::Sender<Result<Hold, NonceError>>;

impl Allocate {
    pub(crate) fn new(lane: Lane, key: Option<AllocationKey>, reply: Reply) -> Self {
        let came = Instant::now();
        Self { lane, key, reply, came, looked: false, stepped_aside: false, also: Vec::new() }
    }

    /// Answers. `false` if nobody was there any more to hear it.
    fn answer(self, result: Result<Hold, NonceError>) -> bool {
        let others = self.also.into_iter().filter(|reply| !reply.is_closed());
        let heard = others.map(|reply| reply.send(result.clone()).is_ok()).filter(|ok| *ok).count();
        self.reply.send(result).is_ok() || heard > 0
    }

    /// Whether everybody who asked has been told that the store did not answer in time. Then nothing
    /// is begun any more; a call whose caller only went away is carried through.
    fn is_given_up(&self, core: &Core) -> bool {
        self.came.elapsed() >= core.settings.patience
            && self.reply.is_closed()
            && self.also.iter().all(oneshot::Sender::is_closed)
    }

    pub(crate) fn fail(self, error: NonceError) {
        metrics::allocated("refused", 1 + self.also.len());
        self.answer(Err(error));
    }
}

/// A lane's part of a batch.
struct Part<'s> {
    slot: &'s Arc<Slot>,
    work: MutexGuard<'s, Work>,
    calls: Vec<Allocate>,
}

impl Part<'_> {
    fn fail(&mut self, error: &NonceError) {
        for call in self.calls.drain(..) {
            call.fail(error.clone());
        }
    }
}

/// Serves allocations for any number of lanes with as few commits as it can.
pub(crate) async fn allocate(core: &Arc<Core>, calls: Vec<Allocate>) {
    let mut by_lane: BTreeMap<Lane, Vec<Allocate>> = BTreeMap::new();
    for call in calls {
        by_lane.entry(call.lane).or_default().push(call);
    }
    let slots: Vec<Arc<Slot>> = by_lane.keys().map(|lane| core.lanes.slot(*lane)).collect();
    let mut parts = Vec::with_capacity(slots.len());
    for (slot, calls) in slots.iter().zip(by_lane.into_values()) {
        parts.push(Part { slot, work: slot.work.lock().await, calls });
    }
    for part in &mut parts {
        answer_repeated(core, part).await;
    }
    for _ in 0..ROUNDS {
        for part in &mut parts {
            part.calls.retain(|call| !call.is_given_up(core));
        }
        parts.retain(|part| !part.calls.is_empty());
        if parts.is_empty() {
            return;
        }
        step_aside(core, &mut parts);
        lease(core, &mut parts).await;
        look_again(core, &mut parts);
        commit(core, &mut parts).await;
    }
    for part in &mut parts {
        part.fail(&NonceError::StoreUnavailable("the lane changes too fast; try again".into()));
    }
}

/// Answers calls whose key was served before, and joins those that ask for the same thing now.
/// This comes before any question about the lease: every node can answer it.
async fn answer_repeated(core: &Core, part: &mut Part<'_>) {
    let keys: Vec<AllocationKey> = part.calls.iter().filter_map(|call| call.key.clone()).collect();
    if keys.is_empty() {
        return;
    }
    let found = match core.store.allocated_under(part.slot.lane(), &keys).await {
        Ok(found) => found,
        Err(error) => {
            metrics::store_failed("allocated_under");
            return part.fail(&error.into());
        }
    };
    let mut found: HashMap<AllocationKey, Hold> =
        keys.into_iter().zip(found).filter_map(|(key, hold)| Some((key, hold?))).collect();
    let mut first: HashMap<AllocationKey, usize> = HashMap::new();
    let mut open: Vec<Allocate> = Vec::with_capacity(part.calls.len());
    for call in part.calls.drain(..) {
        let Some(key) = &call.key else {
            open.push(call);
            continue;
        };
        if let Some(hold) = found.get_mut(key) {
            metrics::allocated("repeated", 1);
            call.answer(Ok(hold.clone()));
        } else if let Some(place) = first.get(key) {
            let joined = &mut open[*place].also;
            joined.push(call.reply);
            joined.extend(call.also);
        } else {
            first.insert(key.clone(), open.len());
            open.push(call);
        }
    }
    part.calls = open;
}

/// Sets calls aside, once, for transactions whose signatures have been in vain because of calls
/// like these.
fn step_aside(core: &Arc<Core>, parts: &mut [Part<'_>]) {
    for part in parts {
        if *part.slot.reserved.borrow() {
            let calls = std::mem::take(&mut part.calls);
            let (stay, aside): (Vec<_>, Vec<_>) =
                calls.into_iter().partition(|call| call.stepped_aside);
            part.calls = stay;
            if !aside.is_empty() {
                park::park(core, part.slot, Question::Signatures, aside);
            }
        }
    }
}

/// Makes sure that each part has a trusted lease and a planner filled under it; answers those that
/// cannot have one.
async fn lease(core: &Arc<Core>, parts: &mut [Part<'_>]) {
    let mut unready: Vec<&mut Part<'_>> = Vec::new();
    for part in parts {
        let ready =
            part.slot.trusted_claim().is_some_and(|claim| part.work.planner(&claim).is_some());
        if ready {
            continue;
        }
        // Where calls queue per lane, they share what the last one was told.
        let known = if core.queues() { part.slot.elsewhere(REFUSED_FOR) } else { None };
        match known {
            Some(owner) => {
                let lane = part.slot.lane();
                part.fail(&NonceError::NotHolder { lane, owner: Box::new(owner) });
            }
            None => unready.push(part),
        }
    }
    if unready.is_empty() {
        return;
    }
    let lanes: Vec<Lane> = unready.iter().map(|part| part.slot.lane()).collect();
    match core.acquire(&lanes).await {
        Ok(answers) => {
            for (part, answer) in unready.into_iter().zip(answers) {
                take_up(core, part, answer);
                // While the lane was somebody else's, its keys may have been served there.
                answer_repeated(core, part).await;
            }
        }
        Err(error) => {
            let error = NonceError::from(error);
            unready.into_iter().for_each(|part| part.fail(&error));
        }
    }
}

/// What an acquisition means for the calls that wait for the lane.
fn take_up(core: &Arc<Core>, part: &mut Part<'_>, answer: Acquisition) {
    let lane = part.slot.lane();
    match answer {
        Acquisition::Other(owner) => {
            part.work.forget();
            part.fail(&NonceError::NotHolder { lane, owner: Box::new(owner) });
        }
        Acquisition::Held(HeldLane { elsewhere: Some(elsewhere), .. }) => {
            part.fail(&NonceError::LaneNotOwned { lane, elsewhere });
        }
        Acquisition::Held(held) => match (held.paused, held.next_nonce) {
            (Some(reason), _) => part.fail(&NonceError::LanePaused { lane, reason }),
            (None, None) => {
                let calls = std::mem::take(&mut part.calls);
                park::park(core, part.slot, Question::FirstCursor, calls);
            }
            (None, Some(cursor)) => {
                part.work.plan_from(&held.claim, Planner::new(cursor));
                core.refresh_soon(part.slot);
            }
        },
    }
}

/// Sets calls aside that are about to be given a released nonce, until it has been looked at once
/// more: since it was put on offer the chain may have seen it used, or later ones may have been
/// sent.
fn look_again(core: &Arc<Core>, parts: &mut [Part<'_>]) {
    for part in parts {
        let Some(claim) = part.slot.claim() else { continue };
        let on_offer = part.work.planner(&claim).map_or(0, |planner| planner.on_offer());
        if on_offer > 0 && part.calls.iter().any(|call| !call.looked) {
            let calls = std::mem::take(&mut part.calls);
            park::park(core, part.slot, Question::Released, calls);
        }
    }
}

/// Plans and commits what the parts wait for.
async fn commit(core: &Arc<Core>, parts: &mut [Part<'_>]) {
    let mut planned: Vec<&mut Part<'_>> = Vec::with_capacity(parts.len());
    let mut bindings: Vec<Binding> = Vec::with_capacity(parts.len());
    for part in parts {
        if let Some(binding) = plan(part) {
            bindings.push(binding);
            planned.push(part);
        }
    }
    if bindings.is_empty() {
        return;
    }
    let (sent, until) = (Instant::now(), core.trust_from_now());
    let answer = core.store.bind(&bindings, core.lease(), core.settings.hold_timeout).await;
    match answer {
        Ok(answers) => {
            let size = bindings.iter().map(|binding| binding.holds.len()).sum();
            metrics::committed("allocate", size, sent.elapsed());
            for ((part, binding), answer) in planned.into_iter().zip(bindings).zip(answers) {
                conclude(core, part, &binding, answer, until);
            }
        }
        Err(error) => {
            metrics::store_failed("allocate");
            warn!(%error, lanes = bindings.len(), "a commit of allocations failed");
            for (part, binding) in planned.into_iter().zip(bindings) {
                part.work.forget();
                match &error {
                    StoreError::CommitUnknown(_) => read_back(core, part, &binding).await,
                    error => part.fail(&error.into()),
                }
            }
        }
    }
}

/// A nonce and a hold id for each call.
fn plan(part: &mut Part<'_>) -> Option<Binding> {
    if part.calls.is_empty() {
        return None;
    }
    let claim = part.slot.claim()?;
    let count = part.calls.len();
    let Some(plan) = part.work.planner(&claim)?.take(count) else {
        part.fail(&NonceError::Internal("the lane's nonces are used up".into()));
        return None;
    };
    let holds = part.calls.iter();
    let holds = holds.map(|call| NewHold { id: HoldId::fresh(), key: call.key.clone() }).collect();
    Some(Binding { claim, plan, holds })
}

/// What the commit said for one lane.
fn conclude(
    core: &Core,
    part: &mut Part<'_>,
    binding: &Binding,
    answer: Result<Vec<Hold>, Refusal>,
    until: Instant,
) {
    let (claim, lane) = (binding.claim, part.slot.lane());
    match answer {
        Ok(holds) => {
            part.slot.renewed(claim, until);
            part.slot.note_given_out(binding.plan.first + binding.plan.fresh);
            let (signer, chain, node) = (lane.signer, lane.chain, &core.holder.node);
            debug!(%signer, %chain, %node, token = claim.token().get(), op = "allocate",
                   count = holds.len(), first = holds[0].nonce, "fenced write");
            let reissued = binding.plan.reissued.len();
            metrics::allocated("reissued", reissued);
            metrics::allocated("fresh", holds.len() - reissued);
            deliver(core, part, holds);
        }
        Err(refusal) => {
            part.work.forget();
            refused(core, part, claim, refusal);
        }
    }
}

/// Hands each call its hold. What nobody is there to take goes back.
fn deliver(core: &Core, part: &mut Part<'_>, holds: Vec<Hold>) {
    for (call, hold) in part.calls.drain(..).zip(holds) {
        let (lane, nonce, id, keyed) = (hold.lane, hold.nonce, hold.id, call.key.is_some());
        if !call.answer(Ok(hold)) && !keyed {
            core.orphans.add(lane, [(nonce, id)]);
        }
    }
}

/// Answers the calls for which trying again is pointless; the others stay for the next round.
fn refused(core: &Core, part: &mut Part<'_>, claim: Claim, refusal: Refusal) {
    let lane = part.slot.lane();
    match refusal {
        Refusal::Fenced(owner) => {
            core.lost(part.slot, claim, &owner, "allocate");
            // If it is ours the token was raised by a pause or resume: ask again.
            if !core.is_ours(&owner) {
                part.fail(&NonceError::Fenced { lane, owner: Box::new(owner) });
            }
        }
        Refusal::Paused(reason) => part.fail(&NonceError::LanePaused { lane, reason }),
        Refusal::Elsewhere(elsewhere) => {
            part.fail(&NonceError::LaneNotOwned { lane, elsewhere });
        }
        // Only of transactions, and bare nonces are none.
        Refusal::Restored
        | Refusal::CursorMoved
        | Refusal::RowLost
        | Refusal::OthersWait
        | Refusal::Unaligned => {}
        Refusal::Inconsistent(why) => {
            tracing::error!(signer = %lane.signer, chain = %lane.chain, why,
                            "the nonce ledger contradicts the lane's cursor");
            part.fail(&NonceError::Internal(format!(
                "the nonce ledger contradicts the cursor: {why}"
            )));
        }
    }
}

/// Learns the fate of a commit whose answer was lost. If it did not happen the calls stay for the
/// next round; if that cannot be learned either, they are told so.
async fn read_back(core: &Core, part: &mut Part<'_>, binding: &Binding) {
    let planned: Vec<(Nonce, HoldId)> =
        binding.plan.nonces().zip(binding.holds.iter().map(|hold| hold.id)).collect();
    match core.store.read_back(part.slot.lane(), &planned).await {
        Ok(found) if found.is_empty() => {}
        Ok(mut found) => {
            // In the order of the calls, which is that of the plan.
            let order: HashMap<HoldId, usize> =
                planned.iter().enumerate().map(|(place, (_, id))| (*id, place)).collect();
            found.sort_by_key(|hold| order.get(&hold.id).copied());
            deliver(core, part, found);
        }
        Err(error) => {
            let unkeyed = part.calls.iter().zip(&planned).filter(|(call, _)| call.key.is_none());
            core.orphans.add(part.slot.lane(), unkeyed.map(|(_, planned)| *planned));
            part.fail(&error.into());
        }
    }
}
