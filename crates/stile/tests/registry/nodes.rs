//! Registering, reading, listing, removing, in one process and on Redis.

use serde_json::{Value, json};
use testkit::{Redis, eventually};

use crate::common::StileProcess;
use crate::{Solo, ids, speech};

/// Everything that can be done with nodes, at one server or at two that share a registry.
async fn life_of_a_node(here: &StileProcess, there: &StileProcess) {
    let path = "/api/v1/nodes/asr-1";
    assert_eq!(there.get(path).await.problem(), "node-unknown");
    let node = here.put(path, speech(3)).await.ok();
    let incarnation = node["incarnation"].as_u64().unwrap();
    let expected = json!({
        "id": "asr-1", "incarnation": incarnation, "sequence": 1, "status": "online", "health": "Online",
        "pools": ["speech"], "services": { "asr": ["en", "zh"], "nmt": ["zh"], "vad": [] },
        "resources": { "maxConcurrency": 3, "currentJobs": 0, "cpuUsage": 0.25, "gpuUsage": null,
                       "memoryUsage": 0.5 },
        "installedServices": ["whisper-large"], "features": { "streaming": true },
        "lastHeartbeatMs": node["lastHeartbeatMs"],
    });
    assert_eq!(node, expected);
    assert_eq!(here.get(path).await.ok(), expected, "a writer's own memory is fresh at once");
    eventually("the node to be known there", async || {
        (there.get(path).await.status == 200).then_some(())
    })
    .await;

    // What is left out stays.
    let beat = json!({ "incarnation": incarnation, "health": "NotReady" });
    let node = there.post(&format!("{path}/heartbeat"), beat).await.ok();
    assert_eq!((&node["health"], &node["sequence"]), (&json!("NotReady"), &json!(2)));
    assert_eq!(node["services"], expected["services"]);
    eventually("the heartbeat to be known here", async || {
        (here.get(path).await.ok()["health"] == "NotReady").then_some(())
    })
    .await;

    // A new start, and the old one speaks no more.
    let again = here.put(path, speech(4)).await.ok();
    assert!(again["incarnation"].as_u64() > Some(incarnation));
    let late = here.post(&format!("{path}/heartbeat"), json!({ "incarnation": incarnation })).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "node-stale"));

    // The same start again, with something else to say.
    let mut body = speech(5);
    body["incarnation"] = again["incarnation"].clone();
    let same = here.put(path, body).await.ok();
    assert_eq!(same["incarnation"], again["incarnation"]);
    assert_eq!(same["resources"]["maxConcurrency"], 5);

    let gone = here.delete(path).await;
    assert_eq!((gone.status, gone.text.as_str()), (204, ""));
    assert_eq!(here.get(path).await.problem(), "node-unknown");
    let beat = json!({ "incarnation": again["incarnation"], "pools": ["speech"] });
    let late = here.post(&format!("{path}/heartbeat"), beat).await;
    assert_eq!((late.status, late.problem().as_str()), (409, "node-removed"));
    eventually("the node to be gone there", async || {
        (there.get(path).await.status == 404).then_some(())
    })
    .await;
    assert_eq!(here.delete(path).await.problem(), "node-unknown");
    here.put(path, speech(1)).await.ok();
    // Only what is not later than this.
    let one = here.delete(&format!("{path}?incarnation={incarnation}")).await;
    assert_eq!((one.status, one.problem().as_str()), (409, "node-stale"));
}

#[tokio::test]
async fn the_life_of_a_node_in_one_process() {
    let solo = Solo::start().await;
    life_of_a_node(&solo.node, &solo.node).await;
}

#[tokio::test]
async fn the_life_of_a_node_at_two_servers() {
    let redis = Redis::start().await;
    let (a, b) = tokio::join!(
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "a")),
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "b")),
    );
    life_of_a_node(&a.node, &b.node).await;
    // Servers are those of the database, and these two have one each.
    for (node, itself) in [(&a.node, "a"), (&b.node, "b")] {
        eventually("a server to know itself", async || {
            let members = node.get("/api/v1/pools/stile/members").await.ok();
            assert!(ids(&members).iter().all(|id| *id == itself), "{members}");
            (!ids(&members).is_empty()).then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn nodes_are_listed_in_pages_and_by_name() {
    let solo = Solo::start().await;
    let node = &solo.node;
    for number in 0..5 {
        node.put(&format!("/api/v1/nodes/n-{number}"), speech(1)).await.ok();
    }
    let all = node.get("/api/v1/nodes").await.ok();
    assert_eq!(ids(&all), ["n-0", "n-1", "n-2", "n-3", "n-4", "solo"], "with the server itself");
    assert_eq!(all["next"], Value::Null);
    let mut pages = Vec::new();
    let mut path = "/api/v1/nodes?limit=4".to_owned();
    loop {
        let page = node.get(&path).await.ok();
        pages.push(ids(&page).len());
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/api/v1/nodes?limit=4&cursor={next}");
    }
    assert_eq!(pages, [4, 2]);
    let some = node.get("/api/v1/nodes?ids=n-3,nobody,solo,n-1").await.ok();
    assert_eq!(ids(&some), ["n-3", "solo", "n-1"], "in the order asked for");
    let members = node.get("/api/v1/pools/speech/members?limit=2&cursor=n-1").await.ok();
    assert_eq!(ids(&members), ["n-2", "n-3"]);
    assert_eq!(members["next"], "n-3");
    assert_eq!(ids(&node.get("/api/v1/pools/nowhere/members").await.ok()), [""; 0]);
}

#[tokio::test]
async fn a_stile_node_says_what_it_is() {
    let solo = Solo::start_with(|options| options.mode("basic")).await;
    let node = solo.node.get("/api/v1/nodes/solo").await.ok();
    assert_eq!(node["pools"], json!(["stile"]));
    assert_eq!(node["services"], json!({ "nonce": [] }), "no endpoint, no chain");
    assert_eq!(node["resources"]["maxConcurrency"], 0, "it takes no jobs");
    assert_eq!(node["features"]["mode"], "basic");
    assert_eq!(node["features"]["url"], solo.node.url());
    assert_eq!(node["features"]["draining"], false);
}

#[tokio::test]
async fn a_node_that_is_silent_dies() {
    let solo = Solo::start_with(|options| options.set("registry.node_ttl", "500ms")).await;
    solo.node.put("/api/v1/nodes/brief", speech(1)).await.ok();
    eventually("the node to be gone", async || {
        (solo.node.get("/api/v1/nodes/brief").await.status == 404).then_some(())
    })
    .await;
    let members = solo.node.get("/api/v1/pools/speech/members").await.ok();
    assert_eq!(ids(&members), [""; 0]);
    assert_eq!(solo.node.get("/api/v1/nodes/solo").await.status, 200, "who beats lives on");
}
