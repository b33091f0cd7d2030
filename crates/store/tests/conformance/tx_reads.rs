//! Reads of transactions: by name, in pages, what waits, what is open, what is done.

use stile_domain::{AttemptKind, Bytes, ChainId, Fees, Lane, Outcome, Payload, Step, TxState};
use stile_store::{InFlightFrom, NewTx, Offer, Set, Store, Tx, TxFilter};

use crate::common::{
    Bench, LEASE, accept, accept_one, attempt, bind, bind_new, bind_txs, change, claim_at, created,
    fresh, held, lane, lanes, named, new_tx, node, read_tx, receipt, record_one, steps, tx_id,
    view, waiting_binding,
};

on_both_stores!(
    transactions_are_found_by_name,
    reading_back_finds_what_was_written_on_the_lane,
    pages_are_newest_first,
    pages_are_filtered,
    what_waits_comes_oldest_first,
    what_is_open_comes_with_its_attempts,
    hole_37_what_an_account_will_be_asked_to_pay_for,
    what_is_done_above_a_height,
    lanes_count_what_flies_and_what_waits,
    amounts_beyond_64_bits_survive,
);

const MINED: Step = Step::Mined(Outcome::Success);

fn ids(txs: &[Tx]) -> Vec<stile_domain::TxId> {
    txs.iter().map(|tx| tx.id).collect()
}

async fn transactions_are_found_by_name(bench: Bench) {
    let store = &*bench.store;
    let txs = [new_tx(lane(1)), new_tx(lane(2))];
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    let found = store.txs(&[txs[1].id, tx_id(), txs[0].id, txs[1].id]).await.unwrap();
    let [one, two] = <[_; 2]>::try_from(accepted).unwrap();
    assert_eq!(found, [Some(two.clone()), None, Some(one), Some(two)]);
    assert!(store.txs(&[]).await.unwrap().is_empty());
    assert!(store.history(tx_id()).await.unwrap().is_empty());
    assert!(store.attempts(tx_id()).await.unwrap().is_empty());
}

async fn reading_back_finds_what_was_written_on_the_lane(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let bound = bind_txs(store, bind_new(claim, 0, [new_tx(lane(1))])).await.unwrap().remove(0);
    let elsewhere = accept_one(store, new_tx(lane(2))).await;
    let wanted = [bound.id, elsewhere.id, tx_id()];
    let found = bench.second().read_back_txs(lane(1), &wanted).await.unwrap();
    assert_eq!(found, [Some(bound), None, None]);
    let found = store.read_back_txs(lane(2), &wanted).await.unwrap();
    assert_eq!(found, [None, Some(elsewhere), None], "even on a lane that nobody has taken");
}

/// All pages of a filter.
async fn pages(store: &dyn Store, mut filter: TxFilter) -> Vec<Vec<Tx>> {
    let mut pages = Vec::new();
    loop {
        let page = store.tx_page(&filter).await.unwrap();
        pages.push(page.txs);
        match page.next {
            Some(next) => filter.before = Some(next),
            None => return pages,
        }
    }
}

async fn pages_are_newest_first(bench: Bench) {
    let store = &*bench.store;
    let txs: Vec<_> = (0..7).map(|number| new_tx(lane(number % 3))).collect();
    let mut accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    accepted.reverse();
    let filter = TxFilter { tenant: "shop".into(), limit: 3, ..TxFilter::default() };
    let found = pages(store, filter.clone()).await;
    assert_eq!(found.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(found.concat(), accepted);
    let of_lanes = TxFilter { lanes: Some(vec![lane(2), lane(0), lane(1)]), ..filter };
    assert_eq!(pages(store, of_lanes).await, found, "all lanes, or no word of lanes");
}

async fn pages_are_filtered(bench: Bench) {
    let store = &*bench.store;
    let theirs = NewTx { tenant: "bank".into(), ..new_tx(lane(1)) };
    let txs = [new_tx(lane(1)), new_tx(lane(2)), theirs, new_tx(lane(1))];
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let bound = bind_txs(store, waiting_binding(claim, 0, [&accepted[0]])).await.unwrap();

    let all = TxFilter { tenant: "shop".into(), limit: 10, ..TxFilter::default() };
    let listed = async |filter: TxFilter| ids(&store.tx_page(&filter).await.unwrap().txs);
    assert_eq!(listed(all.clone()).await, [txs[3].id, txs[1].id, txs[0].id]);
    let one = TxFilter { lanes: Some(vec![lane(1)]), ..all.clone() };
    assert_eq!(listed(one.clone()).await, [txs[3].id, txs[0].id]);
    let waiting = TxFilter { state: Some(TxState::Created), ..one.clone() };
    assert_eq!(listed(waiting).await, [txs[3].id]);
    let flying = TxFilter { state: Some(TxState::Allocated), ..all.clone() };
    assert_eq!(store.tx_page(&flying).await.unwrap().txs, bound);
    let bank = TxFilter { tenant: "bank".into(), ..all.clone() };
    assert_eq!(listed(bank).await, [txs[2].id]);
    let older = TxFilter { before: Some(accepted[1].position), ..all.clone() };
    assert_eq!(listed(older).await, [txs[0].id]);
    assert!(listed(TxFilter { lanes: Some(Vec::new()), ..all }).await.is_empty());
}

async fn what_waits_comes_oldest_first(bench: Bench) {
    let store = &*bench.store;
    let [one, two, none] = lanes();
    let txs = [new_tx(one), new_tx(two), named(one, "b"), named(one, "a")];
    let accepted: Vec<_> = accept(store, &txs).await.into_iter().map(created).collect();
    assert_eq!(ids(&store.waiting(one, 2).await.unwrap()), [txs[0].id, txs[2].id]);
    assert_eq!(ids(&store.waiting(one, 9).await.unwrap()), [txs[0].id, txs[2].id, txs[3].id]);
    assert_eq!(store.waiting(two, 9).await.unwrap(), [accepted[1].clone()]);
    let mut waiting = store.lanes_with_waiting(&[none, two, one]).await.unwrap();
    waiting.sort();
    assert_eq!(waiting, [one, two]);
    let claim = claim_at(store, &node("a"), two, 0).await;
    bind_txs(store, waiting_binding(claim, 0, [&accepted[1]])).await.unwrap();
    assert_eq!(store.lanes_with_waiting(&[none, two, one]).await.unwrap(), [one]);
    assert!(store.lanes_with_waiting(&[]).await.unwrap().is_empty());
}

async fn what_is_open_comes_with_its_attempts(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two] = lanes();
    let claims = [claim_at(store, &a, one, 0).await, claim_at(store, &a, two, 0).await];
    let first = bind_new(claims[0], 0, (0..5).map(|_| new_tx(one)));
    let txs = bind_txs(store, first.clone()).await.unwrap();
    let other = bind_txs(store, bind_new(claims[1], 0, [new_tx(two)])).await.unwrap().remove(0);
    accept_one(store, new_tx(one)).await;
    let sent = steps(store, claims[0], &txs[1], &[Step::Sent]).await;
    let mined = steps(store, claims[0], &txs[2], &[MINED]).await;
    steps(store, claims[0], &txs[3], &[MINED, Step::Final]).await;

    let open = store.open_txs(&[two, one]).await.unwrap();
    let found: Vec<_> = open.iter().map(|open| open.tx.clone()).collect();
    assert_eq!(found, [txs[0].clone(), sent, mined, txs[4].clone(), other], "by lane and nonce");
    for (open, planned) in open.iter().zip([0, 1, 2, 4]) {
        let attempt = &first.txs[planned].attempt;
        let [found] = &open.attempts[..] else { panic!("{:?}", open.attempts) };
        assert_eq!(
            (found.kind, found.hash, &found.raw),
            (attempt.kind, attempt.hash, &attempt.raw)
        );
        assert!(!open.forked);
    }
    assert!(store.open_txs(&[]).await.unwrap().is_empty());
}

async fn hole_37_what_an_account_will_be_asked_to_pay_for(bench: Bench) {
    let store = &*bench.store;
    let [one, two] = lanes();
    let claim = claim_at(store, &node("a"), one, 0).await;
    let txs = bind_txs(store, bind_new(claim, 0, (0..5).map(|_| new_tx(one)))).await.unwrap();
    steps(store, claim, &txs[0], &[MINED]).await;
    steps(store, claim, &txs[1], &[MINED, Step::Final]).await;
    steps(store, claim, &txs[2], &[Step::Sent]).await;
    // A newer attempt that offers more, and cancels.
    let mut raised = attempt();
    raised.kind = AttemptKind::Cancel;
    raised.fees = Fees::Legacy { gas_price: u128::MAX };
    raised.gas_limit = 30_000;
    let mut bumped = change(&txs[3], Step::CancelRequested);
    bumped.attempt = Some(raised.clone());
    record_one(store, claim, bumped).await;
    let known = NewTx { gas_limit: Some(77_000), ..new_tx(one) };
    let waiting = accept(store, &[known, new_tx(one), new_tx(two)]).await;
    let waiting: Vec<Tx> = waiting.into_iter().map(created).collect();

    let asked = async |lane, nonce, limit| {
        let from = InFlightFrom { lane, nonce };
        let mut found = store.open_costs(&[from], limit).await.unwrap();
        found.sort_by_key(|cost| (cost.offer.is_none(), cost.id));
        found
    };
    let found = asked(one, 0, 10).await;
    let ids: Vec<_> = found.iter().map(|cost| cost.id).collect();
    let in_flight = [txs[2].id, txs[3].id, txs[4].id];
    assert_eq!(ids, [&in_flight[..], &[waiting[0].id, waiting[1].id]].concat());
    let offer = Offer { kind: AttemptKind::Send, fees: attempt().fees, gas_limit: 21_000 };
    let last = Offer { kind: raised.kind, fees: raised.fees, gas_limit: raised.gas_limit };
    let offers: Vec<_> = found.iter().map(|cost| cost.offer).collect();
    assert_eq!(offers, [Some(offer), Some(last), Some(offer), None, None]);
    assert_eq!((found[3].gas_limit, found[4].gas_limit), (Some(77_000), None));
    for cost in &found {
        assert_eq!(cost.lane, one);
        let without_data = Payload { data: Bytes::new(), ..txs[0].payload.clone() };
        assert_eq!(cost.payload, without_data);
    }
    assert_eq!(asked(one, 4, 10).await.len(), 3, "what the chain has passed is left out");
    assert_eq!(asked(one, 0, 1).await.len(), 2, "one that waits, and one that does not");
    let both = [InFlightFrom { lane: two, nonce: 0 }, InFlightFrom { lane: one, nonce: 9 }];
    assert_eq!(store.open_costs(&both, 10).await.unwrap().len(), 3);
    assert!(store.open_costs(&[], 10).await.unwrap().is_empty());
}

async fn what_is_done_above_a_height(bench: Bench) {
    let store = &*bench.store;
    let a = node("a");
    let [one, two] = lanes();
    let mut done = Vec::new();
    for lane in [one, two] {
        let claim = claim_at(store, &a, lane, 0).await;
        let txs = bind_txs(store, bind_new(claim, 0, (0..4).map(|_| new_tx(lane)))).await.unwrap();
        for (tx, height) in txs[..3].iter().zip([30, 10, 20]) {
            let mut mined = change(tx, MINED);
            mined.receipt = Set::To(receipt(tx, height));
            let mined = record_one(store, claim, mined).await;
            done.push(steps(store, claim, &mined, &[Step::Final]).await);
        }
        steps(store, claim, &txs[3], &[MINED]).await;
    }
    let above = async |lanes: &[Lane], height| {
        let found = store.done_above(one.chain, lanes, height).await.unwrap();
        found.into_iter().map(|open| open.tx).collect::<Vec<_>>()
    };
    assert_eq!(above(&[one], 10).await, [done[0].clone(), done[2].clone()]);
    assert_eq!(above(&[one], 20).await, [done[0].clone()]);
    assert!(above(&[one], 30).await.is_empty());
    assert_eq!(above(&[two, one], 29).await, [done[0].clone(), done[3].clone()]);
    assert!(above(&[], 0).await.is_empty());
    let between = store.done_between(one.chain, &[two, one], 10, 20).await.unwrap();
    let between: Vec<_> = between.into_iter().map(|open| open.tx).collect();
    assert_eq!(between, [done[2].clone(), done[5].clone()]);
    let found = store.done_above(one.chain, &[two], 29).await.unwrap();
    assert_eq!(found[0].attempts[0].hash, done[3].tx_hash.unwrap());
    let another = ChainId::new(1).unwrap();
    assert!(store.done_above(another, &[one], 0).await.unwrap().is_empty());
}

async fn lanes_count_what_flies_and_what_waits(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    bind(store, fresh(claim, 0, 2)).await.unwrap();
    let txs = bind_txs(store, bind_new(claim, 2, (0..5).map(|_| new_tx(lane(1))))).await.unwrap();
    steps(store, claim, &txs[0], &[Step::Sent]).await;
    steps(store, claim, &txs[1], &[MINED]).await;
    steps(store, claim, &txs[2], &[MINED, Step::Final]).await;
    accept(store, &[new_tx(lane(1)), new_tx(lane(1)), new_tx(lane(2))]).await;
    let counted = view(store, lane(1)).await;
    assert_eq!((counted.held, counted.in_flight, counted.queued), (2, 3, 2));
    assert!(counted.gaps.is_empty());
    held(store, &node("a"), lane(2), LEASE).await;
    let other = view(store, lane(2)).await;
    assert_eq!((other.held, other.in_flight, other.queued), (0, 0, 1));
}

async fn amounts_beyond_64_bits_survive(bench: Bench) {
    let store = &*bench.store;
    let claim = claim_at(store, &node("a"), lane(1), 0).await;
    let mut binding = bind_new(claim, 0, [new_tx(lane(1))]);
    let huge = stile_domain::Fees::Legacy { gas_price: u128::MAX };
    binding.txs[0].attempt.fees = huge;
    let tx = bind_txs(store, binding).await.unwrap().remove(0);
    let mut mined = change(&tx, MINED);
    let mut receipt = receipt(&tx, 1);
    receipt.effective_gas_price = u128::MAX;
    mined.receipt = Set::To(receipt.clone());
    record_one(store, claim, mined).await;
    let found = read_tx(store, tx.id).await;
    assert_eq!((found.payload, found.receipt), (tx.payload, Some(receipt)));
    assert_eq!(store.attempts(tx.id).await.unwrap()[0].fees, huge);
}
