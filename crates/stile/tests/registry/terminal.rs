//! `stile node`.

use serde_json::Value;
use testkit::{Redis, eventually};

use crate::common::{Finished, StileProcess, run};
use crate::{Solo, ids, kill, speech};

async fn stile(node: &StileProcess, arguments: &[&str]) -> Finished {
    run(&[&["node"], arguments, &["--url", node.url()]].concat()).await
}

#[tokio::test]
async fn nodes_are_listed_and_shown() {
    let solo = Solo::start().await;
    solo.node.put("/api/v1/nodes/asr-1", speech(10)).await.ok();
    let listed = stile(&solo.node, &["list"]).await;
    let lines: Vec<&str> = listed.ok().lines().collect();
    assert_eq!(lines.len(), 3, "{lines:#?}");
    for part in ["NODE", "POOLS", "SERVICES", "JOBS", "HEALTH", "AGE"] {
        assert!(lines[0].contains(part), "{lines:#?}");
    }
    for part in ["asr-1", "speech", "asr[en,zh]", "0/10", "25%", "50%", "Online"] {
        assert!(lines[1].contains(part), "{part}: {lines:#?}");
    }
    assert!(lines[2].starts_with("solo") && lines[2].contains("stile"), "{lines:#?}");
    let json: Value =
        serde_json::from_str(stile(&solo.node, &["list", "--json"]).await.ok()).unwrap();
    assert_eq!(ids(&json), ["asr-1", "solo"]);
    let pool = stile(&solo.node, &["list", "--pool", "speech", "--json"]).await;
    assert_eq!(ids(&serde_json::from_str(pool.ok()).unwrap()), ["asr-1"]);

    let shown = stile(&solo.node, &["show", "asr-1"]).await;
    for part in ["whisper-large", "streaming", "incarnation", "ago"] {
        assert!(shown.ok().contains(part), "{part}: {shown:#?}");
    }
    let shown = stile(&solo.node, &["show", "solo", "--json"]).await;
    let shown: Value = serde_json::from_str(shown.ok()).unwrap();
    assert_eq!(shown["features"]["mode"], "worker-queue");
    let unknown = stile(&solo.node, &["show", "nobody"]).await;
    assert!(unknown.failure().contains("node-unknown"), "{unknown:#?}");
}

#[tokio::test]
async fn whoever_looks_is_told_that_redis_is_away() {
    let redis = Redis::start().await;
    let solo = Solo::on(&redis).await;
    eventually("the node to be listed, with nothing else to say", async || {
        let listed = stile(&solo.node, &["list"]).await;
        assert_eq!(listed.stderr, "");
        listed.ok().contains("solo").then_some(())
    })
    .await;
    kill(&redis).await;
    eventually("it to be said", async || {
        let listed = stile(&solo.node, &["list"]).await;
        assert!(listed.ok().contains("solo"), "{listed:#?}");
        listed.stderr.contains("Redis does not answer this server (local-only)").then_some(())
    })
    .await;
}

#[tokio::test]
async fn stiles_own_nodes_are_shown_without_redis() {
    let redis = Redis::start().await;
    kill(&redis).await;
    let solo = Solo::on(&redis).await;
    let listed = stile(&solo.node, &["list"]).await;
    assert!(listed.failure().contains("pool stile"), "{listed:#?}");
    for arguments in [&["list", "--pool", "stile"][..], &["show", "solo"]] {
        let shown = stile(&solo.node, arguments).await;
        assert!(shown.ok().contains("solo"), "{shown:#?}");
        assert!(shown.stderr.contains("Redis does not answer"), "{shown:#?}");
    }
}
