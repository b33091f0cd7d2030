//! Lanes in another history of the database: nothing is given out before they are held against their
//! chain, and then past all that can have been given out.

use serde_json::json;
use stile_domain::{
    Failover, HeldExpiry, HoldStatus, Lane, LaneEventKind, Others, Remembered, Step,
};
use stile_store::{NewLaneEvent, OpenOptions, Realign, Realigned, Refusal, Renewal, Store, open};

use crate::common::{
    A_NODE, Bench, LEASE, accept_one, bind, bind_new, bind_txs, bound, claim_at, fresh, give_back,
    held, hold_at, lane, new_tx, node, pause, reissue, steps, successor, view,
};

on_both_stores!(
    nothing_is_given_out_in_another_history,
    everything_else_goes_on_in_another_history,
    a_lane_is_realigned_past_everything_that_can_have_been_given_out,
    a_lane_is_realigned_once,
    a_realigned_lane_gives_out_nonces_again,
    a_paused_lane_is_realigned_and_stays_paused,
    a_lane_without_a_cursor_has_nothing_to_realign,
    a_claim_from_before_is_worth_nothing_afterwards,
    arriving_in_the_same_place_changes_nothing,
    arriving_from_elsewhere_stops_every_lane,
);

const NOTHING: Remembered = Remembered {
    used: None,
    given_out: 0,
    token: 0,
    failover: Failover::Ask,
    memory: None,
    ahead: None,
    pooled: false,
    others: Others::None,
};

async fn realign(
    store: &dyn Store,
    claim: &stile_store::Claim,
    remembered: Remembered,
) -> Option<Realigned> {
    let answer = store.realign(&A_NODE, claim, &remembered, &json!({ "lost": [] }), LEASE).await;
    answer.unwrap().unwrap()
}

async fn nothing_is_given_out_in_another_history(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 0).await;
    let hold = hold_at(store, claim, 0, LEASE).await;
    let back = give_back(store, &hold).await;
    bench.lose_history().await;
    let before = bench.raw().await.dump().await;
    assert_eq!(bind(store, fresh(claim, 1, 1)).await, Err(Refusal::Unaligned));
    assert_eq!(bind(store, reissue(claim, 1, &[back])).await, Err(Refusal::Unaligned));
    let new = bind_new(claim, 1, [new_tx(lane(1))]);
    assert_eq!(bind_txs(store, new).await, Err(Refusal::Unaligned));
    let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
    let followed = store.follow_chain(&claim, Realign { from: 1, to: 3 }, &event, LEASE).await;
    assert_eq!(followed.unwrap(), Err(Refusal::Unaligned));
    assert_eq!(bench.raw().await.dump().await, before);
    assert!(!view(store, lane(1)).await.aligned);
    assert_eq!(held(store, &a, lane(1), LEASE).await.next_nonce, None, "no cursor to plan from");
}

async fn everything_else_goes_on_in_another_history(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 0).await;
    let tx = bound(store, claim, 0).await;
    let hold = hold_at(store, claim, 1, std::time::Duration::ZERO).await;
    bench.lose_history().await;
    accept_one(store, new_tx(lane(1))).await;
    steps(store, claim, &tx, &[Step::Sent]).await;
    assert_eq!(store.renew(&[claim], LEASE).await.unwrap(), [Renewal::Renewed]);
    let expired = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap().remove(0);
    assert_eq!(expired.unwrap()[0].id, hold.id);
    let settled = store.settle(&[(claim, 2)], LEASE).await.unwrap().remove(0).unwrap();
    assert_eq!(settled[0].status, HoldStatus::Consumed);
}

async fn a_lane_is_realigned_past_everything_that_can_have_been_given_out(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    for (number, remembered, cursor) in [
        (1, NOTHING, 4),
        (2, Remembered { used: Some(9), ..NOTHING }, 9),
        (3, Remembered { used: Some(1), ..NOTHING }, 4),
        (4, Remembered { used: Some(9), given_out: 12, ..NOTHING }, 12),
    ] {
        let claim = claim_at(store, &a, lane(number), 3).await;
        hold_at(store, claim, 3, LEASE).await;
        bench.lose_history().await;
        let realigned = realign(store, &claim, remembered.clone()).await.expect("realigned");
        assert_eq!((realigned.from, realigned.to), (Some(4), cursor), "{remembered:?}");
        assert!(realigned.token.get() > claim.token().get() + 1000, "{realigned:?}");
        let shown = view(store, lane(number)).await;
        assert_eq!((shown.next_nonce, shown.aligned), (Some(cursor), true));
        assert_eq!(shown.owner.token, realigned.token);
        let told = store.lane_history(lane(number), None, 1).await.unwrap().remove(0);
        assert_eq!(
            (told.kind, told.fencing_token),
            (LaneEventKind::Realigned, Some(realigned.token))
        );
        assert_eq!((&told.data["from"], &told.data["cursor"]), (&json!(4), &json!(cursor)));
        assert_eq!(
            (&told.data["chainNonce"], &told.data["lost"]),
            (&json!(remembered.used), &json!([]))
        );
    }
    // The ledger is ahead of the cursor only where rows were lost one by one.
    let claim = claim_at(store, &a, lane(5), 0).await;
    hold_at(store, claim, 0, LEASE).await;
    let raw = bench.raw().await;
    let back =
        format!("next_nonce = 0, fencing_token = fencing_token + 1 WHERE {}", raw.of(lane(5)));
    raw.execute(&format!("UPDATE lane SET {back}")).await;
    bench.lose_history().await;
    let claim = held(store, &a, lane(5), LEASE).await.claim;
    assert_eq!(realign(store, &claim, NOTHING).await.expect("realigned").to, 1);
}

async fn a_lane_is_realigned_once(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 3).await;
    assert_eq!(realign(store, &claim, NOTHING).await, None, "nothing was lost");
    bench.lose_history().await;
    let realigned = realign(store, &claim, NOTHING).await.expect("realigned");
    let again = held(store, &a, lane(1), LEASE).await;
    assert_eq!((again.claim.token(), again.next_nonce), (realigned.token, Some(3)));
    assert_eq!(realign(store, &again.claim, NOTHING).await, None);
}

async fn a_realigned_lane_gives_out_nonces_again(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 3).await;
    bench.lose_history().await;
    realign(store, &claim, Remembered { used: Some(7), ..NOTHING }).await.expect("realigned");
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(bind(store, fresh(claim, 7, 1)).await.unwrap()[0].nonce, 7);
}

async fn a_paused_lane_is_realigned_and_stays_paused(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    claim_at(store, &a, lane(1), 3).await;
    pause(store, lane(1), "by hand").await;
    bench.lose_history().await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(bind(store, fresh(claim, 3, 1)).await, Err(Refusal::Paused("by hand".into())));
    realign(store, &claim, NOTHING).await.expect("realigned");
    assert_eq!(view(store, lane(1)).await.paused.as_deref(), Some("by hand"));
}

async fn a_lane_without_a_cursor_has_nothing_to_realign(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert!(view(store, lane(1)).await.aligned);
    assert_eq!(realign(store, &claim, NOTHING).await, None);
    assert_eq!(store.start_cursor(&A_NODE, &claim, 5.into(), LEASE).await.unwrap(), Ok(5));
    assert_eq!(bind(store, fresh(claim, 5, 1)).await.unwrap()[0].nonce, 5);
}

async fn a_claim_from_before_is_worth_nothing_afterwards(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let stale = claim_at(store, &a, lane(1), 3).await;
    bench.lose_history().await;
    realign(store, &stale, NOTHING).await.expect("realigned");
    assert!(matches!(bind(store, fresh(stale, 3, 1)).await, Err(Refusal::Fenced(_))));
    let again = store.realign(&A_NODE, &stale, &NOTHING, &json!({}), LEASE).await.unwrap();
    assert!(matches!(again, Err(Refusal::Fenced(_))), "{again:?}");
    // Nor is one that others may have got in the history that is lost: tokens go on far above.
    let next = store.take_own(&successor(&a), LEASE).await.unwrap().remove(0);
    assert!(next.claim.token().get() > stale.token().get() + 1000);
}

/// The store as a process has it that serves.
fn serving(bench: &Bench) -> std::sync::Arc<dyn Store> {
    open(OpenOptions { serve: true, ..bench.database.options() }).expect("open the store")
}

async fn arriving_in_the_same_place_changes_nothing(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 3).await;
    for _ in 0..3 {
        let store = serving(&bench);
        assert_eq!(store.arrive().await.unwrap(), []);
        store.close().await;
    }
    assert!(view(&*bench.store, lane(1)).await.aligned);
    assert_eq!(bind(&*bench.store, fresh(claim, 3, 1)).await.unwrap()[0].nonce, 3);
}

async fn arriving_from_elsewhere_stops_every_lane(bench: Bench) {
    let store = serving(&bench);
    assert_eq!(store.arrive().await.unwrap(), []);
    store.close().await;
    drop(store);
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 3).await;
    claim_at(&*bench.store, &node("a"), lane(2), 0).await;
    bench.raw().await.execute("UPDATE origin SET place = 'elsewhere'").await;
    let store = serving(&bench);
    let mut stopped: Vec<Lane> = store.arrive().await.unwrap();
    stopped.sort_unstable();
    assert_eq!(stopped, [lane(1), lane(2)]);
    assert_eq!(bind(&*bench.store, fresh(claim, 3, 1)).await, Err(Refusal::Unaligned));
    assert_eq!(store.arrive().await.unwrap(), [], "it is known now");
}
