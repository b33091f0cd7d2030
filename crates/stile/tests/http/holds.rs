//! Allocate and mark.

use serde_json::json;

use crate::Solo;
use crate::common::{MODES, SIGNER, hash};

#[tokio::test]
async fn a_nonce_is_held_then_used_and_saying_it_again_answers_the_same() {
    for mode in MODES {
        let solo = Solo::start_with(&[SIGNER.to_owned()], |options| options.mode(mode)).await;
        let hold = solo.node.allocate(SIGNER).await.ok();
        assert_eq!((&hold["nonce"], &hold["status"]), (&0.into(), &"HELD".into()), "{hold}");
        assert_eq!((&hold["signer"], &hold["chainId"]), (&SIGNER.into(), &31337.into()));
        assert_eq!((&hold["txHash"], &hold["reason"]), (&json!(null), &json!(null)));
        assert!(hold["lockedUntil"].as_str().unwrap().ends_with('Z'), "{hold}");

        let used = solo.node.used(&hold, &hash(1)).await.ok();
        assert_eq!((&used["status"], &used["txHash"]), (&"CONSUMED".into(), &hash(1).into()));
        assert_eq!(solo.node.used(&hold, &hash(1)).await.ok(), used);
        let again = solo.node.allocate(SIGNER).await;
        assert_eq!(again.nonce(), 1, "a used nonce is never given out again");
    }
}

#[tokio::test]
async fn a_mark_that_contradicts_is_refused_and_shows_the_hold() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let hold = solo.node.allocate(SIGNER).await.ok();
    let used = solo.node.used(&hold, &hash(1)).await.ok();
    for answer in
        [solo.node.recyclable(&hold, "not sent").await, solo.node.used(&hold, &hash(2)).await]
    {
        assert_eq!((answer.status, answer.problem().as_str()), (409, "hold-conflict"));
        assert_eq!(answer.json()["hold"], used, "{answer:?}");
        assert_eq!(answer.header("retry-after"), None, "trying again is pointless");
    }
}

#[tokio::test]
async fn a_nonce_given_back_goes_to_the_next_caller_and_is_lost_to_the_first() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let first = solo.node.allocate(SIGNER).await.ok();
    let second = solo.node.allocate(SIGNER).await.ok();
    let released = solo.node.recyclable(&first, "no funds").await.ok();
    assert_eq!(
        (&released["status"], &released["reason"]),
        (&"RELEASED".into(), &"no funds".into())
    );
    assert_eq!(solo.node.recyclable(&first, "for another reason").await.ok(), released);

    let next = solo.node.allocate(SIGNER).await.ok();
    assert_eq!(next["nonce"], first["nonce"]);
    assert_ne!(next["holdId"], first["holdId"]);
    assert_eq!(solo.node.allocate(SIGNER).await.nonce(), 2);

    assert_eq!(solo.node.recyclable(&first, "no funds").await.ok(), released, "as the first time");
    let late = solo.node.used(&first, &hash(1)).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "hold-superseded"));
    assert_eq!(late.json()["hold"], released);
    let wrong = json!({ "holdId": second["holdId"], "txHash": hash(1) });
    let wrong = solo.node.post(&format!("/api/v1/nonces/{SIGNER}/0/used"), wrong).await;
    assert_eq!((wrong.status, wrong.problem().as_str()), (404, "hold-not-found"));
    assert_eq!(solo.node.used(&next, &hash(2)).await.ok()["status"], "CONSUMED");
}

#[tokio::test]
async fn the_same_idempotency_key_always_answers_with_the_same_hold() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let allocate = async |key: &str| {
        let path = format!("/api/v1/nonces/{SIGNER}/allocate");
        let request = solo.node.request("POST", &path).header("Idempotency-Key", key);
        crate::common::Answer::of(request.send().await.unwrap()).await.unwrap().ok()
    };
    let long = "k".repeat(255);
    let hold = allocate(&long).await;
    // At the same time, too.
    let calls = std::iter::repeat_with(|| allocate(&long)).take(50);
    for answer in futures::future::join_all(calls).await {
        assert_eq!(answer, hold);
    }
    assert_eq!(allocate("another one").await["nonce"], 1);
    let used = solo.node.used(&hold, &hash(1)).await.ok();
    assert_eq!(allocate(&long).await, used, "as it stands by now");
    assert_eq!(solo.node.allocate(SIGNER).await.nonce(), 2, "without a key every call is new");
}

#[tokio::test]
async fn a_body_may_be_left_out_and_a_content_type_may_have_parameters() {
    let solo = Solo::start(&[SIGNER.to_owned()]).await;
    let path = format!("/api/v1/nonces/{}/allocate", SIGNER.to_lowercase());
    let bare = solo.node.request("POST", &path).send().await.unwrap();
    assert_eq!(bare.status(), 200);
    let request = solo.node.bare_request("POST", &path).body("{\"chainId\": 31337}");
    let request = request.header("Content-Type", "Application/JSON; charset=utf-8");
    let answer = crate::common::Answer::of(request.send().await.unwrap()).await.unwrap();
    assert_eq!(answer.nonce(), 1);
    assert_eq!(answer.json()["signer"], SIGNER, "all spellings are one lane");
}
