//! What V1 writes while it is stopped is moved or refused, never lost.

use testkit::eventually;

use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, report};
use crate::writer;

const ONE: Amount = Amount { signers: 1, nonces: 60, mined: 10 };

/// Until the import waits for V1's transaction.
async fn until_it_waits(stage: &Stage) {
    let waits = "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("the import to wait for V1", async || {
        (stage.v1.rows(waits).await[0][0] != "0").then_some(())
    })
    .await;
}

/// The tables with their triggers, before anything is moved.
async fn with_fence(stage: &Stage) {
    // None of them is below 0 %.
    assert!(report(stage.import(&["--percent", "0"])).await.is_empty());
    assert_eq!(stage.moved("V1").await, 1);
}

/// A write that was let through before V1 was stopped is waited for, and is part of what is moved.
#[tokio::test]
async fn hole_19_a_write_under_way_is_moved() {
    let stage = Stage::set(ONE).await;
    with_fence(&stage).await;
    let signer = make::signer(0);
    let mut client = stage.v1_client().await;
    let transaction = client.transaction().await.unwrap();
    transaction
        .execute(
            "INSERT INTO submitter_nonce_allocation (submitter, nonce, status, updated_at)
             VALUES ($1, 77, 'RESERVED', now())",
            &[&signer],
        )
        .await
        .unwrap();
    let import = stage.import(&[]);
    until_it_waits(&stage).await;
    transaction.commit().await.unwrap();
    let items = report(import).await;
    assert_eq!(items[0]["nextNonce"], 78, "{items:?}");
    let ledger = stage.ledger().await;
    let last = ledger.iter().find(|row| row[1] == "77").unwrap();
    assert_eq!((last[2].as_str(), last[5].as_str()), ("SUSPECT", "V1: RESERVED"));
}

/// Whoever comes later is refused, also who has begun earlier and sees the database as it was then.
#[tokio::test]
async fn hole_19_a_write_after_the_fence_is_refused_in_every_isolation_level() {
    let stage = Stage::set(ONE).await;
    with_fence(&stage).await;
    let signer = make::signer(0);
    let (mut one, mut other) = (stage.v1_client().await, stage.v1_client().await);
    let (early, late) = (writer::looking_back(&mut one).await, other.transaction().await.unwrap());
    let items = report(stage.import(&[])).await;
    assert_eq!(outcomes(&items), ["imported"]);
    let rows = stage.v1_rows().await;
    let update =
        "UPDATE submitter_nonce_allocation SET status = 'USED' WHERE submitter = $1 AND nonce = 59";
    let insert = "INSERT INTO submitter_nonce_state VALUES ($1, NULL, 99, now())
                  ON CONFLICT (submitter) DO UPDATE SET next_local_nonce = 99";
    for refused in [early.execute(update, &[&signer]).await, late.execute(insert, &[&signer]).await]
    {
        let error = refused.unwrap_err();
        assert!(writer::is_stopped(&error), "{error:?}");
    }
    drop((early, late));
    let mut client = stage.v1_client().await;
    let error = writer::allocate(&mut client, &signer).await.unwrap_err();
    let words = error.as_db_error().unwrap();
    assert!(words.message().contains("has moved to Stile"), "{words:?}");
    assert!(words.hint().unwrap().contains("export-v1"), "{words:?}");
    for sql in ["DELETE FROM submitter_nonce_allocation", "TRUNCATE submitter_nonce_state"] {
        assert!(client.batch_execute(sql).await.is_err(), "{sql}");
    }
    assert_eq!(stage.v1_rows().await, rows);
}

/// V1 needs no right of its own on the fence.
#[tokio::test]
async fn v1_writes_what_is_its_own_without_knowing_of_the_fence() {
    let stage = Stage::set(Amount { signers: 2, ..ONE }).await;
    stage
        .v1
        .execute(
            "DO $$ BEGIN CREATE ROLE v1_writer; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
             GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO v1_writer;
             GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO v1_writer;",
        )
        .await;
    report(stage.import(&["--signer", &make::signer(0)])).await;
    let mut client = stage.v1_client().await;
    client.batch_execute("SET ROLE v1_writer").await.unwrap();
    assert!(writer::allocate(&mut client, &make::signer(1)).await.is_ok());
    assert_eq!(writer::allocate(&mut client, "a new one").await.unwrap(), 0);
    let error = writer::allocate(&mut client, &make::signer(0)).await.unwrap_err();
    assert!(writer::is_stopped(&error), "{error:?}");
}

/// If it cannot be held against the chain, V1 goes on as if nothing had been.
#[tokio::test]
async fn a_move_that_fails_leaves_v1_as_it_was() {
    let stage = Stage::set(ONE).await;
    let far = "UPDATE submitter_nonce_state SET next_local_nonce = 1000000";
    with_fence(&stage).await;
    stage.v1.execute(far).await;
    let (items, _) = crate::stage::refusals(stage.import(&[])).await;
    assert!(items[0]["why"].as_str().unwrap().contains("state looks wrong"), "{items:?}");
    assert_eq!(stage.moved("V1").await, 1);
    assert!(writer::allocate(&mut stage.v1_client().await, &make::signer(0)).await.is_ok());
    assert_eq!(stage.ledger().await.len(), 0);
}
