//! Hole 2 at the store: the writes that a process cannot be made to try once it knows better.

use std::time::Duration;

use stile::{Address, B256, ChainId, HeldExpiry, HoldId, Lane};
use stile_domain::{Holder, Incarnation, NodeId, Plan, Released};
use stile_store::{
    Acquisition, Binding, Claim, Mark, MarkVerdict, NewHold, OpenOptions, Refusal, Renewal, Store,
};

use crate::common::Database;

const LEASE: Duration = Duration::from_secs(600);

fn holder(name: &str) -> Holder {
    Holder { node: NodeId(name.into()), incarnation: Incarnation::fresh(), url: None }
}

async fn acquire(store: &dyn Store, holder: &Holder, lane: Lane, lease: Duration) -> Claim {
    match store.acquire(holder, &[lane], lease).await.unwrap().remove(0) {
        Acquisition::Held(held) => held.claim,
        Acquisition::Other(owner) => panic!("held by {owner:?}"),
    }
}

fn binding(claim: Claim, reissued: Vec<Released>, first: u64, fresh: u64) -> Binding {
    let count = reissued.len() + usize::try_from(fresh).unwrap();
    let holds = std::iter::repeat_with(|| NewHold { id: HoldId::fresh(), key: None });
    Binding { claim, plan: Plan { reissued, first, fresh }, holds: holds.take(count).collect() }
}

#[tokio::test]
async fn hole_02_every_fenced_write_under_a_superseded_claim_is_refused() {
    let database = Database::new().await;
    let store = stile_store::open(OpenOptions {
        url: database.url.as_str().into(),
        direct_url: None,
        pool_size: 2,
        statement_timeout: Duration::from_secs(20),
        lock_timeout: Duration::from_secs(15),
        pooler: stile_store::postgres::Pooler::None,
        lease: LEASE,
        serve: false,
    });
    let store = store.unwrap();
    store.migrate().await.unwrap();
    let chain = ChainId::new(31337).unwrap();
    let [new_lane, lane] = [1, 2].map(|byte| Lane::new(chain, Address::with_last_byte(byte)));
    let (stale, successor) = (holder("a"), holder("b"));

    // A lane without a cursor yet, and one with a hold that ran out and a nonce given back.
    let unstarted = acquire(&*store, &stale, new_lane, Duration::ZERO).await;
    let claim = acquire(&*store, &stale, lane, LEASE).await;
    store.start_cursor(&stale.node, &claim, 0.into(), LEASE).await.unwrap().unwrap();
    let bound = store.bind(&[binding(claim, vec![], 0, 2)], Duration::ZERO, Duration::ZERO).await;
    let [_ran_out, given_back] = <[_; 2]>::try_from(bound.unwrap().remove(0).unwrap()).unwrap();
    let verdict = MarkVerdict::Recyclable("not sent".into());
    let mark = Mark { lane, nonce: given_back.nonce, hold: given_back.id, verdict };
    store.mark(&[mark]).await.unwrap();
    for lane in [new_lane, lane] {
        acquire(&*store, &successor, lane, LEASE).await;
    }
    let before = database.dump().await;

    let fenced = |refusal: &Refusal| match refusal {
        Refusal::Fenced(owner) => {
            assert_eq!((owner.token.get(), &owner.node), (2, &successor.node))
        }
        other => panic!("{other:?}"),
    };
    fenced(
        &store.start_cursor(&stale.node, &unstarted, 7.into(), LEASE).await.unwrap().unwrap_err(),
    );
    let reissued = vec![Released { nonce: given_back.nonce, hold: given_back.id }];
    for attempt in [binding(claim, vec![], 2, 1), binding(claim, reissued, 2, 0)] {
        let answers = store.bind(&[attempt], LEASE, LEASE).await.unwrap();
        fenced(answers[0].as_ref().unwrap_err());
    }
    let expired = store.expire(&[claim], HeldExpiry::Suspect, LEASE).await.unwrap();
    fenced(expired[0].as_ref().unwrap_err());
    let settled = store.settle(&[(claim, 2)], LEASE).await.unwrap();
    fenced(settled[0].as_ref().unwrap_err());
    let renewed = store.renew(&[claim], LEASE).await.unwrap();
    assert!(matches!(&renewed[0], Renewal::Fenced(owner) if owner.node == successor.node));
    assert_eq!(store.release(&[claim, unstarted]).await.unwrap(), [false, false]);
    assert_eq!(database.dump().await, before);

    // What a caller says about its own hold needs no lease, and still goes through.
    let verdict = MarkVerdict::Used(B256::repeat_byte(1));
    let mark = Mark { lane, nonce: given_back.nonce, hold: given_back.id, verdict };
    store.mark(&[mark]).await.unwrap();
    assert_ne!(database.dump().await, before);
}
