//! What the database says in the end, against what callers were told.

use std::collections::{BTreeMap, BTreeSet};

use stile_domain::{Hold, HoldId, HoldStatus, Lane, Nonce};
use stile_store::{HoldFilter, LaneView, Store};
use testkit::eventually;

/// Every nonce of a lane that was ever given out, as it stands.
pub(crate) async fn ledger(store: &dyn Store, lane: Lane) -> Vec<Hold> {
    let mut holds = Vec::new();
    let mut after = None;
    loop {
        let filter = HoldFilter { lane, status: None, after, limit: 1000 };
        let page = store.holds(filter).await.expect("a page of holds");
        holds.extend(page.holds);
        after = page.next;
        if after.is_none() {
            return holds;
        }
    }
}

/// A lane as it stands.
pub(crate) async fn view(store: &dyn Store, lane: Lane) -> LaneView {
    let views = store.lanes(&[lane]).await.expect("read the lane");
    views.into_iter().next().flatten().expect("the lane exists")
}

/// Sorted.
pub(crate) fn nonces<'h>(holds: impl IntoIterator<Item = &'h Hold>) -> Vec<Nonce> {
    let mut nonces: Vec<Nonce> = holds.into_iter().map(|hold| hold.nonce).collect();
    nonces.sort_unstable();
    nonces
}

/// A hold as it stands.
pub(crate) async fn hold_as_it_stands(store: &dyn Store, hold: &Hold) -> Hold {
    let found = store.read_back(hold.lane, &[(hold.nonce, hold.id)]).await.expect("read back");
    let [found] = <[_; 1]>::try_from(found).expect("the hold exists");
    found
}

pub(crate) async fn status(store: &dyn Store, hold: &Hold) -> HoldStatus {
    hold_as_it_stands(store, hold).await.status
}

/// Waits until a hold stands so.
pub(crate) async fn until_status(store: &dyn Store, hold: &Hold, wanted: HoldStatus) {
    let what = format!("nonce {} to be {wanted}", hold.nonce);
    eventually(&what, async || (status(store, hold).await == wanted).then_some(())).await;
}

/// Checks that no nonce is lost and none given twice: the ledger has every nonce from `first` to
/// the cursor; each one is with a caller who was told so, or released; and each caller's hold is
/// there, under a nonce of its own.
pub(crate) async fn accounted(store: &dyn Store, lane: Lane, first: Nonce, told: &[Hold]) {
    let rows = ledger(store, lane).await;
    let cursor = view(store, lane).await.next_nonce.expect("a cursor");
    assert_eq!(nonces(&rows), (first..cursor).collect::<Vec<_>>(), "the ledger has a gap");
    let by_id: BTreeMap<HoldId, &Hold> = told.iter().map(|hold| (hold.id, hold)).collect();
    assert_eq!(by_id.len(), told.len(), "one hold was told to two callers");
    let given: BTreeSet<Nonce> = told.iter().map(|hold| hold.nonce).collect();
    assert_eq!(given.len(), told.len(), "one nonce was given to two callers");
    let lost: Vec<&Hold> = rows
        .iter()
        .filter(|row| !by_id.contains_key(&row.id) && row.status != HoldStatus::Released)
        .collect();
    assert!(lost.is_empty(), "nobody was told of {lost:?}");
    let rows: BTreeMap<HoldId, &Hold> = rows.iter().map(|row| (row.id, row)).collect();
    for hold in told {
        let row = rows.get(&hold.id);
        assert_eq!(row.map(|row| row.nonce), Some(hold.nonce), "{hold:?} is not in the ledger");
    }
}
