//! Which signers are Stile's, at run time.

use serde_json::Value;
use testkit::eventually;

use crate::common::{Finished, StileProcess, stile};
use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, refusals, report};

const SOME: Amount = Amount { signers: 20, nonces: 60, mined: 5 };

async fn elsewhere(node: &StileProcess, address: &str) -> Value {
    node.signer(address).await["elsewhere"].clone()
}

/// Signers move in steps, and a running node goes by it without being told.
#[tokio::test]
async fn signers_move_by_share_while_a_node_runs() {
    let stage = Stage::set(SOME).await;
    let node = stage.node("a").start().await;
    let first = report(stage.import(&["--percent", "20"])).await;
    let second = report(stage.import(&["--percent", "50"])).await;
    assert!(!first.is_empty() && first.len() < second.len() && second.len() < 20);
    let names = |items: &[Value]| -> Vec<String> {
        items.iter().map(|item| item["address"].as_str().unwrap().to_owned()).collect()
    };
    assert!(names(&first).iter().all(|name| names(&second).contains(name)), "a share only grows");
    let moved = names(&second);
    for number in 0..SOME.signers {
        let address = make::address(number).to_string();
        let answer = node.allocate(&address).await;
        if moved.contains(&address) {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(elsewhere(&node, &address).await, Value::Null);
        } else {
            assert_eq!((answer.status, answer.problem().as_str()), (409, "lane-not-owned"));
            assert!(answer.json()["detail"].as_str().unwrap().contains("import-v1"), "{answer:?}");
            assert_eq!(elsewhere(&node, &address).await, "v1");
        }
    }
    let list = stile(&["signer", "list", "--url", node.url()]).start();
    let listed = Finished::of(&list).await;
    let v1s = listed.ok().lines().filter(|line| line.ends_with(" v1")).count();
    assert_eq!(v1s, 20 - moved.len(), "{}", listed.stdout);
    let shown = stage.rollout(&["show"]).await;
    assert_eq!(shown.ok().lines().filter(|line| line.ends_with("stile")).count(), moved.len());
}

#[tokio::test]
async fn signers_are_taken_and_given_at_run_time() {
    let stage = Stage::set(Amount { signers: 2, ..SOME }).await;
    let node = stage.node("a").start().await;
    let (ours, v1s) = (make::address(0).to_string(), make::address(1).to_string());
    report(stage.import(&["--signer", &ours])).await;
    assert_eq!(node.allocate(&ours).await.status, 200);
    stage.rollout(&["set", "--remove", &ours]).await.ok();
    let refused = node.allocate(&ours).await;
    assert_eq!((refused.status, refused.problem().as_str()), (409, "lane-not-owned"));
    assert_eq!(elsewhere(&node, &ours).await, "stopped");
    stage.rollout(&["set", "--add", &ours]).await.ok();
    assert_eq!(node.allocate(&ours).await.status, 200);
    // What V1 has is not taken from it by word alone.
    let refused = stage.rollout(&["set", "--add", &v1s]).await;
    assert!(refused.failure().contains("import-v1"), "{refused:?}");
    assert_eq!(node.allocate(&v1s).await.status, 409);
}

/// Transactions are refused too, at the latest when the node has heard; those accepted before are
/// answered as ever.
#[tokio::test]
async fn nothing_is_accepted_for_a_signer_that_is_not_stiles() {
    let stage = Stage::set(Amount { signers: 1, ..SOME }).await;
    stage.anvil.set_interval_mining(1).await;
    let node = stage.node("a").development_keys(1).start().await;
    let mine = crate::common::SIGNER;
    let send = async |id: &str| {
        let payload = serde_json::json!({ "to": mine, "value": "1", "gasLimit": "21000" });
        let body = serde_json::json!({ "signer": mine, "requestId": id, "payload": payload });
        node.post("/api/v1/tx", body).await
    };
    assert_eq!(send("one").await.status, 202);
    let one = format!("/api/v1/tx/by-request?signer={mine}&requestId=one");
    eventually("it to have a nonce", async || {
        (!node.get(&one).await.json()["nonce"].is_null()).then_some(())
    })
    .await;
    stage.rollout(&["set", "--percent", "0"]).await.ok();
    let refused = eventually("the node to hear of it", async || {
        let answer = send(&format!("{:?}", std::time::Instant::now())).await;
        (answer.status == 409).then_some(answer)
    })
    .await;
    assert_eq!(refused.problem(), "lane-not-owned");
    assert_eq!(send("one").await.status, 200, "a repeated request is answered");
    // What has a nonce is seen through.
    eventually("it to be mined", async || {
        let answer = node.get(&one).await;
        ["TRACKING", "CONFIRMED"].contains(&answer.json()["state"].as_str().unwrap()).then_some(())
    })
    .await;
    stage.rollout(&["set", "--percent", "all"]).await.ok();
    eventually("the node to hear of it", async || (send("two").await.status == 202).then_some(()))
        .await;
}

/// Where Stile has begun with an account that V1 knows, nobody guesses who is right.
#[tokio::test]
async fn an_account_that_both_use_is_left_to_a_person() {
    let stage = Stage::set(Amount { signers: 1, ..SOME }).await;
    let node = stage.node("a").start().await;
    let address = make::address(0).to_string();
    let before = node.allocate(&address).await.nonce();
    let (items, _) = refusals(stage.import(&[])).await;
    assert!(items[0]["why"].as_str().unwrap().contains("beside V1"), "{items:?}");
    assert_eq!(node.allocate(&address).await.nonce(), before + 1, "nothing was changed");
    stage.rollout(&["set", "--remove", &address]).await.ok();
    let items = report(stage.import(&[])).await;
    assert_eq!(outcomes(&items), ["imported"]);
    assert_eq!(items[0]["nextNonce"], 60);
    let next = eventually("the node to go on", async || {
        let answer = node.allocate(&address).await;
        (answer.status == 200).then(|| answer.nonce())
    })
    .await;
    assert!(next > before + 1, "{next}");
}
