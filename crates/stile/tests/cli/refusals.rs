//! Why `stile serve` does not start.

use testkit::free_port;

use crate::common::{Database, Finished, NodeOptions, SIGNER};

fn signers() -> Vec<String> {
    vec![SIGNER.to_owned()]
}

#[tokio::test]
async fn an_address_that_others_can_reach_is_refused() {
    for address in ["0.0.0.0:0", "[::]:0"] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("stile.db");
        let options = NodeOptions::sqlite(&file, &signers()).set("server.listen", address);
        let refused = options.refused().await;
        for part in
            [&format!("server.listen = {address}"), "no API key", "stile key create", "127.0.0.1"]
        {
            assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
        }
        assert!(!refused.stderr.contains("node starts"), "nothing is begun: {refused:?}");
    }
}

#[tokio::test]
async fn a_port_in_use_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let options = NodeOptions::sqlite(&directory.path().join("one.db"), &signers());
    let node = options.start().await;
    let other = NodeOptions::sqlite(&directory.path().join("other.db"), &signers());
    let (process, _configuration) = other.launch(node.port());
    let refused = Finished::of(&process).await;
    assert!(refused.failure().contains(&format!("cannot listen on {}", node.address())));
    assert!(refused.failure().contains("Address already in use"), "{refused:?}");
}

#[tokio::test]
async fn a_second_server_on_one_sqlite_file_is_told_who_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let options = NodeOptions::sqlite(&directory.path().join("stile.db"), &signers());
    let first = options.start().await;
    let refused = options.refused().await;
    for part in ["stile.db is in use by", &format!("process {}", first.process.id()), "PostgreSQL"]
    {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
    assert_eq!(first.allocate(SIGNER).await.nonce(), 0, "the first one goes on");
    // However a server ends, the next one can start.
    first.process.signal(testkit::Signal::Kill);
    first.process.wait_exit(testkit::DEADLINE).await;
    assert_eq!(options.start().await.allocate(SIGNER).await.nonce(), 1);
}

/// Hole 10.
#[tokio::test]
async fn a_postgresql_that_forgets_commits_is_refused() {
    let database = Database::new().await;
    let name = database.url.rsplit('/').next().unwrap();
    database.execute(&format!("ALTER DATABASE {name} SET synchronous_commit = off")).await;
    let options = NodeOptions::postgres("a", &database.url, &signers());
    let refused = options.refused().await;
    for part in ["synchronous_commit = off", "Set it to on"] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
    database.execute(&format!("ALTER DATABASE {name} RESET synchronous_commit")).await;
    options.start().await;
}

#[tokio::test]
async fn a_postgresql_that_cannot_be_reached_is_named_without_its_password() {
    let port = free_port();
    let url = format!("postgres://stile:hunter2@127.0.0.1:{port}/stile");
    let refused = NodeOptions::postgres("a", &url, &signers()).refused().await;
    let shown = format!("postgres://stile:***@127.0.0.1:{port}/stile");
    for part in ["the database is not available", "Connection refused", &shown] {
        assert!(refused.failure().contains(part), "{part} is missing: {refused:?}");
    }
    let place = crate::Place::new(&format!("[store]\nurl = \"{url}\"\n"));
    let migrated = place.run(&["migrate"]).await;
    assert!(migrated.failure().contains(&shown), "{migrated:?}");
    for refused in [refused, migrated] {
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
}
