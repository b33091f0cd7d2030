//! A server that is away or silent.

use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use serde_json::json;
use stile_domain::{B256, HeldExpiry, HoldId, Holder, LaneEventKind, Remembered, Standing, TxId};
use stile_store::{
    Claim, HeaderUpdate, HoldFilter, LaneChanges, Mark, MarkVerdict, NewLaneEvent, OpenOptions,
    Realign, Store, StoreError, StreamPosition, TxChange, TxFilter, Wish, open,
};

use crate::common::{
    A_NODE, Bench, HOLD, LEASE, Raw, WINDOW, bind, bind_new, claim_at, fresh, header, key, lane,
    new_tx, node,
};

/// A transaction that nobody has written.
const TX: TxId = TxId(uuid::Uuid::from_u128(7));

type Call<'s> = (&'static str, BoxFuture<'s, Result<(), StoreError>>);

/// A call, its answer left out.
macro_rules! call {
    ($name:literal, $call:expr) => {
        ($name, Box::pin(async move { $call.await.map(drop) }) as BoxFuture<'_, _>)
    };
}

/// Calls that only read, or wait and change nothing.
fn reads(store: &dyn Store) -> Vec<Call<'_>> {
    let filter = HoldFilter { lane: lane(1), status: None, after: None, limit: 10 };
    vec![
        call!("ping", store.ping()),
        call!("check_schema", store.check_schema()),
        call!("read_back", store.read_back(lane(1), &[(0, HoldId::fresh())])),
        call!("allocated_under", store.allocated_under(lane(1), &[key("shop", "one")])),
        call!("survey", store.survey(&[lane(1)])),
        call!("lanes", store.lanes(&[lane(1)])),
        call!("holds", store.holds(filter)),
        call!("txs", store.txs(&[TX])),
        call!("txs_by_request", async move {
            store.txs_by_request("shop", lane(1), &["one".to_owned()]).await
        }),
        call!("read_back_txs", store.read_back_txs(lane(1), &[TX])),
        call!("tx_page", async move {
            store.tx_page(&TxFilter { limit: 1, ..TxFilter::default() }).await
        }),
        call!("history", store.history(TX)),
        call!("attempts", store.attempts(TX)),
        call!("lanes_with_waiting", store.lanes_with_waiting(&[lane(1)])),
        call!("waiting", store.waiting(lane(1), 1)),
        call!("in_flight_page", store.open_txs(&[lane(1)])),
        call!("done_above", store.done_above(lane(1).chain, &[lane(1)], 0)),
        call!("events_after", store.events_after(StreamPosition::default(), 1)),
        call!("stream_end", store.stream_end()),
        call!("lane_history", store.lane_history(lane(1), None, 1)),
        call!("wishes", store.wishes(&[lane(1)])),
        call!("nonce_owners", store.nonce_owners(lane(1), 0, 1)),
        call!("with_attempts", store.with_attempts(&[TX])),
        call!("txs_of_attempts", store.txs_of_attempts(&[B256::ZERO])),
        call!("headers", store.headers(lane(1).chain)),
        call!("replaced_headers", store.replaced_headers(lane(1).chain)),
    ]
}

/// Calls that write.
fn writes<'s>(store: &'s dyn Store, holder: &'s Holder, claim: Claim) -> Vec<Call<'s>> {
    let verdict = MarkVerdict::Recyclable("not sent".into());
    let mark = Mark { lane: lane(1), nonce: 0, hold: HoldId::fresh(), verdict };
    vec![
        call!("acquire", store.acquire(holder, &[lane(1)], LEASE)),
        call!("take_own", store.take_own(holder, LEASE)),
        call!("take_expired", store.take_expired(holder, LEASE, 1, WINDOW)),
        call!("renew", store.renew(&[claim], LEASE)),
        call!("start_cursor", store.start_cursor(&A_NODE, &claim, 0.into(), LEASE)),
        call!("realign", async move {
            store.realign(&A_NODE, &claim, &Remembered::default(), &json!({}), LEASE).await
        }),
        call!("arrive", store.arrive()),
        call!("bind", store.bind(&[fresh(claim, 0, 1)], LEASE, HOLD)),
        call!("expire", store.expire(&[claim], HeldExpiry::Suspect, LEASE)),
        call!("settle", store.settle(&[(claim, 0)], LEASE)),
        call!("mark", store.mark(std::slice::from_ref(&mark))),
        call!("pause", async move { store.pause(&A_NODE, lane(1), "by hand", &json!({})).await }),
        call!("resume", async move { store.resume(&A_NODE, lane(1), None, &json!({})).await }),
        call!("tell_lane", async move {
            let event = NewLaneEvent { kind: LaneEventKind::Unfunded, data: json!({}) };
            store.tell_lane(&A_NODE, lane(1), &event).await
        }),
        call!("follow_chain", async move {
            let event = NewLaneEvent { kind: LaneEventKind::FollowedChain, data: json!({}) };
            let realign = Realign { from: 0, to: 1 };
            store.follow_chain(&claim, realign, &event, LEASE).await
        }),
        call!("own_up", store.own_up(&claim, &[0], "a gap", LEASE)),
        call!("withdraw", store.withdraw(&A_NODE, TX)),
        call!("wish", store.wish(TX, &Wish::Cancel)),
        call!("accept", async move { store.accept(&A_NODE, &[new_tx(lane(1))]).await }),
        call!("bind_txs", async move {
            store.bind_txs(&A_NODE, &[bind_new(claim, 0, [new_tx(lane(1))])], LEASE).await
        }),
        call!("record", async move {
            let change = TxChange::new(TX, 1, Standing::CREATED);
            let part = LaneChanges { claim, changes: vec![change] };
            store.record(&A_NODE, &[part], LEASE).await
        }),
        call!("save_headers", async move {
            let (canonical, replaced) = (vec![header(1, 1)], vec![header(2, 1)]);
            let update = HeaderUpdate { chain: lane(1).chain, canonical, replaced, keep_from: 0 };
            store.save_headers(&update).await
        }),
        call!("release", store.release(&[claim])),
    ]
}

#[tokio::test]
async fn a_server_that_is_away_is_said_to_be_and_used_again_when_it_is_back() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let store = open(options).unwrap();
    let a = node("a");
    let claim = claim_at(&*store, &a, lane(1), 0).await;
    let before = bench.raw().await.dump().await;

    proxy.cut().await;
    for (name, call) in reads(&*store).into_iter().chain(writes(&*store, &a, claim)) {
        let answer = tokio::time::timeout(testkit::DEADLINE, call).await;
        let answer = answer.unwrap_or_else(|_| panic!("{name} hangs"));
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{name}: {answer:?}");
    }
    assert_eq!(bench.raw().await.dump().await, before);

    proxy.heal().await;
    assert_eq!(bind(&*store, fresh(claim, 0, 1)).await.unwrap()[0].nonce, 0);
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_on() {
    let bench = Bench::postgres().await;
    let (proxy, options) = bench.proxied().await;
    let statement_timeout = Duration::from_millis(500);
    let store = open(OpenOptions { pool_size: 40, statement_timeout, ..options }).unwrap();
    let a = node("a");
    let claim = claim_at(&*store, &a, lane(1), 0).await;
    for answer in join_all((0..40).map(|_| store.ping())).await {
        answer.unwrap();
    }

    proxy.freeze();
    let limit = testkit::DEADLINE;
    let calls: Vec<_> = reads(&*store).into_iter().chain(writes(&*store, &a, claim)).collect();
    let answers = calls.into_iter().map(async |(name, call)| {
        let answer = tokio::time::timeout(limit, call).await;
        (name, answer.unwrap_or_else(|_| panic!("{name} hangs")))
    });
    let answers = join_all(answers).await;
    for (name, answer) in answers {
        let read = reads(&*store).iter().any(|(read, _)| *read == name);
        match answer {
            Err(StoreError::Unavailable(_)) => {}
            Err(StoreError::CommitUnknown(_)) if !read => {}
            other => panic!("{name}: {other:?}"),
        }
    }

    proxy.heal().await;
    store.ping().await.unwrap();
}

/// What the store makes of an error that the server reports under this code.
async fn reported(raw: &Raw, code: &str) -> StoreError {
    let raise = format!("DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$");
    raw.client().batch_execute(&raise).await.unwrap_err().into()
}

#[tokio::test]
async fn an_error_says_whether_to_try_again() {
    let bench = Bench::postgres().await;
    let raw = bench.raw().await;
    for (code, what) in [
        ("08006", "connection failure"),
        ("25006", "a standby takes no writes"),
        ("25P03", "idle in transaction for too long"),
        ("40001", "could not serialize"),
        ("40P01", "deadlock"),
        ("53300", "too many connections"),
        ("55P03", "lock not available"),
        ("57014", "statement timeout"),
        ("57P01", "administrator shutdown"),
    ] {
        let error = reported(&raw, code).await;
        assert!(matches!(error, StoreError::Unavailable(_)), "{what}: {error:?}");
        assert!(error.retry_after().is_some(), "{what}");
    }
    for (code, what) in [("23505", "unique violation"), ("23514", "check violation")] {
        let error = reported(&raw, code).await;
        assert!(matches!(error, StoreError::Constraint(_)), "{what}: {error:?}");
        assert_eq!(error.retry_after(), None, "{what}");
    }
    let error = reported(&raw, "42703").await;
    assert!(matches!(error, StoreError::Internal(_)), "an undefined column: {error:?}");
}
