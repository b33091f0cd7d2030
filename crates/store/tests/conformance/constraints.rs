//! What the database itself refuses, whoever asks: the last word when all code is wrong.

use stile_domain::HoldStatus;
use stile_store::Tx;
use uuid::Uuid;

use crate::common::{
    Bench, HOLD, Raw, accept_one, bind_new, bind_txs, claim_at, give_back, hold_at, lane, mark,
    named, new_tx, node, pause, used,
};

on_both_stores!(
    a_token_never_falls,
    a_new_incarnation_raises_the_token,
    a_lane_row_is_never_deleted,
    a_cursor_falls_only_under_a_new_token,
    consumed_is_absorbing,
    a_nonce_changes_hands_only_when_released,
    a_nonce_has_one_owner_of_whatever_kind,
    nonsense_is_refused,
    a_bound_nonce_never_changes,
    a_nonce_of_a_transaction_has_no_second_owner,
    a_request_id_has_one_transaction,
    a_history_and_its_attempts_have_every_number_once,
    nonsense_about_transactions_is_refused,
    a_transaction_is_replaced_by_one_other_at_most,
    an_entry_of_a_lane_has_a_place_of_its_own,
);

/// Tries a statement that must be refused for this reason, and leave everything as it was.
async fn refuse(raw: &Raw, sql: &str, reason: &str) {
    let before = raw.dump().await;
    match raw.attempt(sql).await {
        Ok(()) => panic!("went through: {sql}"),
        Err(said) => assert!(said.contains(reason), "{sql}: {said}"),
    }
    assert_eq!(raw.dump().await, before, "{sql}");
}

async fn a_token_never_falls(bench: Bench) {
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    pause(&*bench.store, lane(1), "so that the token is 2").await;
    let raw = bench.raw().await;
    refuse(&raw, "UPDATE lane SET fencing_token = 1", "the fencing token never falls").await;
    let new = raw.uuid(Uuid::new_v4());
    let with_owner = format!("UPDATE lane SET fencing_token = 1, owner_incarnation = {new}");
    refuse(&raw, &with_owner, "lane").await;
    raw.execute("UPDATE lane SET fencing_token = 3").await;
}

async fn a_new_incarnation_raises_the_token(bench: Bench) {
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let raw = bench.raw().await;
    let new = raw.uuid(Uuid::new_v4());
    let takeover = format!("UPDATE lane SET owner_incarnation = {new}");
    refuse(&raw, &takeover, "a new incarnation must raise the fencing token").await;
    raw.execute(&format!("{takeover}, fencing_token = fencing_token + 1")).await;
}

async fn a_lane_row_is_never_deleted(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    bench.store.release(&[claim]).await.unwrap();
    let raw = bench.raw().await;
    refuse(&raw, "DELETE FROM lane", "a lane row is never deleted").await;
}

async fn a_cursor_falls_only_under_a_new_token(bench: Bench) {
    claim_at(&*bench.store, &node("a"), lane(1), 5).await;
    let raw = bench.raw().await;
    let reason = "the cursor only moves back together with a raised token";
    refuse(&raw, "UPDATE lane SET next_nonce = 4", reason).await;
    refuse(&raw, "UPDATE lane SET next_nonce = NULL", reason).await;
    raw.execute("UPDATE lane SET next_nonce = 4, fencing_token = fencing_token + 1").await;
    raw.execute("UPDATE lane SET next_nonce = 9").await;
}

async fn consumed_is_absorbing(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let hold = hold_at(&*bench.store, claim, 0, HOLD).await;
    mark(&*bench.store, used(&hold, 1)).await;
    let raw = bench.raw().await;
    for status in HoldStatus::ALL.into_iter().filter(|status| *status != HoldStatus::Consumed) {
        let sql = format!("UPDATE nonce SET status = '{status}', tx_hash = NULL");
        refuse(&raw, &sql, "CONSUMED is absorbing").await;
    }
    let new = raw.uuid(Uuid::now_v7());
    refuse(&raw, &format!("UPDATE nonce SET owner_id = {new}"), "nonce").await;
}

async fn a_nonce_changes_hands_only_when_released(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    let hold = hold_at(&*bench.store, claim, 0, HOLD).await;
    let raw = bench.raw().await;
    let hand_over = format!("UPDATE nonce SET owner_id = {}", raw.uuid(Uuid::now_v7()));
    let reason = "only a RELEASED nonce is given out again";
    refuse(&raw, &hand_over, reason).await;
    raw.execute("UPDATE nonce SET status = 'SUSPECT'").await;
    refuse(&raw, &hand_over, reason).await;
    give_back(&*bench.store, &hold).await;
    raw.execute(&hand_over).await;
}

/// HOLES 16b: in two tables, each of them unique, a hold and a transaction could both own nonce 10.
async fn a_nonce_has_one_owner_of_whatever_kind(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 10).await;
    hold_at(&*bench.store, claim, 10, HOLD).await;
    let raw = bench.raw().await;
    raw.plant(lane(1), 11, "tx", "HELD").await.unwrap();
    let before = raw.dump().await;
    for (nonce, kind) in [(10, "tx"), (10, "filler"), (10, "hold"), (11, "hold"), (11, "filler")] {
        let said = raw.plant(lane(1), nonce, kind, "HELD").await.expect_err(kind);
        assert!(said.to_lowercase().contains("unique"), "{said}");
    }
    assert_eq!(raw.dump().await, before);
    raw.plant(lane(2), 10, "tx", "HELD").await.expect("another lane has a nonce 10 of its own");
}

async fn nonsense_is_refused(bench: Bench) {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    hold_at(&*bench.store, claim, 0, HOLD).await;
    let raw = bench.raw().await;
    let hash = raw.bytes(&[1; 32]);
    let short = raw.bytes(&[1; 19]);
    for sql in [
        "UPDATE lane SET chain_id = 0".to_owned(),
        format!("UPDATE lane SET signer = {short}"),
        "UPDATE lane SET next_nonce = -1, fencing_token = 2".to_owned(),
        "UPDATE lane SET last_chain_nonce = -1".to_owned(),
        "UPDATE lane SET paused = ''".to_owned(),
        "UPDATE nonce SET nonce = -1".to_owned(),
        "UPDATE nonce SET owner_kind = 'nobody'".to_owned(),
        "UPDATE nonce SET status = 'LOST'".to_owned(),
        format!("UPDATE nonce SET tx_hash = {short}, status = 'CONSUMED'"),
        format!("UPDATE nonce SET tx_hash = {hash}"),
    ] {
        refuse(&raw, &sql, "").await;
    }
}

/// A bound transaction on lane 1, at nonce 0.
async fn bound(bench: &Bench) -> Tx {
    let claim = claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    bind_txs(&*bench.store, bind_new(claim, 0, [named(lane(1), "one")])).await.unwrap().remove(0)
}

async fn a_bound_nonce_never_changes(bench: Bench) {
    bound(&bench).await;
    let raw = bench.raw().await;
    for sql in [
        "UPDATE tx SET nonce = 1",
        "UPDATE tx SET nonce = NULL, state = 'FAILED'",
        "UPDATE tx SET nonce = NULL, state = 'CREATED'",
    ] {
        refuse(&raw, sql, "a bound nonce never changes").await;
    }
    refuse(&raw, "UPDATE tx SET chain_id = 5", "it stays on its lane").await;
    refuse(&raw, "UPDATE tx SET events = 1", "its history never gets shorter").await;
    raw.execute("UPDATE tx SET nonce = 0").await;
}

async fn a_nonce_of_a_transaction_has_no_second_owner(bench: Bench) {
    let tx = bound(&bench).await;
    let raw = bench.raw().await;
    for kind in ["hold", "tx", "filler"] {
        let said = raw.plant(lane(1), 0, kind, "CONSUMED").await.expect_err(kind);
        assert!(said.to_lowercase().contains("unique"), "{said}");
    }
    let new = raw.uuid(Uuid::now_v7());
    refuse(&raw, &format!("UPDATE nonce SET owner_id = {new}"), "nonce").await;
    refuse(&raw, "UPDATE nonce SET status = 'RELEASED', tx_hash = NULL", "CONSUMED").await;

    // Nor do two open transactions share one, should the ledger ever be wrong.
    let waiting = accept_one(&*bench.store, new_tx(lane(1))).await;
    let same = format!(
        "UPDATE tx SET nonce = 0, state = 'ALLOCATED' WHERE tx_id = {}",
        raw.uuid(waiting.id.0)
    );
    refuse(&raw, &same, "").await;
    assert_eq!(tx.nonce, Some(0));
}

async fn a_request_id_has_one_transaction(bench: Bench) {
    bound(&bench).await;
    let waiting = accept_one(&*bench.store, new_tx(lane(1))).await;
    let raw = bench.raw().await;
    let same = format!("UPDATE tx SET request_id = 'one' WHERE tx_id = {}", raw.uuid(waiting.id.0));
    refuse(&raw, &same, "").await;
}

async fn a_history_and_its_attempts_have_every_number_once(bench: Bench) {
    bound(&bench).await;
    let raw = bench.raw().await;
    refuse(&raw, "UPDATE tx_event SET seq = 1", "").await;
    refuse(&raw, "UPDATE tx_event SET seq = 0 WHERE seq = 1", "").await;
    refuse(&raw, "UPDATE attempt SET number = 0", "").await;
    let hash = raw.value("SELECT count(*) FROM attempt").await;
    assert_eq!(hash, "1");
    let columns = "number, hash, raw, fees, gas_limit, fencing_token, created_at";
    let again = format!(
        "INSERT INTO attempt (tx_id, {columns}) SELECT {}, {columns} FROM attempt",
        raw.uuid(Uuid::now_v7())
    );
    refuse(&raw, &again, "").await;
}

async fn nonsense_about_transactions_is_refused(bench: Bench) {
    bound(&bench).await;
    let raw = bench.raw().await;
    let (short, hash) = (raw.bytes(&[1; 19]), raw.bytes(&[1; 32]));
    for sql in [
        "UPDATE tx SET state = 'LOST'".to_owned(),
        "UPDATE tx SET sub_state = 'LOST'".to_owned(),
        "UPDATE tx SET outcome = 'unclear'".to_owned(),
        "UPDATE tx SET state = 'CREATED'".to_owned(),
        "UPDATE tx SET state = 'TRACKING'".to_owned(),
        "UPDATE tx SET state = 'CONFIRMED', outcome = 'success'".to_owned(),
        format!("UPDATE tx SET block_number = 1, block_hash = {hash}"),
        "UPDATE tx SET receipt = '{}'".to_owned(),
        "UPDATE tx SET told_height = 1".to_owned(),
        format!("UPDATE tx SET told_height = 1, told_hash = {short}"),
        format!("UPDATE tx SET tx_hash = {short}"),
        format!("UPDATE tx SET request_hash = {short}"),
        "UPDATE tx SET request_id = ''".to_owned(),
        format!("UPDATE tx SET request_id = '{}'", "x".repeat(256)),
        "UPDATE tx SET payload = 'nonsense'".to_owned(),
        "UPDATE tx SET finality = 'soon'".to_owned(),
        "UPDATE tx SET finality = ''".to_owned(),
        "UPDATE tx SET events = 0".to_owned(),
        "UPDATE tx SET rival = '{}'".to_owned(),
        "UPDATE tx SET rival_block = 1".to_owned(),
        "UPDATE tx SET rival = '{}', rival_block = -1".to_owned(),
        "UPDATE tx SET rival = 'nonsense', rival_block = 1".to_owned(),
        "UPDATE tx SET wish = 'nonsense'".to_owned(),
        "UPDATE attempt SET kind = 'LOST'".to_owned(),
        "UPDATE attempt SET kind = NULL".to_owned(),
        "UPDATE lane_event SET kind = ''".to_owned(),
        "UPDATE lane_event SET data = 'nonsense'".to_owned(),
        "UPDATE lane_event SET chain_id = 0".to_owned(),
        format!("UPDATE lane_event SET signer = {short}"),
        format!("UPDATE attempt SET hash = {short}"),
        format!("UPDATE attempt SET raw = {}", raw.bytes(&[])),
        "UPDATE tx_event SET kind = ''".to_owned(),
        "UPDATE tx_event SET state = 'LOST'".to_owned(),
        "UPDATE tx_event SET data = 'nonsense'".to_owned(),
        format!("INSERT INTO header VALUES (1, -1, {hash}, {hash}, {}, NULL)", raw.now()),
        format!("INSERT INTO header VALUES (1, 1, {short}, {hash}, {}, NULL)", raw.now()),
    ] {
        refuse(&raw, &sql, "").await;
    }
}

async fn a_transaction_is_replaced_by_one_other_at_most(bench: Bench) {
    let tx = bound(&bench).await;
    let (one, other) = (
        accept_one(&*bench.store, new_tx(lane(1))).await,
        accept_one(&*bench.store, new_tx(lane(1))).await,
    );
    let raw = bench.raw().await;
    let replaces = |by: &Tx| {
        let (by, tx) = (raw.uuid(by.id.0), raw.uuid(tx.id.0));
        format!("UPDATE tx SET replaces = {tx} WHERE tx_id = {by}")
    };
    raw.execute(&replaces(&one)).await;
    refuse(&raw, &replaces(&other), "").await;
}

async fn an_entry_of_a_lane_has_a_place_of_its_own(bench: Bench) {
    claim_at(&*bench.store, &node("a"), lane(1), 0).await;
    pause(&*bench.store, lane(1), "so that there are two entries").await;
    let raw = bench.raw().await;
    assert_eq!(raw.value("SELECT count(DISTINCT entry) FROM lane_event").await, "2");
    let same = match bench.database.is_postgres() {
        true => "UPDATE lane_event SET transaction = 1, entry = 1",
        false => "UPDATE lane_event SET entry = 1",
    };
    refuse(&raw, same, "").await;
}
