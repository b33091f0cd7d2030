//! Nodes, lanes and what a node asks of a store.

use std::time::Duration;

use stile_domain::{
    Address, B256, ChainId, Hold, HoldId, Holder, Incarnation, Lane, NodeId, Nonce, Plan, Released,
};
use stile_store::{
    Acquisition, AllocationKey, Binding, Claim, HeldLane, LaneView, Mark, MarkOutcome, MarkVerdict,
    NewHold, Owner, Refusal, Resumed, Store,
};

/// A lease that outlasts every test.
pub(crate) const LEASE: Duration = Duration::from_secs(600);

/// A hold's time that outlasts every test.
pub(crate) const HOLD: Duration = Duration::from_secs(600);

/// A lease or a hold's time that is over as soon as it is written.
pub(crate) const RUN_OUT: Duration = Duration::ZERO;

/// How deep reorganisations go.
pub(crate) const WINDOW: u32 = 128;

/// A lane of its own for each number; they sort as the numbers do.
pub(crate) fn lane(number: u32) -> Lane {
    let mut address = [0xab; 20];
    address[16..].copy_from_slice(&number.to_be_bytes());
    Lane::new(ChainId::new(31337).expect("in range"), Address::from(address))
}

pub(crate) fn lanes<const N: usize>() -> [Lane; N] {
    std::array::from_fn(|number| lane(number as u32))
}

/// A process that has just started.
pub(crate) fn node(name: &str) -> Holder {
    Holder {
        node: NodeId(name.into()),
        incarnation: Incarnation::fresh(),
        url: Some(format!("http://{name}:7420")),
    }
}

/// The same node after a restart.
pub(crate) fn successor(of: &Holder) -> Holder {
    Holder { incarnation: Incarnation::fresh(), ..of.clone() }
}

/// One acquisition.
pub(crate) async fn acquire(
    store: &dyn Store,
    holder: &Holder,
    lane: Lane,
    lease: Duration,
) -> Acquisition {
    let answers = store.acquire(holder, &[lane], lease).await.expect("acquire");
    let [answer] = <[_; 1]>::try_from(answers).expect("an answer for each lane");
    answer
}

/// An acquisition that must succeed.
pub(crate) async fn held(
    store: &dyn Store,
    holder: &Holder,
    lane: Lane,
    lease: Duration,
) -> HeldLane {
    match acquire(store, holder, lane, lease).await {
        Acquisition::Held(held) => held,
        Acquisition::Other(owner) => panic!("{lane} is held by {owner:?}"),
    }
}

/// The owner that keeps an acquisition from succeeding.
pub(crate) fn owner(answer: Acquisition) -> Owner {
    match answer {
        Acquisition::Other(owner) => owner,
        Acquisition::Held(held) => panic!("{} was taken", held.claim.lane()),
    }
}

/// A lane held under a long lease, its cursor started.
pub(crate) async fn claim_at(
    store: &dyn Store,
    holder: &Holder,
    lane: Lane,
    cursor: Nonce,
) -> Claim {
    let claim = held(store, holder, lane, LEASE).await.claim;
    let started = store
        .start_cursor(&holder.node, &claim, cursor.into(), LEASE)
        .await
        .expect("start the cursor");
    assert_eq!(started, Ok(cursor));
    claim
}

/// What a plan with these released and so many fresh nonces asks for.
pub(crate) fn binding(claim: Claim, reissued: Vec<Released>, first: Nonce, fresh: u64) -> Binding {
    let count = reissued.len() + fresh as usize;
    let holds = std::iter::repeat_with(|| NewHold { id: HoldId::fresh(), key: None });
    Binding { claim, plan: Plan { reissued, first, fresh }, holds: holds.take(count).collect() }
}

/// Fresh nonces only.
pub(crate) fn fresh(claim: Claim, first: Nonce, count: u64) -> Binding {
    binding(claim, Vec::new(), first, count)
}

/// Nonces of these released holds only.
pub(crate) fn reissue(claim: Claim, cursor: Nonce, holds: &[Hold]) -> Binding {
    binding(claim, holds.iter().map(released).collect(), cursor, 0)
}

/// A hold as the plan that gives its nonce out again names it.
pub(crate) fn released(hold: &Hold) -> Released {
    Released { nonce: hold.nonce, hold: hold.id }
}

/// The same binding, with keys for its first holds.
pub(crate) fn keyed(mut binding: Binding, keys: &[AllocationKey]) -> Binding {
    for (hold, key) in binding.holds.iter_mut().zip(keys) {
        hold.key = Some(key.clone());
    }
    binding
}

pub(crate) fn key(tenant: &str, key: &str) -> AllocationKey {
    AllocationKey { tenant: tenant.into(), key: key.into() }
}

/// Writes one lane's part, for holds that do not run out.
pub(crate) async fn bind(store: &dyn Store, binding: Binding) -> Result<Vec<Hold>, Refusal> {
    let answers = store.bind(&[binding], LEASE, HOLD).await.expect("bind");
    let [answer] = <[_; 1]>::try_from(answers).expect("an answer for each lane");
    answer
}

/// One fresh hold at the cursor, which runs out after `timeout`.
pub(crate) async fn hold_at(
    store: &dyn Store,
    claim: Claim,
    nonce: Nonce,
    timeout: Duration,
) -> Hold {
    let answers = store.bind(&[fresh(claim, nonce, 1)], LEASE, timeout).await.expect("bind");
    let holds = answers.into_iter().next().expect("an answer for each lane").expect("bound");
    let [hold] = <[_; 1]>::try_from(holds).expect("a hold for each nonce");
    hold
}

/// A mark that says the nonce was sent, in the transaction with this hash.
pub(crate) fn used(hold: &Hold, hash: u8) -> Mark {
    let verdict = MarkVerdict::Used(B256::repeat_byte(hash));
    Mark { lane: hold.lane, nonce: hold.nonce, hold: hold.id, verdict }
}

/// A mark that gives the nonce back.
pub(crate) fn recyclable(hold: &Hold, reason: &str) -> Mark {
    let verdict = MarkVerdict::Recyclable(reason.into());
    Mark { lane: hold.lane, nonce: hold.nonce, hold: hold.id, verdict }
}

/// One mark.
pub(crate) async fn mark(store: &dyn Store, mark: Mark) -> MarkOutcome {
    let outcomes = store.mark(&[mark]).await.expect("mark");
    let [outcome] = <[_; 1]>::try_from(outcomes).expect("an outcome for each mark");
    outcome
}

/// Gives a hold back.
pub(crate) async fn give_back(store: &dyn Store, hold: &Hold) -> Hold {
    match mark(store, recyclable(hold, "not sent")).await {
        MarkOutcome::Done(hold) => hold,
        other => panic!("not given back: {other:?}"),
    }
}

/// A hold as it stands.
pub(crate) async fn read_hold(store: &dyn Store, hold: &Hold) -> Hold {
    let found = store.read_back(hold.lane, &[(hold.nonce, hold.id)]).await.expect("read back");
    let [found] = <[_; 1]>::try_from(found).expect("the hold exists");
    found
}

/// Pauses a lane that there is.
pub(crate) async fn pause(store: &dyn Store, lane: Lane, reason: &str) {
    let node = NodeId("operator".into());
    let found = store.pause(&node, lane, reason, &serde_json::json!({})).await.expect("pause");
    assert!(found, "{lane} is not known");
}

/// Resumes a lane that there is, its cursor where it stands.
pub(crate) async fn resume(store: &dyn Store, lane: Lane) {
    let node = NodeId("operator".into());
    let resumed = store.resume(&node, lane, None, &serde_json::json!({})).await.expect("resume");
    assert_eq!(resumed, Resumed::Done);
}

/// A lane as it stands.
pub(crate) async fn view(store: &dyn Store, lane: Lane) -> LaneView {
    let views = store.lanes(&[lane]).await.expect("read the lane");
    views.into_iter().next().flatten().expect("the lane exists")
}
