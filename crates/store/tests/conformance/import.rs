//! Nonces taken over from V1.

use serde_json::json;
use stile_domain::v1::hold_id;
use stile_domain::v1::import::ImportedNonce;
use stile_domain::{B256, HoldStatus, LaneOwner, Nonce};
use stile_store::{HoldFilter, ImportEnd, ImportPart, Imported, Refusal, Store};

use crate::common::{
    A_NODE, Bench, LEASE, RUN_OUT, bind, bound, claim_at, fresh, give_back, held, hold_at, lane,
    node, reissue, released, view,
};

on_both_stores!(
    what_is_imported_is_there_and_the_lane_goes_on_behind_it,
    the_same_part_twice_is_the_same_as_once,
    nothing_is_imported_into_a_lane_that_is_stiles,
    what_is_known_already_only_changes_forward,
    released_nonces_are_given_out_first,
    a_ledger_is_read_in_pages,
    hole_20_an_import_does_not_align_a_lane_of_a_restored_database,
);

fn row(nonce: Nonce, status: HoldStatus) -> ImportedNonce {
    let tx_hash = (status == HoldStatus::Consumed).then(|| B256::repeat_byte(nonce as u8));
    ImportedNonce { nonce, hold: hold_id(lane(1), nonce), status, tx_hash, reason: "V1" }
}

fn end(cursor: Nonce, chain_nonce: Nonce) -> Option<ImportEnd> {
    Some(ImportEnd { cursor, chain_nonce, data: json!({ "nonces": 3 }) })
}

async fn import(store: &dyn Store, nonces: &[ImportedNonce], end: Option<ImportEnd>) -> Imported {
    let part = ImportPart { lane: lane(1), nonces, end };
    store.import_lane(&A_NODE, part).await.unwrap()
}

/// A lane that is V1's, its row made by whoever imports.
async fn v1s(store: &dyn Store) {
    store.set_owner(&A_NODE, &[lane(1)], &[None], LaneOwner::V1).await.unwrap();
    held(store, &node("import"), lane(1), RUN_OUT).await;
}

async fn to_stile(store: &dyn Store) {
    let from = [Some(LaneOwner::V1), Some(LaneOwner::Stopped)];
    store.set_owner(&A_NODE, &[lane(1)], &from, LaneOwner::Stile).await.unwrap();
}

async fn statuses(store: &dyn Store) -> Vec<(Nonce, HoldStatus)> {
    let ledger = store.ledger(lane(1), 0, 100).await.unwrap();
    ledger.into_iter().map(|row| (row.nonce, row.status)).collect()
}

use HoldStatus::{Consumed, Held, Released, Suspect};

async fn what_is_imported_is_there_and_the_lane_goes_on_behind_it(bench: Bench) {
    let store = &*bench.store;
    v1s(store).await;
    let rows = [row(3, Consumed), row(4, Suspect), row(5, Released)];
    assert_eq!(import(store, &rows, end(7, 4)).await, Imported::Written(3));
    let known = view(store, lane(1)).await;
    assert_eq!((known.next_nonce, known.last_chain_nonce), (Some(7), Some(4)));
    assert!(known.aligned);
    assert_eq!(statuses(store).await, [(3, Consumed), (4, Suspect), (5, Released)]);
    let filter = HoldFilter { lane: lane(1), status: None, after: None, limit: 10 };
    let holds = store.holds(filter).await.unwrap().holds;
    assert_eq!(holds[0].tx_hash, Some(B256::repeat_byte(3)));
    assert_eq!((holds[1].id, holds[1].reason.as_deref()), (hold_id(lane(1), 4), Some("V1")));

    let a = node("a");
    let taken = held(store, &a, lane(1), LEASE).await;
    assert_eq!(taken.next_nonce, Some(7));
    assert!(matches!(bind(store, fresh(taken.claim, 7, 1)).await, Err(Refusal::Elsewhere(_))));
    to_stile(store).await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(bind(store, fresh(claim, 7, 1)).await.unwrap()[0].nonce, 7);
}

async fn the_same_part_twice_is_the_same_as_once(bench: Bench) {
    let store = &*bench.store;
    v1s(store).await;
    let rows = [row(0, Consumed), row(1, Suspect), row(2, Released)];
    assert_eq!(import(store, &rows[..2], None).await, Imported::Written(2));
    assert_eq!(view(store, lane(1)).await.next_nonce, None, "the cursor comes last");
    assert_eq!(import(store, &rows, None).await, Imported::Written(1));
    assert_eq!(import(store, &rows, end(3, 1)).await, Imported::Written(0));
    let once = bench.raw().await.rows("SELECT * FROM nonce ORDER BY nonce").await;
    assert_eq!(import(store, &rows, end(3, 1)).await, Imported::Written(0));
    assert_eq!(bench.raw().await.rows("SELECT * FROM nonce ORDER BY nonce").await, once);
    assert_eq!(view(store, lane(1)).await.next_nonce, Some(3));
}

async fn nothing_is_imported_into_a_lane_that_is_stiles(bench: Bench) {
    let store = &*bench.store;
    assert_eq!(import(store, &[], end(3, 1)).await, Imported::NotFound);
    claim_at(store, &node("a"), lane(1), 0).await;
    let before = bench.raw().await.dump().await;
    assert_eq!(import(store, &[row(9, Consumed)], end(10, 1)).await, Imported::Owned);
    assert_eq!(bench.raw().await.dump().await, before);
}

/// A lane that went back to V1 and comes again.
async fn what_is_known_already_only_changes_forward(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    let claim = claim_at(store, &a, lane(1), 0).await;
    let given_back = hold_at(store, claim, 0, LEASE).await;
    give_back(store, &given_back).await;
    let again = give_back(store, &hold_at(store, claim, 1, LEASE).await).await;
    hold_at(store, claim, 2, LEASE).await;
    bound(store, claim, 3).await;
    store.set_owner(&A_NODE, &[lane(1)], &[None], LaneOwner::Stopped).await.unwrap();
    let rows = [row(0, Consumed), row(1, Released), row(2, Suspect), row(3, Released)];
    import(store, &rows, end(2, 1)).await;
    assert_eq!(
        view(store, lane(1)).await.next_nonce,
        Some(4),
        "never back over what was given out"
    );
    let found = statuses(store).await;
    assert_eq!(found, [(0, Consumed), (1, Released), (2, Held), (3, Consumed)]);
    let ledger = store.ledger(lane(1), 0, 9).await.unwrap();
    assert_eq!(ledger[0].owner, hold_id(lane(1), 0).0, "its old holder cannot touch it");
    assert_eq!(ledger[1].owner, again.id.0);
    // What is settled stays.
    import(store, &[row(0, Released), row(2, Consumed)], None).await;
    assert_eq!(statuses(store).await[0], (0, Consumed));
    assert_eq!(statuses(store).await[2], (2, Consumed), "the chain has shown it");
}

async fn released_nonces_are_given_out_first(bench: Bench) {
    let store = &*bench.store;
    v1s(store).await;
    import(store, &[row(5, Released)], end(6, 5)).await;
    to_stile(store).await;
    let claim = held(store, &node("a"), lane(1), LEASE).await.claim;
    let survey = store.survey(&[lane(1)]).await.unwrap().remove(0);
    assert_eq!(survey.released[0].nonce, 5);
    let filter = HoldFilter { lane: lane(1), status: Some(Released), after: None, limit: 9 };
    let hold = store.holds(filter).await.unwrap().holds.remove(0);
    assert_eq!(released(&hold), survey.released[0]);
    let holds = bind(store, reissue(claim, 6, &[hold])).await.unwrap();
    assert_eq!(holds[0].nonce, 5);
}

async fn a_ledger_is_read_in_pages(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    hold_at(store, claim, 0, LEASE).await;
    let tx = bound(store, claim, 1).await;
    let first = store.ledger(lane(1), 0, 1).await.unwrap();
    assert_eq!((first.len(), first[0].nonce, first[0].status), (1, 0, Held));
    let rest = store.ledger(lane(1), 1, 10).await.unwrap();
    assert_eq!((rest.len(), rest[0].owner), (1, tx.id.0));
    assert_eq!(rest[0].tx_hash, tx.tx_hash, "of a transaction's nonce, its hash");
    assert_eq!(store.ledger(lane(2), 0, 10).await.unwrap(), []);
}

/// A lane that was Stile's before comes from another history, and an import holds nothing against the
/// chain: it is realigned, and marked, when it is Stile's again.
async fn hole_20_an_import_does_not_align_a_lane_of_a_restored_database(bench: Bench) {
    let (store, a) = (&*bench.store, node("a"));
    claim_at(store, &a, lane(1), 2).await;
    store.set_owner(&A_NODE, &[lane(1)], &[None], LaneOwner::Stopped).await.unwrap();
    assert_eq!(import(store, &[], end(4, 4)).await, Imported::Written(0));
    assert!(view(store, lane(1)).await.aligned, "in its own history");
    let lost = if bench.database.is_postgres() { "'000000FF'" } else { "NULL" };
    bench.raw().await.execute(&format!("UPDATE lane SET timeline = {lost}")).await;
    assert_eq!(import(store, &[], end(7, 7)).await, Imported::Written(0));
    let known = view(store, lane(1)).await;
    assert_eq!((known.next_nonce, known.aligned), (Some(7), false));
    to_stile(store).await;
    let claim = held(store, &a, lane(1), LEASE).await.claim;
    assert_eq!(bind(store, fresh(claim, 7, 1)).await, Err(Refusal::Unaligned));
}
