//! A node that is killed, and one that is started twice.

use testkit::{Signal, eventually};

use crate::common::{Database, Finished, NodeOptions, hash, signer, signers};

#[tokio::test]
async fn a_killed_node_is_replaced_on_every_lane_with_open_holds() {
    let database = Database::new().await;
    let options =
        |name| NodeOptions::postgres(name, &database.url, &signers(3)).lease("2s", "500ms");
    let (a, b) = (options("a"), options("b"));
    let (a, b) = tokio::join!(a.start(), b.start());
    for lane in [signer(0), signer(1)] {
        assert_eq!(a.allocate(&lane).await.nonce(), 0);
    }
    let settled = a.allocate(&signer(2)).await.ok();
    a.used(&settled, &hash(1)).await.ok();
    a.process.signal(Signal::Kill);
    for lane in [signer(0), signer(1)] {
        eventually("the lane to be taken over", async || {
            (b.signer(&lane).await["ownerNode"] == "b").then_some(())
        })
        .await;
        let shown = b.signer(&lane).await;
        assert_eq!((&shown["fencingToken"], &shown["held"]), (&2.into(), &1.into()), "{shown}");
        assert_eq!(b.allocate(&lane).await.nonce(), 1, "the cursor goes on where it stood");
    }
    let line = b.process.stderr();
    assert!(line.contains("lane acquired") && line.contains("token=2"), "{line}");
    // Nothing is open on the third lane: nobody takes it before it is asked for.
    assert_eq!(b.signer(&signer(2)).await["ownerNode"], "a");
    assert_eq!(b.metric("stile_lease_takeover_total{cause=\"expired\"}").await, 2.0);
    let next = eventually("the third lane's lease to be over", async || {
        let answer = b.allocate(&signer(2)).await;
        (answer.status == 200).then(|| answer.nonce())
    })
    .await;
    assert_eq!(next, 1);
}

/// Somebody starts a node a second time on the same machine, with the same file.
#[tokio::test]
async fn a_process_that_cannot_listen_takes_no_lane_from_the_one_that_does() {
    let database = Database::new().await;
    let options = NodeOptions::postgres("n", &database.url, &signers(1)).lease("60s", "20s");
    let node = options.start().await;
    assert_eq!(node.allocate(&signer(0)).await.nonce(), 0);
    let before = database.dump().await;

    let (twin, _directory) = options.launch(node.port());
    let twin = Finished::of(&twin).await;
    assert!(twin.failure().contains(&format!("cannot listen on {}", node.address())), "{twin:?}");

    assert_eq!(database.dump().await, before);
    assert_eq!(node.allocate(&signer(0)).await.nonce(), 1);
    assert_eq!(node.metric("stile_duplicate_node_total").await, 0.0);
}
