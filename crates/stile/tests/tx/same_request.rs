//! One request id, many callers.
//!
//! Fails if the request id is not unique in the store, if a lost race is answered with an error
//! rather than with the winner's transaction, or if payloads are not compared.

use futures::future::join_all;
use serde_json::Value;
use testkit::{Anvil, AnvilOptions};

use crate::common::{Database, NodeOptions, StileProcess};
use crate::support::{Backend, assert_mined_once, id, transfer};

const CALLERS: usize = 100;

/// A hundred calls at once over these nodes: one transaction. A changed payload: refused.
async fn a_hundred_at_once(nodes: &[StileProcess], anvil: &Anvil, signer: &str) {
    let body = transfer(signer, 7);
    let calls = nodes.iter().cycle().take(CALLERS).map(|node| node.send(&body));
    let answers = join_all(calls).await;
    let with = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((with(202), with(200)), (1, CALLERS - 1), "{answers:#?}");
    let names: Vec<Value> = answers.iter().map(|answer| answer.json()["txId"].clone()).collect();
    assert!(names.iter().all(|name| *name == names[0]), "{names:?}");

    for node in nodes {
        let mut changed = body.clone();
        changed["payload"]["value"] = "8".into();
        let answer = node.send(&changed).await;
        assert_eq!((answer.status, answer.problem().as_str()), (422, "request-id-reused"));
        // In the middle of a batch it harms nobody.
        let other = transfer(signer, 70 + u64::from(node.port()));
        let items = serde_json::json!({ "items": [body, changed, other] });
        let answer = node.post("/api/v1/tx/batch", items).await.ok();
        let items = answer["items"].as_array().unwrap();
        let statuses: Vec<_> = items.iter().map(|item| item["status"].as_u64().unwrap()).collect();
        assert_eq!(statuses, [200, 422, 202], "{answer:#}");
        assert_eq!(items[0]["tx"]["txId"], names[0]);
        assert_eq!(items[1]["problem"]["code"], "request-id-reused");
    }
    let confirmed = nodes[0].all_confirmed(signer, 1 + nodes.len()).await;
    assert!(confirmed.iter().any(|tx| names[0] == id(tx)));
    assert_mined_once(anvil, signer, &confirmed).await;
}

#[tokio::test]
async fn hole_15_a_hundred_calls_on_two_nodes_make_one_transaction() {
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(chain()));
    let options = |name| {
        NodeOptions::postgres(name, &database.url, &[])
            .endpoint(anvil.url())
            .set("cluster.not_holder", "accept")
            .set_literal("confirmations.required", "1")
            .development_keys(1)
    };
    let (a, b) = (options("a"), options("b"));
    let (a, b) = tokio::join!(a.start(), b.start());
    a_hundred_at_once(&[a, b], &anvil, &anvil.accounts().await[0]).await;
}

async fn hole_15_a_hundred_calls_make_one_transaction(backend: Backend) {
    let anvil = Anvil::start(chain()).await;
    let node = backend.node(anvil.url()).development_keys(1).start().await;
    a_hundred_at_once(&[node], &anvil, &anvil.accounts().await[0]).await;
}

fn chain() -> AnvilOptions {
    AnvilOptions { block_time_seconds: Some(1), ..Default::default() }
}

on_both_stores!(hole_15_a_hundred_calls_make_one_transaction);
