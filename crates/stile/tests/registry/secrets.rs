//! The password of Redis is nowhere to be seen.

use testkit::{Redis, eventually};

use crate::common::run;
use crate::{Solo, speech};

const PASSWORD: &str = "hunter2-of-redis";

async fn all_that_is_told(solo: &Solo) -> String {
    let node = &solo.node;
    let mut told = node.process.stderr() + &node.process.stdout();
    for path in ["/api/v1/nodes", "/metrics", "/api/v1/nodes/nobody"] {
        told += &node.get(path).await.text;
    }
    let config = node.config_file();
    let shown = run(&["config", "show", "--config", config.to_str().unwrap()]).await;
    told + &shown.stdout + &shown.stderr
}

#[tokio::test]
async fn a_password_given_by_reference_or_in_the_url_is_used_and_not_told() {
    let redis = Redis::start_with(&["--requirepass", PASSWORD]).await;
    let in_url = redis.url().replace("redis://", &format!("redis://:{PASSWORD}@"));
    for by_reference in [true, false] {
        let solo = Solo::start_with(|options| match by_reference {
            true => options
                .set("redis.url", redis.url())
                .set("redis.password", "env:REDIS_PASSWORD")
                .environment("REDIS_PASSWORD", PASSWORD),
            false => options.set("redis.url", &in_url),
        })
        .await;
        solo.node.put("/api/v1/nodes/w", speech(1)).await.ok();
        let told = all_that_is_told(&solo).await;
        assert!(!told.contains(PASSWORD), "{told}");
    }
}

#[tokio::test]
async fn a_wrong_password_stops_nothing_and_is_not_told() {
    let redis = Redis::start_with(&["--requirepass", "another"]).await;
    let solo = Solo::start_with(|options| {
        options
            .set("redis.url", redis.url())
            .set("redis.password", "env:REDIS_PASSWORD")
            .environment("REDIS_PASSWORD", PASSWORD)
    })
    .await;
    eventually("the registry to be given up on", async || {
        (solo.node.metric("stile_registry_mode").await == 2.0).then_some(())
    })
    .await;
    assert_eq!(solo.node.put("/api/v1/nodes/w", speech(1)).await.problem(), "registry-away");
    solo.node.allocate(crate::SIGNER).await.ok();
    let told = all_that_is_told(&solo).await;
    assert!(!told.contains(PASSWORD), "{told}");
}
