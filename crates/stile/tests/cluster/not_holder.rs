//! Calls for a lane that another node holds: accepted, passed on, refused.

use serde_json::json;
use testkit::{Anvil, AnvilOptions, eventually};

use crate::common::{Database, NodeOptions, StileProcess, signer, signers};
use crate::support::{id, transfer};

/// Two nodes, the second of which treats calls for the first one's lanes in this way.
async fn pair(database: &Database, not_holder: &str, lanes: u8) -> (StileProcess, StileProcess) {
    let options =
        |name| NodeOptions::postgres(name, &database.url, &signers(lanes)).lease("60s", "20s");
    let (a, b) = (options("a"), options("b").set("cluster.not_holder", not_holder));
    let (a, b) = tokio::join!(a.start(), b.start());
    for lane in signers(lanes) {
        assert_eq!(a.allocate(&lane).await.nonce(), 0);
    }
    (a, b)
}

const ANSWERED: &str = "stile_forward_total{result=\"answered\"}";

/// Bare nonces are only the holder's to give out, so in both modes the call goes there.
#[tokio::test]
async fn a_bare_nonce_is_asked_for_at_the_holder() {
    for mode in ["accept", "forward"] {
        let database = Database::new().await;
        let (a, b) = pair(&database, mode, 1).await;
        let call = |key: &'static str| {
            let path = format!("/api/v1/nonces/{}/allocate", signer(0));
            let request = b.request("POST", &path).header("Idempotency-Key", key);
            async move { request.json(&json!({})).send().await.unwrap().json().await.unwrap() }
        };
        let first: serde_json::Value = call("one").await;
        assert_eq!(first["nonce"], 1, "{first}");
        assert_eq!(call("one").await, first, "the caller's key went along");
        assert_eq!(call("two").await["nonce"], 2);
        assert_eq!(b.metric(ANSWERED).await, 2.0, "what was asked before, any node answers");
        assert_eq!(a.metric("stile_allocate_total{result=\"fresh\"}").await, 3.0);
        assert_eq!(a.signer(&signer(0)).await["ownerNode"], "a");
    }
}

/// What the holder says is what the caller hears.
#[tokio::test]
async fn the_holders_refusal_is_passed_back() {
    let database = Database::new().await;
    let (a, b) = pair(&database, "accept", 1).await;
    let path = format!("/api/v1/signers/{}/pause", signer(0));
    a.post(&path, json!({ "reason": "for a moment" })).await.ok();
    let answer = b.allocate(&signer(0)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "lane-paused"), "{answer:?}");
}

#[tokio::test]
async fn where_calls_are_refused_the_holder_is_named() {
    let database = Database::new().await;
    let (a, b) = pair(&database, "reject", 1).await;
    let answer = b.allocate(&signer(0)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    assert_eq!(answer.header("stile-owner-url"), Some(a.url()));
    assert!(answer.header("retry-after").is_some());
    assert_eq!(b.metric("stile_forward_total").await, 0.0);
}

/// Nobody can be asked who does not say where.
#[tokio::test]
async fn a_holder_without_a_url_cannot_be_asked() {
    let database = Database::new().await;
    let options =
        |name| NodeOptions::postgres(name, &database.url, &signers(1)).lease("60s", "20s");
    let a = options("a").without_url().start().await;
    let b = options("b").set("cluster.not_holder", "accept").start().await;
    assert_eq!(a.allocate(&signer(0)).await.nonce(), 0);
    let answer = b.allocate(&signer(0)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    assert_eq!(answer.header("stile-owner-url"), None);
}

/// A holder that is gone leaves a lease; until it is over nobody gives out nonces.
#[tokio::test]
async fn a_holder_that_is_gone_is_told_from_one_that_is_there() {
    let database = Database::new().await;
    let (a, b) = pair(&database, "accept", 1).await;
    a.kill().await;
    let answer = b.allocate(&signer(0)).await;
    assert_eq!(
        (answer.status, answer.problem().as_str()),
        (503, "holder-unreachable"),
        "{answer:?}"
    );
    assert!(answer.header("retry-after").is_some());
    assert!(b.metric("stile_forward_total{result=\"absent\"}").await >= 1.0);
    database.execute("UPDATE lane SET expires_at = clock_timestamp()").await;
    assert_eq!(b.allocate(&signer(0)).await.nonce(), 1, "a lease that is over is taken");
}

/// Two nodes before one chain, the lane with `a`.
async fn sending(not_holder: &str) -> (Database, Anvil, String, StileProcess, StileProcess) {
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(AnvilOptions::default()));
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(anvil.url())
            .development_keys(1)
            .lease("60s", "20s")
            .set_literal("confirmations.required", "0")
    };
    let (a, b) = (options("a"), options("b").set("cluster.not_holder", not_holder));
    let (a, b) = tokio::join!(a.start(), b.start());
    let signer = anvil.accounts().await.remove(0);
    let first = a.send_new(&transfer(&signer, 1)).await;
    a.reaches(id(&first), "CONFIRMED").await;
    (database, anvil, signer, a, b)
}

#[tokio::test]
async fn a_transaction_is_accepted_for_the_holder() {
    let (_database, _anvil, signer, a, b) = sending("accept").await;
    let tx = b.send_new(&transfer(&signer, 2)).await;
    b.reaches(id(&tx), "CONFIRMED").await;
    let history = b.history(id(&tx)).await;
    assert_eq!((&history[0]["kind"], &history[0]["nodeId"]), (&"ACCEPTED".into(), &"b".into()));
    assert!(history[1..].iter().all(|event| event["nodeId"] == "a"), "{history:#?}");
    assert_eq!(b.metric("stile_forward_total").await, 0.0);
    assert_eq!(a.signer(&signer).await["ownerNode"], "a");
    // The holder was told, and did not find it by looking.
    assert!(b.metric("stile_lane_news_total{way=\"sent\"}").await >= 1.0);
    assert!(a.metric("stile_lane_news_total{way=\"heard\"}").await >= 1.0);
}

#[tokio::test]
async fn a_transaction_is_passed_on_to_the_holder() {
    let (_database, _anvil, signer, a, b) = sending("forward").await;
    let tx = b.send_new(&transfer(&signer, 2)).await;
    assert_eq!(b.metric(ANSWERED).await, 1.0);
    let again = b.send(&transfer(&signer, 2)).await;
    assert_eq!((again.status, id(&again.json())), (200, id(&tx)), "the name went along");
    let mut other = transfer(&signer, 3);
    other["requestId"] = "request-2".into();
    let reused = b.send(&other).await;
    assert_eq!((reused.status, reused.problem().as_str()), (422, "request-id-reused"));
    b.reaches(id(&tx), "CONFIRMED").await;
    let history = b.history(id(&tx)).await;
    assert!(history.iter().all(|event| event["nodeId"] == "a"), "{history:#?}");
    // Each item of a batch finds its holder.
    let items = json!({ "items": [transfer(&signer, 2), { "signer": 7 }, transfer(&signer, 5)] });
    let batch = b.post("/api/v1/tx/batch", items).await.ok();
    let statuses: Vec<_> =
        batch["items"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, [200, 422, 202], "{batch}");
    let fifth = id(&batch["items"][2]["tx"]).to_owned();
    assert_eq!(b.history(&fifth).await[0]["nodeId"], "a");
    // Nobody is there to pass it on to: it is accepted here, and bound by whoever takes the lane.
    a.kill().await;
    let kept = b.send_new(&transfer(&signer, 4)).await;
    assert_eq!((&kept["state"], &kept["nonce"]), (&"CREATED".into(), &serde_json::Value::Null));
}

#[tokio::test]
async fn a_transaction_is_refused_where_the_holder_is_to_be_asked() {
    let (_database, _anvil, signer, a, b) = sending("reject").await;
    let answer = b.send(&transfer(&signer, 2)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    assert_eq!(answer.header("stile-owner-url"), Some(a.url()));
    let items = json!({ "items": [transfer(&signer, 2), transfer(&signer, 1)] });
    let batch = b.post("/api/v1/tx/batch", items).await.ok();
    let statuses: Vec<_> =
        batch["items"].as_array().unwrap().iter().map(|it| &it["status"]).collect();
    assert_eq!(statuses, [409, 200], "what was taken before is answered by any node: {batch}");
    assert_eq!(b.send(&transfer(&signer, 1)).await.status, 200);
}

/// What the clients of a cluster can ask before they ask for anything else.
#[tokio::test]
async fn any_node_tells_where_a_signer_is() {
    let database = Database::new().await;
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &signers(2))
            .set_literal("cluster.move_lanes", "true")
    };
    let (a, b) = (options("a").lease("60s", "20s"), options("b").lease("60s", "20s"));
    // One after the other, so that the second knows of the first.
    let a = a.start().await;
    let b = b.start().await;
    let path = |lane| format!("/api/v1/route?signer={}", signer(lane));
    let route = b.get(&path(0)).await.ok();
    assert_eq!((&route["holder"], &route["expiresAt"]), (&json!(null), &json!(null)), "{route}");
    assert_eq!(route["signer"], signer(0));
    a.allocate(&signer(0)).await.ok();
    let route = b.get(&path(0)).await.ok();
    assert_eq!(route["holder"], json!({ "nodeId": "a", "url": a.url() }), "{route}");
    // By the hash that never changes.
    assert_eq!(route["preferred"], json!({ "nodeId": "a", "url": a.url() }), "{route}");
    let other = b.get(&format!("{}&chainId=31337", path(1))).await.ok();
    assert_eq!(other["preferred"], json!({ "nodeId": "b", "url": b.url() }), "{other}");
    assert_eq!(b.get("/api/v1/route?signer=0x1").await.status, 422);
    assert_eq!(b.get("/api/v1/route").await.status, 422);
    let stopped = b.terminate().await;
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(database.rows("SELECT node_id FROM node").await, [["a"]], "b has left");
    eventually("the lease to be a's still", async || {
        (a.get(&path(0)).await.ok()["holder"]["nodeId"] == "a").then_some(())
    })
    .await;
}
