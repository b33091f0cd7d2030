//! A Redis that wants a password, or speaks TLS.

use stile_registry::{Mode, Registry};
use testkit::{DEADLINE, Launch, Redis, TlsRedis};

use crate::common::{id, reaches, request, settings, speech};

const PASSWORD: &str = "correct-horse";
const URL: &str = "REGISTRY_TEST_ACCESS_URL";
/// Names the authorities to believe, instead of those of the system.
const AUTHORITIES: &str = "SSL_CERT_FILE";

async fn works(url: &str) {
    let registry = Registry::connect(url, settings()).await.unwrap();
    reaches(&registry, Mode::Normal).await;
    let node = registry.register(&speech("n", 1, &["p"])).await.unwrap();
    assert_eq!(registry.get_node(&id("n")).await.unwrap(), Some(node));
    let job = registry.dispatch(&request("s", "asr", Some("p"))).await.unwrap();
    registry.complete(&job.job_id).await.unwrap();
    registry.shutdown().await;
}

/// What somebody is told who writes by this address.
async fn refusal(url: &str) -> String {
    let registry = Registry::connect(url, settings()).await.unwrap();
    assert_eq!(registry.mode(), Mode::LocalOnly);
    let error = registry.register(&speech("n", 1, &["p"])).await.unwrap_err();
    assert_eq!(error.code(), "registry-away");
    let read = registry.get_node(&id("n")).await.unwrap_err();
    for text in [error.to_string(), read.to_string()] {
        assert!(!text.contains(PASSWORD) && !text.contains("wrong-horse"), "{text}");
    }
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_opens_and_a_wrong_one_is_named_as_the_reason() {
    let redis = Redis::start_with(&["--requirepass", PASSWORD]).await;
    let port = redis.port();
    works(&format!("redis://:{PASSWORD}@127.0.0.1:{port}")).await;
    works(&format!("redis://default:{PASSWORD}@127.0.0.1:{port}")).await;
    let wrong = refusal(&format!("redis://:wrong-horse@127.0.0.1:{port}")).await;
    assert!(wrong.contains("WRONGPASS"), "{wrong}");
    let none = refusal(&format!("redis://127.0.0.1:{port}")).await;
    assert!(none.contains("NOAUTH"), "{none}");
}

/// One who believes the authorities that the environment names; started by the test below.
#[test]
#[ignore = "a part of another test"]
fn believer() {
    let Ok(url) = std::env::var(URL) else { return };
    tokio::runtime::Runtime::new().unwrap().block_on(works(&url));
    println!("\nWORKED");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_needs_an_authority_that_is_believed() {
    let redis = TlsRedis::start_with(&["--requirepass", PASSWORD]).await;
    let url = format!("rediss://:{PASSWORD}@{}", redis.address());
    let refused = refusal(&url).await;
    assert!(refused.contains("invalid peer certificate: UnknownIssuer"), "{refused}");
    let believer = Launch::new(std::env::current_exe().unwrap())
        .args(["--exact", "access::believer", "--ignored", "--nocapture"])
        .env(AUTHORITIES, redis.authority())
        .env(URL, &url)
        .start();
    believer.wait_for_line(|line| line == "WORKED", DEADLINE).await;
    assert!(believer.wait_exit(DEADLINE).await.success());
}
