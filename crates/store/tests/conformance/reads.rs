//! Surveys, lanes, pages of holds, reading back.

use stile_domain::{HeldExpiry, HoldId, HoldStatus, Nonce};
use stile_store::{HoldFilter, LaneSurvey};

use crate::common::{
    Bench, HOLD, LEASE, RUN_OUT, bind, claim_at, fresh, give_back, hold_at, key, lane, lanes, mark,
    node, recyclable, reissue, released, used, view,
};

on_both_stores!(
    a_survey_shows_what_is_open,
    a_survey_leaves_out_lanes_with_nothing_open,
    a_survey_is_about_holds,
    lanes_show_what_people_ask_for,
    at_most_a_hundred_gaps_are_listed,
    holds_come_in_pages_lowest_first,
    holds_are_filtered_by_status,
    a_page_is_of_one_lane,
    reading_back_finds_present_and_past_holds_and_no_others,
    an_open_store_answers,
);

async fn a_survey_shows_what_is_open(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut holds = Vec::new();
    for nonce in 0..2 {
        holds.push(hold_at(store, claim, nonce, RUN_OUT).await);
    }
    store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap()[0].as_ref().unwrap();
    for (nonce, timeout) in [HOLD, HOLD, HOLD, HOLD, RUN_OUT].into_iter().enumerate() {
        holds.push(hold_at(store, claim, nonce as Nonce + 2, timeout).await);
    }
    give_back(store, &holds[4]).await;
    give_back(store, &holds[2]).await;
    mark(store, used(&holds[3], 1)).await;

    let survey = bench.second().survey(&[lane(1)]).await.unwrap();
    let expected = LaneSurvey {
        lane: lane(1),
        released: vec![released(&holds[2]), released(&holds[4])],
        suspect: vec![0, 1],
        expired: 1,
        highest_consumed: Some(3),
    };
    assert_eq!(survey, [expected]);
}

async fn a_survey_leaves_out_lanes_with_nothing_open(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [in_time, done, given_back, unknown] = lanes();
    let mut holds = Vec::new();
    for lane in [in_time, done, given_back] {
        let claim = claim_at(store, &a, lane, 0).await;
        holds.push(hold_at(store, claim, 0, HOLD).await);
    }
    mark(store, used(&holds[1], 1)).await;
    give_back(store, &holds[2]).await;
    let survey = store.survey(&[unknown, given_back, done, in_time]).await.unwrap();
    assert_eq!(survey.len(), 1);
    assert_eq!((survey[0].lane, survey[0].highest_consumed), (given_back, None));
    assert!(store.survey(&[]).await.unwrap().is_empty());
}

async fn a_survey_is_about_holds(bench: Bench) {
    let store = &*bench.store;
    claim_at(store, &node("a"), lane(1), 5).await;
    let raw = bench.raw().await;
    for (nonce, kind) in [(0, "tx"), (1, "filler")] {
        raw.plant(lane(1), nonce, kind, "HELD").await.unwrap();
    }
    assert!(store.survey(&[lane(1)]).await.unwrap().is_empty());
}

async fn lanes_show_what_people_ask_for(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let claim = claim_at(store, &a, lane(1), 0).await;
    hold_at(store, claim, 0, RUN_OUT).await;
    store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap()[0].as_ref().unwrap();
    let holds = bind(store, fresh(claim, 1, 5)).await.unwrap();
    for place in [3, 1] {
        give_back(store, &holds[place]).await;
    }
    mark(store, used(&holds[0], 1)).await;
    store.settle(&[(claim, 0)], LEASE).await.unwrap()[0].as_ref().unwrap();

    let views = store.lanes(&[lane(9), lane(1)]).await.unwrap();
    assert_eq!(views[0], None);
    let view = views[1].as_ref().unwrap();
    assert_eq!(view.lane, lane(1));
    assert_eq!((view.next_nonce, view.last_chain_nonce), (Some(6), Some(0)));
    assert_eq!((view.held, view.suspect), (2, 1));
    assert_eq!(view.gaps, [2, 4]);
    assert_eq!((&view.owner.node, view.owner.token), (&a.node, claim.token()));
    assert!(store.lanes(&[]).await.unwrap().is_empty());
}

async fn at_most_a_hundred_gaps_are_listed(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = bind(store, fresh(claim, 0, 120)).await.unwrap();
    let marks: Vec<_> = holds.iter().map(|hold| recyclable(hold, "not sent")).collect();
    store.mark(&marks).await.unwrap();
    let expected: Vec<Nonce> = (0..100).collect();
    assert_eq!(view(store, lane(1)).await.gaps, expected);
}

async fn holds_come_in_pages_lowest_first(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 10).await;
    let holds = bind(store, fresh(claim, 10, 7)).await.unwrap();
    let mut after = None;
    let mut pages = Vec::new();
    loop {
        let filter = HoldFilter { lane: lane(1), status: None, after, limit: 3 };
        let page = store.holds(filter).await.unwrap();
        pages.push(page.holds);
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(pages.concat(), holds);
    let exact = HoldFilter { lane: lane(1), status: None, after: None, limit: 7 };
    assert_eq!(store.holds(exact).await.unwrap().next, None, "no page after the last");
}

async fn holds_are_filtered_by_status(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let holds = bind(store, fresh(claim, 0, 6)).await.unwrap();
    for place in [1, 4, 5] {
        give_back(store, &holds[place]).await;
    }
    let status = Some(HoldStatus::Released);
    let filter = HoldFilter { lane: lane(1), status, after: Some(1), limit: 1 };
    let page = store.holds(filter).await.unwrap();
    assert_eq!((page.holds[0].nonce, page.next), (4, Some(4)));
    let rest = store.holds(HoldFilter { after: page.next, ..filter }).await.unwrap();
    assert_eq!((rest.holds[0].nonce, rest.next), (5, None));
    let none = HoldFilter { status: Some(HoldStatus::Suspect), after: None, ..filter };
    assert!(store.holds(none).await.unwrap().holds.is_empty());
}

async fn a_page_is_of_one_lane(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    for lane in lanes::<2>() {
        let claim = claim_at(store, &a, lane, 0).await;
        bind(store, fresh(claim, 0, 2)).await.unwrap();
    }
    bench.raw().await.plant(lane(1), 7, "tx", "HELD").await.unwrap();
    let filter = HoldFilter { lane: lane(1), status: None, after: None, limit: 100 };
    let page = store.holds(filter).await.unwrap();
    assert_eq!(page.holds.len(), 2, "holds only, of this lane only");
    assert!(page.holds.iter().all(|hold| hold.lane == lane(1)));
}

async fn reading_back_finds_present_and_past_holds_and_no_others(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let first = bind(store, fresh(claim, 0, 2)).await.unwrap();
    let past = give_back(store, &first[0]).await;
    let new = bind(store, reissue(claim, 2, &first[..1])).await.unwrap().remove(0);

    let wanted = [
        (0, past.id),
        (0, new.id),
        (1, first[1].id),
        (1, new.id),
        (1, HoldId::fresh()),
        (2, HoldId::fresh()),
    ];
    let mut found = bench.second().read_back(lane(1), &wanted).await.unwrap();
    found.sort_by_key(|hold| (hold.nonce, hold.status));
    assert_eq!(found, [new, past, first[1].clone()]);
    assert!(store.read_back(lane(2), &wanted).await.unwrap().is_empty());
    assert!(store.read_back(lane(1), &[]).await.unwrap().is_empty());
}

async fn an_open_store_answers(bench: Bench) {
    bench.store.ping().await.unwrap();
    bench.store.check_schema().await.unwrap();
    let none = bench.store.allocated_under(lane(1), &[key("shop", "one")]).await.unwrap();
    assert_eq!(none, [None]);
    bench.store.close().await;
    assert!(bench.store.acquire(&node("a"), &[lane(1)], LEASE).await.is_err());
}
