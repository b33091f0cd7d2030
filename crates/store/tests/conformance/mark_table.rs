//! Every status and event, against the rule in the domain: what a store does to a hold is what
//! [`HoldStatus::after`] says, no more and no less.

use stile_domain::{HeldExpiry, Hold, HoldEvent, HoldStatus};
use stile_store::{Claim, MarkOutcome, Store};

use crate::common::{
    Bench, LEASE, RUN_OUT, claim_at, give_back, hold_at, lane, mark, node, read_hold, recyclable,
    used,
};

on_both_stores!(every_status_takes_every_event_as_the_domain_says);

const EVENTS: [HoldEvent; 5] = [
    HoldEvent::Used,
    HoldEvent::Recyclable,
    HoldEvent::Expired(HeldExpiry::Suspect),
    HoldEvent::Expired(HeldExpiry::Reclaim),
    HoldEvent::SeenOnChain,
];

/// The hash that every mark in this file names.
const HASH: u8 = 7;

async fn every_status_takes_every_event_as_the_domain_says(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let pairs = HoldStatus::ALL.into_iter().flat_map(|status| EVENTS.map(|event| (status, event)));
    for ((status, event), number) in pairs.zip(0..) {
        let claim = claim_at(store, &a, lane(number), 0).await;
        let hold = brought_to(store, claim, status).await;
        let outcome = apply(store, claim, &hold, event).await;
        let stands = read_hold(store, &hold).await.status;
        match status.after(event) {
            Ok(next) => assert_eq!(stands, next, "{status} after {event:?}"),
            Err(_) => assert_eq!(stands, status, "{status} does not take {event:?}"),
        }
        if let Some(outcome) = outcome {
            let done = matches!(outcome, MarkOutcome::Done(_));
            assert_eq!(done, status.after(event).is_ok(), "{status}, {event:?}: {outcome:?}");
        }
    }
}

/// A hold whose time has passed, in this status.
async fn brought_to(store: &dyn Store, claim: Claim, status: HoldStatus) -> Hold {
    let hold = hold_at(store, claim, 0, RUN_OUT).await;
    match status {
        HoldStatus::Held => {}
        HoldStatus::Consumed => drop(mark(store, used(&hold, HASH)).await),
        HoldStatus::Released => drop(give_back(store, &hold).await),
        HoldStatus::Suspect => {
            drop(store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap());
        }
    }
    assert_eq!(read_hold(store, &hold).await.status, status);
    hold
}

/// Lets the event happen; the answer, if it was a caller's mark.
async fn apply(
    store: &dyn Store,
    claim: Claim,
    hold: &Hold,
    event: HoldEvent,
) -> Option<MarkOutcome> {
    match event {
        HoldEvent::Used => Some(mark(store, used(hold, HASH)).await),
        HoldEvent::Recyclable => Some(mark(store, recyclable(hold, "not sent")).await),
        HoldEvent::Expired(policy) => {
            store.expire(&[claim], policy, LEASE).await.unwrap()[0].as_ref().unwrap();
            None
        }
        HoldEvent::SeenOnChain => {
            let seen = [(claim, hold.nonce + 1)];
            store.settle(&seen, LEASE).await.unwrap()[0].as_ref().unwrap();
            None
        }
    }
}
