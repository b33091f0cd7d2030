//! Who can reach a server with and without keys.

use std::time::Duration;

use testkit::free_port;

use crate::support::Backend;

on_both_stores!(an_address_that_others_reach_needs_a_key);

async fn an_address_that_others_reach_needs_a_key(backend: Backend) {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let refused = backend.node().set("server.listen", address).refused().await;
        for part in
            ["is reachable from other machines", "no API key", "require_key", "stile key create"]
        {
            assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
        }
    }
    let key = backend.key("good", "read", "all").await;
    let port = free_port();
    let options = backend.node().set("server.listen", format!("0.0.0.0:{port}"));
    let (process, _directory) = options.launch(port);
    let serving = "serving; every call needs an API key";
    process.wait_for_line(|line| line.contains(serving), Duration::from_secs(30)).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://127.0.0.1:{port}/api/v1/signers");
    let status = async |token: Option<&str>| {
        let request = client.get(&url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        request.send().await.unwrap().status().as_u16()
    };
    assert_eq!(status(None).await, 401, "on loopback too");
    assert_eq!(status(Some(&key)).await, 200);
    backend.revoke("good").await;
    testkit::eventually("the key to be refused", async || {
        (status(Some(&key)).await == 401).then_some(())
    })
    .await;
    assert_eq!(status(None).await, 401, "it does not become open");
}
