//! Everything a superseded holder can try is refused and counted, and changes nothing.
//!
//! The new holder is stopped too, so that whatever changes in the database was changed by the
//! stale one.

use testkit::{Anvil, AnvilOptions, DEADLINE, Signal, eventually};

use crate::common::{Database, Finished, NodeOptions, signer, signers};

/// The holds on this lane have outlived their time.
async fn run_out(database: &Database, signer: &str) {
    let digits = signer.trim_start_matches("0x");
    let sql = format!(
        "UPDATE nonce SET locked_until = clock_timestamp() - interval '1 s'
         WHERE signer = decode('{digits}', 'hex') AND status = 'HELD'"
    );
    database.execute(&sql).await;
}

/// Hole 2: the lease runs out while its holder is stopped, another node takes the lanes and moves
/// on, the first one wakes up, and a write that it had sent before arrives only now.
#[tokio::test]
async fn hole_02_stale_holder_is_refused_and_counted() {
    let database = Database::new().await;
    let (proxy, through) = database.proxied().await;
    let options = |name, url: &str| {
        NodeOptions::postgres(name, url, &signers(4))
            .set("nonce.hold_timeout", "1h")
            .set("store.statement_timeout", "30s")
    };
    // Once b holds a lane it has no reason to write before the test is over.
    let a = options("a", &through).lease("4s", "1s");
    let b = options("b", &database.url).lease("1h", "20m");
    let (a, b) = tokio::join!(a.start(), b.start());
    let [moved, late, ran_out, reissued] = [0, 1, 2, 3].map(signer);
    for lane in signers(4) {
        assert_eq!(a.allocate(&lane).await.nonce(), 0);
    }
    let given_back = a.allocate(&reissued).await.ok();
    a.recyclable(&given_back, "not sent").await.ok();
    database.have_connections(&a, 4).await;

    // An allocation is written on the way to the database, and a is stopped.
    let begun = a.metric("stile_worker_queue_wait_seconds_count").await;
    proxy.freeze();
    let late_call = a.allocate_later(&late).await;
    eventually("the worker to have taken the call", async || {
        let now = a.metric("stile_worker_queue_wait_seconds_count").await;
        (now > begun).then_some(())
    })
    .await;
    database.stop_between_transactions(&a).await;
    for lane in signers(4) {
        eventually("b to take the lane because of its open holds", async || {
            (b.signer(&lane).await["ownerNode"] == "b").then_some(())
        })
        .await;
    }
    assert!(b.metric("stile_lease_takeover_total{cause=\"expired\"}").await >= 4.0);
    assert_eq!(b.allocate(&moved).await.nonce(), 1);
    database.stop_between_transactions(&b).await;
    run_out(&database, &ran_out).await;
    let before = database.dump().await;

    let waiting = [a.allocate_later(&moved).await, a.allocate_later(&reissued).await];
    proxy.heal().await;
    a.process.signal(Signal::Cont);
    let answer = late_call.answer().await;
    assert_eq!((answer.status, answer.problem().as_str()), (409, "fenced"), "{answer:?}");
    for waiting in waiting {
        let answer = waiting.answer().await;
        let code = answer.problem();
        assert!(answer.status == 409 && (code == "not-holder" || code == "fenced"), "{answer:?}");
        assert_eq!(answer.header("stile-owner-url"), Some(b.url()), "{answer:?}");
    }
    // By whichever comes first: an allocation, the renewal, the sweep.
    eventually("a refusal on every lane", async || {
        (a.metric("stile_fence_reject_total").await >= 4.0).then_some(())
    })
    .await;
    assert_eq!(a.metric("stile_allocate_total{result=\"fresh\"}").await, 5.0, "none since");
    let ended = a.terminate().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("provided_token=1"), "{ended:?}");
    assert_eq!(database.dump().await, before);
}

/// Hole 2 once more, one lane for each write that a process can be made to try by itself. The new
/// holder is the same node started again, inside the lease: the stale one still believes in its
/// claims, and its renewal, which would tell it, is not due.
#[tokio::test]
async fn hole_02_every_write_of_a_process_that_believes_in_its_lease_is_refused() {
    let (database, anvil) = tokio::join!(Database::new(), Anvil::start(AnvilOptions::default()));
    let accounts = anvil.accounts().await;
    let [fresh, reissued, ran_out, used, given_back] = &accounts[..5] else {
        panic!("{accounts:?}")
    };
    let options = NodeOptions::postgres("n", &database.url, &accounts[..5])
        .endpoint(anvil.url())
        .lease("120s", "50s")
        .set("nonce.hold_timeout", "1h")
        .set("nonce.state_timeout", "1s");
    let stale = options.start().await;
    for lane in [fresh, ran_out, given_back] {
        assert_eq!(stale.allocate(lane).await.nonce(), 0);
    }
    for lane in [reissued, used] {
        let hold = stale.allocate(lane).await.ok();
        assert_eq!(stale.recyclable(&hold, "not sent").await.ok()["status"], "RELEASED");
    }
    database.stop_between_transactions(&stale).await;

    let holder = options.start().await;
    assert_eq!(holder.metric("stile_lease_takeover_total{cause=\"restart\"}").await, 5.0);
    database.stop_between_transactions(&holder).await;
    run_out(&database, ran_out).await;
    // The nonce was used after all, as the chain now shows.
    anvil.send_transfer(used, Some(0)).await;
    let before = database.dump().await;

    let pending = [stale.allocate_later(fresh).await, stale.allocate_later(reissued).await];
    stale.process.signal(Signal::Cont);
    for pending in pending {
        let answer = pending.answer().await;
        assert_eq!((answer.status, answer.problem().as_str()), (409, "fenced"), "{answer:?}");
        assert_eq!(answer.header("stile-owner-url"), Some(holder.url()), "{answer:?}");
    }
    for (op, count) in [("allocate", 2.0), ("expire", 1.0), ("settle", 1.0)] {
        eventually(op, async || {
            let refused = stale.metric(&format!("stile_fence_reject_total{{op=\"{op}\"}}")).await;
            (refused == count).then_some(())
        })
        .await;
    }
    stale.process.signal(Signal::Term);
    let refusal = |line: &str| line.contains("op=\"release\"") && line.contains("provided_token=1");
    stale.process.wait_for_line(refusal, DEADLINE).await;
    let ended = Finished::of(&stale.process).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("leases given back node=n lanes=0"), "{ended:?}");
    assert_eq!(database.dump().await, before);
}
