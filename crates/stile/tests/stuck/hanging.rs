//! A chain that takes connections and never answers, beside a healthy one.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::{Value, json};
use testkit::{Anvil, AnvilOptions};
use tokio::net::TcpListener;

use crate::common::CHAIN;
use crate::support::{Backend, id, transfer};

on_both_stores!(hole_26_a_hanging_chain_answers_within_its_limit_and_holds_up_no_other);

/// How long an endpoint is waited for.
const LIMIT: Duration = Duration::from_secs(3);

/// The chain that hangs.
const DEAD: u64 = 5;

/// Fails if callers of the chain that hangs wait for each other, or if the sweeper of the healthy
/// chain waits for it.
async fn hole_26_a_hanging_chain_answers_within_its_limit_and_holds_up_no_other(backend: Backend) {
    let anvil =
        Anvil::start(AnvilOptions { block_time_seconds: Some(1), ..Default::default() }).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let options = backend.node(anvil.url()).another_chain_at(DEAD, &url);
    let options = options.key_on_chain("HEALTHY", Anvil::key(0), CHAIN);
    let options = options.key_on_chain("DEAD", Anvil::key(1), DEAD);
    let node = options.set("nonce.state_timeout", "1s").start().await;
    let accounts = anvil.accounts().await;
    let (healthy, dead) = (&accounts[0], &accounts[1]);

    let nonces = format!("/api/v1/nonces/{healthy}");
    let hold = node.post(&format!("{nonces}/allocate"), json!({ "chainId": CHAIN })).await.ok();
    assert_eq!(hold["nonce"], 0, "{hold:#}");
    let on = |chain: u64, mut body: Value| {
        body["chainId"] = json!(chain);
        body
    };
    let above = [on(CHAIN, transfer(healthy, 1)), on(CHAIN, transfer(healthy, 2))];
    for tx in node.send_all(&above).await {
        node.reaches(id(&tx), "SUBMITTED").await;
    }
    let posts = (0..50).map(|n| {
        let mut body = on(DEAD, transfer(dead, n));
        body["payload"].as_object_mut().unwrap().remove("gasLimit");
        let node = &node;
        async move {
            let begun = Instant::now();
            let answer = node.send(&body).await;
            (answer, begun.elapsed())
        }
    });
    let reason = "not needed after all";
    let back = json!({ "chainId": CHAIN, "holdId": hold["holdId"], "reason": reason });
    let path = format!("{nonces}/0/recyclable");
    let (answers, given_back) = tokio::join!(join_all(posts), node.post(&path, back));
    given_back.ok();
    for (answer, took) in answers {
        assert_eq!(answer.status, 202, "{answer:?}");
        assert_eq!(answer.json()["state"], json!("CREATED"));
        // One after the other they would take two and a half minutes.
        assert!(took < LIMIT * 5, "{took:?}");
    }
    node.all_confirmed(healthy, 2).await;
    let filled = node.metric("stile_gaps_filled_total").await;
    assert!((filled - 1.0).abs() < f64::EPSILON, "{filled}");
    drop(silent);
}
