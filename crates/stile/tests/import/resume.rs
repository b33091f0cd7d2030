//! Killed in the middle, it goes on where it was.

use testkit::{DEADLINE, eventually};

use crate::make::{self, Amount};
use crate::stage::{Stage, outcomes, report};
use crate::writer;

/// Killed again and again, at other places each time, until it is through: the same as in one go.
#[tokio::test]
async fn hole_19_killed_and_run_again_it_ends_as_if_in_one_go() {
    let amount = Amount { signers: 12, nonces: 200, mined: 10 };
    let stage = Stage::set(amount).await;
    for goal in [1, 4, 8] {
        let import = stage.import(&[]);
        eventually("some of them to have moved", async || {
            let done = stage.moved("STILE").await >= goal || import.try_exit().is_some();
            done.then_some(())
        })
        .await;
        import.kill();
        import.wait_exit(DEADLINE).await;
    }
    let items = report(stage.import(&[])).await;
    assert_eq!(items.len(), 12);
    let expected = stage.v1_rows().await.len();
    assert_eq!(stage.ledger().await.len(), expected);
    for item in &items {
        assert_eq!(item["nonces"], 200, "{item}");
        assert_eq!(item["became"].as_array().unwrap().len(), 6, "{item}");
    }
    assert_eq!((stage.moved("STILE").await, stage.moved("FENCED").await), (12, 0));
    assert!(stage.lanes().await.iter().all(|lane| lane[3] == "-"));
}

/// Between the two databases: V1 is stopped and Stile does not have it, or has it and V1 was not told.
#[tokio::test]
async fn whatever_was_left_half_way_is_finished() {
    let stage = Stage::set(Amount { signers: 2, nonces: 60, mined: 10 }).await;
    report(stage.import(&["--percent", "0"])).await;
    stage
        .v1
        .execute(&format!(
            "UPDATE stile_cutover SET state = 'FENCED', chain_id = 31337, address = signer WHERE signer = '{}'",
            make::signer(0)
        ))
        .await;
    let items = report(stage.import(&[])).await;
    assert_eq!(outcomes(&items), ["imported"; 2]);
    stage.v1.execute("UPDATE stile_cutover SET state = 'FENCED', report = NULL").await;
    let before = (stage.ledger().await, stage.lanes().await);
    let again = report(stage.import(&[])).await;
    assert_eq!(outcomes(&again), ["imported before"; 2]);
    assert_eq!(again[0]["became"], items[0]["became"], "as the lane's history tells");
    assert_eq!(stage.moved("STILE").await, 2);
    assert_eq!((stage.ledger().await, stage.lanes().await), before);
}

/// Or it is not gone on with: the fence is lifted, and V1 has missed nothing.
#[tokio::test]
async fn a_move_that_was_cut_short_can_be_called_off() {
    let stage = Stage::set(Amount { signers: 1, nonces: 60, mined: 10 }).await;
    report(stage.import(&["--percent", "0"])).await;
    stage.v1.execute("UPDATE stile_cutover SET state = 'FENCED'").await;
    let mut client = stage.v1_client().await;
    assert!(writer::allocate(&mut client, &make::signer(0)).await.is_err());
    let items = report(stage.export(&[])).await;
    assert_eq!(outcomes(&items), ["fence lifted"]);
    assert!(writer::allocate(&mut client, &make::signer(0)).await.is_ok());
}
