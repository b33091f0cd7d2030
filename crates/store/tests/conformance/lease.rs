//! Acquire, renew, release.

use std::time::Duration;

use futures::future::join_all;
use stile_store::{Acquisition, Renewal, Takeover};

use crate::common::{
    Bench, LEASE, RUN_OUT, acquire, claim_at, held, lane, lanes, node, owner, view,
};

on_both_stores!(
    a_new_lane_is_taken,
    our_own_lane_is_kept_under_the_same_token,
    our_own_lane_is_kept_however_fast_it_is_asked_for_again,
    our_own_lane_is_kept_even_after_its_lease_ran_out,
    somebody_elses_lane_is_left_alone_and_its_owner_named,
    an_expired_lane_changes_hands_under_a_higher_token,
    many_lanes_are_answered_in_the_order_asked,
    a_renewal_extends_the_lease_under_the_same_token,
    a_renewal_revives_a_lease_that_ran_out_unnoticed,
    a_renewal_tells_who_has_taken_the_lane,
    a_released_lane_keeps_its_row_token_and_cursor,
    a_released_lane_is_taken_at_once_under_a_higher_token,
    a_release_of_a_lost_lane_changes_nothing,
);

async fn a_new_lane_is_taken(bench: Bench) {
    let a = node("a");
    let taken = held(&*bench.store, &a, lane(1), LEASE).await;
    assert_eq!(taken.claim.lane(), lane(1));
    assert_eq!(taken.claim.token().get(), 1);
    assert_eq!(taken.takeover, Takeover::Taken);
    assert_eq!((taken.next_nonce, taken.paused), (None, None));
    let view = view(&*bench.store, lane(1)).await;
    assert_eq!(view.expires_at, taken.expires_at);
    assert_eq!(view.owner.node, a.node);
    assert_eq!(view.owner.incarnation, a.incarnation);
    assert_eq!(view.owner.url, a.url);
}

async fn our_own_lane_is_kept_under_the_same_token(bench: Bench) {
    let a = node("a");
    let first = held(&*bench.store, &a, lane(1), Duration::from_secs(60)).await;
    let again = held(&*bench.store, &a, lane(1), LEASE).await;
    assert_eq!(again.claim, first.claim);
    assert_eq!(again.takeover, Takeover::Kept);
    assert!(again.expires_at > first.expires_at, "the lease is extended");
}

async fn our_own_lane_is_kept_however_fast_it_is_asked_for_again(bench: Bench) {
    let a = node("a");
    // While the first is being written the others gather, and then go through at one moment.
    let asked = std::iter::once(lane(2)).chain(std::iter::repeat_n(lane(1), 20));
    let answers = join_all(asked.map(|lane| held(&*bench.store, &a, lane, LEASE))).await;
    let taken = answers[1..].iter().filter(|held| held.takeover == Takeover::Taken).count();
    assert_eq!(taken, 1, "a lane is taken once and kept after that");
}

async fn our_own_lane_is_kept_even_after_its_lease_ran_out(bench: Bench) {
    let a = node("a");
    let first = held(&*bench.store, &a, lane(1), RUN_OUT).await;
    let again = held(&*bench.store, &a, lane(1), LEASE).await;
    assert_eq!(again.claim, first.claim);
    assert_eq!(again.takeover, Takeover::Kept);
}

async fn somebody_elses_lane_is_left_alone_and_its_owner_named(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    let claim = held(&*bench.store, &a, lane(1), LEASE).await.claim;
    let before = view(&*bench.store, lane(1)).await.expires_at;

    let owner = owner(acquire(&*bench.second(), &b, lane(1), LEASE).await);
    assert_eq!((owner.node, owner.incarnation, owner.url), (a.node, a.incarnation, a.url));
    assert_eq!(owner.token, claim.token());
    assert!(owner.remaining <= LEASE, "{:?}", owner.remaining);
    assert!(owner.remaining > LEASE - testkit::DEADLINE, "{:?}", owner.remaining);
    assert_eq!(view(&*bench.store, lane(1)).await.expires_at, before);
}

async fn an_expired_lane_changes_hands_under_a_higher_token(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    let claim = claim_at(&*bench.store, &a, lane(1), 7).await;
    assert_eq!(bench.store.renew(&[claim], RUN_OUT).await.unwrap(), [Renewal::Renewed]);
    assert_eq!(view(&*bench.store, lane(1)).await.owner.remaining, Duration::ZERO);

    let taken = held(&*bench.second(), &b, lane(1), LEASE).await;
    assert!(taken.claim.token() > claim.token());
    assert_eq!(taken.takeover, Takeover::Taken);
    assert_eq!(taken.next_nonce, Some(7), "the cursor goes with the lane");
    let owner = view(&*bench.store, lane(1)).await.owner;
    assert_eq!((owner.node, owner.url), (b.node, b.url));
}

async fn many_lanes_are_answered_in_the_order_asked(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    held(&*bench.store, &a, lane(2), LEASE).await;
    held(&*bench.store, &b, lane(1), LEASE).await;
    held(&*bench.store, &b, lane(4), RUN_OUT).await;
    let asked = [lane(4), lane(2), lane(3), lane(1)];
    let answers = bench.store.acquire(&a, &asked, LEASE).await.unwrap();
    let said: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Acquisition::Held(held) => (held.claim.lane(), held.claim.token().get(), held.takeover),
            Acquisition::Other(owner) => (lane(1), owner.token.get(), Takeover::Kept),
        })
        .collect();
    let expected = [
        (lane(4), 2, Takeover::Taken),
        (lane(2), 1, Takeover::Kept),
        (lane(3), 1, Takeover::Taken),
        (lane(1), 1, Takeover::Kept),
    ];
    assert_eq!(said, expected);
    assert!(matches!(&answers[3], Acquisition::Other(owner) if owner.node == b.node));
    assert!(bench.store.acquire(&a, &[], LEASE).await.unwrap().is_empty());
}

async fn a_renewal_extends_the_lease_under_the_same_token(bench: Bench) {
    let a = node("a");
    let claims = [
        held(&*bench.store, &a, lane(2), Duration::from_secs(60)).await.claim,
        held(&*bench.store, &a, lane(1), Duration::from_secs(60)).await.claim,
    ];
    let renewed = bench.store.renew(&claims, LEASE).await.unwrap();
    assert_eq!(renewed, [Renewal::Renewed, Renewal::Renewed]);
    for claim in claims {
        let owner = view(&*bench.store, claim.lane()).await.owner;
        assert_eq!(owner.token, claim.token());
        assert!(owner.remaining > Duration::from_secs(60), "{:?}", owner.remaining);
    }
}

async fn a_renewal_revives_a_lease_that_ran_out_unnoticed(bench: Bench) {
    let claim = held(&*bench.store, &node("a"), lane(1), RUN_OUT).await.claim;
    assert_eq!(bench.store.renew(&[claim], LEASE).await.unwrap(), [Renewal::Renewed]);
    owner(acquire(&*bench.second(), &node("b"), lane(1), LEASE).await);
}

async fn a_renewal_tells_who_has_taken_the_lane(bench: Bench) {
    let (a, b) = (node("a"), node("b"));
    let lost = held(&*bench.store, &a, lane(1), RUN_OUT).await.claim;
    let kept = held(&*bench.store, &a, lane(2), LEASE).await.claim;
    let taken = held(&*bench.second(), &b, lane(1), Duration::from_secs(60)).await;

    let answers = bench.store.renew(&[lost, kept], LEASE).await.unwrap();
    assert_eq!(answers[1], Renewal::Renewed);
    let Renewal::Fenced(owner) = &answers[0] else { panic!("{answers:?}") };
    assert_eq!((&owner.node, owner.incarnation), (&b.node, b.incarnation));
    assert_eq!(owner.token, taken.claim.token());
    assert_eq!(view(&*bench.store, lane(1)).await.expires_at, taken.expires_at);
}

async fn a_released_lane_keeps_its_row_token_and_cursor(bench: Bench) {
    let a = node("a");
    let claim = claim_at(&*bench.store, &a, lane(1), 5).await;
    assert_eq!(bench.store.release(&[claim]).await.unwrap(), [true]);
    let released = view(&*bench.store, lane(1)).await;
    assert_eq!(released.owner.remaining, Duration::ZERO);
    assert_eq!(released.owner.token, claim.token());
    assert_eq!(released.owner.incarnation, a.incarnation);
    assert_eq!(released.next_nonce, Some(5));
}

async fn a_released_lane_is_taken_at_once_under_a_higher_token(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 5).await;
    bench.store.release(&[claim]).await.unwrap();
    let taken = held(&*bench.second(), &node("b"), lane(1), LEASE).await;
    assert!(taken.claim.token() > claim.token());
    assert_eq!(taken.next_nonce, Some(5));
}

async fn a_release_of_a_lost_lane_changes_nothing(bench: Bench) {
    let [one, two] = lanes();
    let (a, b) = (node("a"), node("b"));
    let lost = held(&*bench.store, &a, one, RUN_OUT).await.claim;
    let kept = held(&*bench.store, &a, two, LEASE).await.claim;
    let taken = held(&*bench.second(), &b, one, LEASE).await;
    assert_eq!(bench.store.release(&[lost, kept]).await.unwrap(), [false, true]);
    let stands = view(&*bench.store, one).await;
    assert_eq!(stands.expires_at, taken.expires_at);
    assert_eq!(stands.owner.token, taken.claim.token());
}
