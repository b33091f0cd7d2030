//! A process that was stopped while its successor went on.

use testkit::{DEADLINE, Signal, eventually};

use crate::common::{Database, NodeOptions, signer, signers};

/// Hole 9: the successor carries the same node id and comes inside the lease. Only the incarnation
/// tells the two apart.
async fn restart_inside_the_lease(mode: &str) {
    let database = Database::new().await;
    // Long leases: whatever happens here happens inside them.
    let options = NodeOptions::postgres("n", &database.url, &signers(2)).mode(mode);
    let options = options.lease("120s", "50s");
    let zombie = options.start().await;
    let mut nonces = Vec::new();
    for _ in 0..3 {
        nonces.push(zombie.allocate(&signer(0)).await.nonce());
    }
    assert_eq!(zombie.allocate(&signer(1)).await.nonce(), 0);
    database.stop_between_transactions(&zombie).await;

    let successor = options.start().await;
    let shown = successor.signer(&signer(0)).await;
    assert_eq!((&shown["fencingToken"], &shown["ownerNode"]), (&2.into(), &"n".into()), "{shown}");
    assert_eq!(shown["ownerUrl"], successor.url());
    assert_eq!(successor.metric("stile_lease_takeover_total{cause=\"restart\"}").await, 2.0);
    for _ in 0..3 {
        nonces.push(successor.allocate(&signer(0)).await.nonce());
    }
    // Stopped as well for a moment, so that whatever changes was changed by the zombie.
    database.stop_between_transactions(&successor).await;
    // The zombie's plan for this lane still fits the cursor; only the token has changed.
    let unmoved = zombie.allocate_later(&signer(1)).await;
    let moved = zombie.allocate_later(&signer(0)).await;
    let before = database.dump().await;

    zombie.process.signal(Signal::Cont);
    for pending in [unmoved, moved] {
        let answer = pending.answer().await;
        assert_eq!((answer.status, answer.problem().as_str()), (409, "fenced"), "{answer:?}");
        assert_eq!(answer.header("stile-owner-url"), Some(successor.url()));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    assert_eq!(database.dump().await, before, "the zombie wrote nothing");
    successor.process.signal(Signal::Cont);

    zombie
        .process
        .wait_for_line(|line| line.contains("another process with this node"), DEADLINE)
        .await;
    eventually("the duplicate to be counted on both lanes", async || {
        (zombie.metric("stile_duplicate_node_total").await >= 2.0).then_some(())
    })
    .await;
    assert!(zombie.metric("stile_fence_reject_total{op=\"allocate\"}").await >= 2.0);
    let refusal = zombie.process.stderr();
    let refusal = refusal.lines().find(|line| line.contains("write refused")).unwrap().to_owned();
    for part in ["op=\"allocate\"", "provided_token=1", "token=2", "node=n", "signer=0x"] {
        assert!(refusal.contains(part), "{part} is missing: {refusal}");
    }
    // It does not take back what it was robbed of while the successor lives.
    let answer = zombie.allocate(&signer(0)).await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "not-holder"), "{answer:?}");
    for _ in 0..3 {
        nonces.push(successor.allocate(&signer(0)).await.nonce());
    }
    assert_eq!(nonces, (0..9).collect::<Vec<_>>());
}

#[tokio::test]
async fn hole_09_restart_inside_the_lease_while_the_zombie_is_stopped_in_basic_mode() {
    restart_inside_the_lease("basic").await;
}

#[tokio::test]
async fn hole_09_restart_inside_the_lease_while_the_zombie_is_stopped_in_worker_queue_mode() {
    restart_inside_the_lease("worker-queue").await;
}
