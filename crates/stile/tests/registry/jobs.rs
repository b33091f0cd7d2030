//! Slots for jobs, on one server and on two, and while Redis is away.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use testkit::{Redis, eventually};

use crate::common::{Answer, StileProcess};
use crate::{Solo, ids, kill, speech};

async fn dispatch(node: &StileProcess, session: &str, services: &[&str]) -> Answer {
    node.post("/api/v1/dispatch", json!({ "session": session, "services": services })).await
}

fn job(answer: &Answer) -> Value {
    assert_eq!(answer.status, 201, "{answer:?}");
    answer.json()
}

async fn complete(node: &StileProcess, job: &Value) -> Answer {
    let path = format!("/api/v1/jobs/{}/complete", job["jobId"].as_str().unwrap());
    Answer::of(node.request("POST", &path).send().await.unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_job_has_a_slot_until_it_is_completed() {
    let solo = Solo::start().await;
    let node = &solo.node;
    node.put("/api/v1/nodes/asr-1", speech(2)).await.ok();
    let first = job(&dispatch(node, "s", &["asr:zh", "nmt"]).await);
    assert_eq!(first["session"], "s");
    assert_eq!((&first["pool"], &first["nodeId"]), (&json!("speech"), &json!("asr-1")));
    assert_eq!(first["services"], json!(["asr:zh", "nmt"]));
    assert!(first["expiresAt"].as_u64() > Some(0));
    let second = job(&dispatch(node, "s", &["asr:zh"]).await);
    assert_ne!(first["jobId"], second["jobId"]);
    let full = dispatch(node, "s", &["asr:zh"]).await;
    assert_eq!((full.status, full.problem().as_str()), (429, "nodes-full"));
    let wait: u64 = full.header("retry-after").unwrap().parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(complete(node, &first).await.status, 204);
    let over = complete(node, &first).await;
    assert_eq!((over.status, over.problem().as_str()), (404, "job-over"), "one slot, freed once");
    job(&dispatch(node, "s", &["vad"]).await);
    assert_eq!(dispatch(node, "s", &["vad"]).await.status, 429);

    // Nobody offers that, and nobody is asked who is not ready.
    let lacking = dispatch(node, "t", &["tts"]).await;
    assert_eq!((lacking.status, lacking.problem().as_str()), (429, "nodes-full"));
    for (body, field) in [
        (json!({ "session": "t", "services": [] }), "services"),
        (json!({ "session": "", "services": ["asr"] }), "session"),
        (json!({ "session": "t", "services": ["asr"], "queue": 1 }), "queue"),
        (json!({ "services": ["asr"] }), "session"),
    ] {
        let answer = node.post("/api/v1/dispatch", body).await;
        assert_eq!((answer.status, answer.fields()), (422, vec![field.to_owned()]), "{answer:?}");
    }
    let in_pool = json!({ "session": "t", "services": [], "pool": "speech" });
    assert_eq!(node.post("/api/v1/dispatch", in_pool).await.status, 429, "full, but fine");
}

#[tokio::test]
async fn a_selection_names_who_could_and_counts_who_could_not() {
    let solo = Solo::start().await;
    let node = &solo.node;
    node.put("/api/v1/nodes/idle", speech(10)).await.ok();
    node.put("/api/v1/nodes/tired", {
        let mut body = speech(10);
        body["health"] = json!("NotReady");
        body
    })
    .await
    .ok();
    node.put("/api/v1/nodes/deaf", {
        let mut body = speech(10);
        body["services"] = json!({ "tts": ["zh"] });
        body
    })
    .await
    .ok();
    let found = node.get("/api/v1/pools/speech/select?services=asr,nmt:zh").await.ok();
    assert_eq!(ids(&found), ["idle"]);
    assert_eq!(found["leftOut"], json!({ "dead": 0, "elsewhere": 0, "notReady": 1, "lacking": 1 }));
    node.put("/api/v1/nodes/other", speech(10)).await.ok();
    let job = job(&dispatch(node, "s", &["asr"]).await);
    let found = node.get("/api/v1/pools/speech/select?services=asr").await.ok();
    assert_eq!(
        ids(&found).last().map(String::as_str),
        job["nodeId"].as_str(),
        "the busier one last"
    );
    let one = node.get("/api/v1/pools/speech/select?services=asr&limit=1").await.ok();
    assert_eq!(ids(&one).len(), 1);
}

/// Two servers, and callers at both of them: no node ever has more jobs than it takes.
#[tokio::test]
async fn slots_are_given_out_once_by_two_servers() {
    let redis = Redis::start().await;
    let (a, b) = tokio::join!(
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "a")),
        Solo::start_with(|options| options.set("redis.url", redis.url()).set("node.id", "b")),
    );
    for name in ["w-1", "w-2", "w-3"] {
        a.node.put(&format!("/api/v1/nodes/{name}"), speech(4)).await.ok();
    }
    eventually("all workers to be known at both", async || {
        let known = b.node.get("/api/v1/pools/speech/members").await.ok();
        (ids(&known).len() == 3).then_some(())
    })
    .await;
    let calls = (0..30).map(|number| {
        let server = if number % 2 == 0 { &a.node } else { &b.node };
        async move { dispatch(server, &format!("session-{number}"), &["asr"]).await }
    });
    let answers = futures::future::join_all(calls).await;
    let mut jobs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for answer in answers {
        match answer.status {
            201 => {
                let job = answer.json();
                jobs.entry(job["nodeId"].as_str().unwrap().to_owned()).or_default().push(job);
            }
            429 => assert_eq!(answer.problem(), "nodes-full"),
            _ => panic!("{answer:?}"),
        }
    }
    let each: Vec<usize> = jobs.values().map(Vec::len).collect();
    assert_eq!(each, [4, 4, 4]);
    // Whoever dispatched it, anybody completes it.
    for job in jobs.values().flatten() {
        assert_eq!(complete(&b.node, job).await.status, 204);
    }
    job(&dispatch(&a.node, "later", &["asr"]).await);
}

#[tokio::test]
async fn while_redis_is_away_nothing_is_given_out_and_what_is_known_is_read() {
    let redis = Redis::start().await;
    let solo = Solo::on(&redis).await;
    let node = &solo.node;
    node.put("/api/v1/nodes/w-1", speech(4)).await.ok();
    let job = job(&dispatch(node, "s", &["asr"]).await);
    node.get("/api/v1/pools/speech/members").await.ok();
    kill(&redis).await;
    let away = dispatch(node, "s", &["asr"]).await;
    assert_eq!((away.status, away.problem().as_str()), (503, "registry-away"));
    assert!(away.header("retry-after").is_some());
    assert_eq!(complete(node, &job).await.problem(), "registry-away");
    assert_eq!(node.put("/api/v1/nodes/w-2", speech(1)).await.problem(), "registry-away");
    assert_eq!(node.get("/api/v1/nodes/w-1").await.ok()["id"], "w-1");
    assert_eq!(ids(&node.get("/api/v1/pools/speech/members").await.ok()), ["w-1"]);
    eventually("the registry to expect nothing any more", async || {
        (node.metric("stile_registry_mode").await == 2.0).then_some(())
    })
    .await;
    assert_eq!(node.get("/health/ready").await.ok()["registry"], "local-only");
    node.allocate(crate::SIGNER).await.ok();
    assert_eq!(node.get("/api/v1/nodes/w-1").await.ok()["id"], "w-1", "still");
    assert_eq!(dispatch(node, "s", &["asr"]).await.problem(), "registry-away");

    let _redis = Redis::start_on(redis.port(), &[]).await.expect("the port is still ours");
    eventually("the registry to be back", async || {
        (node.put("/api/v1/nodes/w-2", speech(1)).await.status == 200).then_some(())
    })
    .await;
}
