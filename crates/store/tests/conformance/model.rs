//! Random histories of a lane, against a model in memory.
//!
//! The model knows nothing of SQL: it is [`HoldStatus::after`], [`Planner`] and a list of holds.
//! After every step the store must say of every hold, past and present, what the model says.

use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, TestRunner};
use stile_domain::{B256, HeldExpiry, HoldEvent, HoldId, HoldStatus, Lane, Nonce, Planner};
use stile_store::{Binding, Claim, Mark, MarkOutcome, MarkVerdict, NewHold, Store};

use crate::common::{Bench, HOLD, LEASE, RUN_OUT, claim_at, lane, node, view};

#[test]
fn histories_agree_on_postgres() {
    histories_agree(Bench::postgres());
}

#[test]
fn histories_agree_on_sqlite() {
    histories_agree(Bench::sqlite());
}

#[derive(Debug, Clone)]
enum Step {
    /// So many nonces, released ones first.
    Allocate {
        count: usize,
        run_out: bool,
    },
    /// Marks in one call: which of the holds so far, and the hash or nothing.
    Marks(Vec<(Index, Option<u8>)>),
    Expire(HeldExpiry),
    /// The chain's count, as a part of the cursor.
    Settle(Index),
}

fn step() -> impl Strategy<Value = Step> {
    let policy = prop_oneof![Just(HeldExpiry::Suspect), Just(HeldExpiry::Reclaim)];
    let mark = (any::<Index>(), proptest::option::of(0..3u8));
    prop_oneof![
        3 => (1..4usize, any::<bool>()).prop_map(|(count, run_out)| Step::Allocate { count, run_out }),
        4 => proptest::collection::vec(mark, 1..5).prop_map(Step::Marks),
        1 => policy.prop_map(Step::Expire),
        1 => any::<Index>().prop_map(Step::Settle),
    ]
}

fn histories_agree(bench: impl Future<Output = Bench>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bench = runtime.block_on(bench);
    let numbers = AtomicU32::new(0);
    let config = Config { cases: 32, failure_persistence: None, ..Config::default() };
    let histories = proptest::collection::vec(step(), 1..20);
    let checked = TestRunner::new(config).run(&histories, |steps| {
        let lane = lane(numbers.fetch_add(1, Ordering::Relaxed));
        runtime.block_on(replay(&*bench.store, lane, &steps));
        Ok(())
    });
    checked.unwrap();
}

async fn replay(store: &dyn Store, lane: Lane, steps: &[Step]) {
    let claim = claim_at(store, &node("a"), lane, 0).await;
    let mut model = Model { claim, cursor: 0, holds: Vec::new() };
    for step in steps {
        match step {
            Step::Allocate { count, run_out } => model.allocate(store, *count, *run_out).await,
            Step::Marks(marks) => model.mark(store, marks).await,
            Step::Expire(policy) => model.expire(store, *policy).await,
            Step::Settle(part) => model.settle(store, part).await,
        }
        model.compare(store).await;
    }
}

#[derive(Debug, Clone)]
struct ModelHold {
    id: HoldId,
    nonce: Nonce,
    status: HoldStatus,
    hash: Option<u8>,
    run_out: bool,
    /// Whether its nonce has another hold since.
    past: bool,
}

struct Model {
    claim: Claim,
    cursor: Nonce,
    holds: Vec<ModelHold>,
}

#[derive(Debug, PartialEq, Eq)]
enum Said {
    Done,
    Conflict,
    Superseded,
}

impl ModelHold {
    fn marked(&mut self, hash: Option<u8>) -> Said {
        let event = if hash.is_some() { HoldEvent::Used } else { HoldEvent::Recyclable };
        if self.past {
            return if hash.is_some() { Said::Superseded } else { Said::Done };
        }
        match self.status.after(event) {
            Ok(HoldStatus::Consumed) if self.hash.is_some() && self.hash != hash => Said::Conflict,
            Ok(next) => {
                (self.status, self.hash) = (next, hash);
                Said::Done
            }
            Err(_) => Said::Conflict,
        }
    }
}

impl Model {
    async fn allocate(&mut self, store: &dyn Store, count: usize, run_out: bool) {
        let survey = store.survey(&[self.claim.lane()]).await.unwrap();
        let mut planner = Planner::new(self.cursor);
        planner.offer(survey.into_iter().flat_map(|survey| survey.released), []);
        let plan = planner.take(count).unwrap();
        let holds: Vec<_> =
            (0..count).map(|_| NewHold { id: HoldId::fresh(), key: None }).collect();
        for (nonce, hold) in plan.nonces().zip(&holds) {
            for old in self.holds.iter_mut().filter(|old| old.nonce == nonce && !old.past) {
                assert_eq!(old.status, HoldStatus::Released, "only released nonces come again");
                old.past = true;
            }
            let status = HoldStatus::Held;
            let id = hold.id;
            self.holds.push(ModelHold { id, nonce, status, hash: None, run_out, past: false });
        }
        let binding = Binding { claim: self.claim, plan, holds };
        let timeout = if run_out { RUN_OUT } else { HOLD };
        let answers = store.bind(&[binding], LEASE, timeout).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap().len(), count);
        self.cursor = planner.cursor();
    }

    async fn mark(&mut self, store: &dyn Store, marks: &[(Index, Option<u8>)]) {
        if self.holds.is_empty() {
            return;
        }
        let mut expected = Vec::new();
        let mut said = Vec::new();
        for (index, hash) in marks {
            let place = index.index(self.holds.len());
            let hold = &mut self.holds[place];
            expected.push(hold.marked(*hash));
            let verdict = match hash {
                Some(byte) => MarkVerdict::Used(B256::repeat_byte(*byte)),
                None => MarkVerdict::Recyclable("not sent".into()),
            };
            let lane = self.claim.lane();
            said.push(Mark { lane, nonce: hold.nonce, hold: hold.id, verdict });
        }
        let outcomes = store.mark(&said).await.unwrap();
        let answered: Vec<_> = outcomes
            .iter()
            .map(|outcome| match outcome {
                MarkOutcome::Done(_) => Said::Done,
                MarkOutcome::Conflict(_) => Said::Conflict,
                MarkOutcome::Superseded(_) => Said::Superseded,
                MarkOutcome::NotFound => panic!("not found: {said:?}"),
            })
            .collect();
        assert_eq!(answered, expected, "{said:?}");
    }

    async fn expire(&mut self, store: &dyn Store, policy: HeldExpiry) {
        let event = HoldEvent::Expired(policy);
        let changed = self.let_happen(event, |hold| hold.run_out);
        let answers = store.expire(&[self.claim], policy, LEASE).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap().len(), changed);
    }

    async fn settle(&mut self, store: &dyn Store, part: &Index) {
        let latest = part.index(self.cursor as usize + 2) as Nonce;
        let changed = self.let_happen(HoldEvent::SeenOnChain, |hold| hold.nonce < latest);
        let answers = store.settle(&[(self.claim, latest)], LEASE).await.unwrap();
        assert_eq!(answers[0].as_ref().unwrap().len(), changed);
    }

    /// Lets an event happen to the present holds it concerns; how many it changed.
    fn let_happen(&mut self, event: HoldEvent, concerns: impl Fn(&ModelHold) -> bool) -> usize {
        let mut changed = 0;
        for hold in self.holds.iter_mut().filter(|hold| !hold.past && concerns(hold)) {
            if let Ok(next) = hold.status.after(event)
                && next != hold.status
            {
                hold.status = next;
                changed += 1;
            }
        }
        changed
    }

    async fn compare(&self, store: &dyn Store) {
        let lane = self.claim.lane();
        let wanted: Vec<_> = self.holds.iter().map(|hold| (hold.nonce, hold.id)).collect();
        let found = store.read_back(lane, &wanted).await.unwrap();
        let mut found: Vec<_> =
            found.iter().map(|hold| (hold.id, hold.nonce, hold.status, hold.tx_hash)).collect();
        found.sort();
        let mut expected: Vec<_> = self
            .holds
            .iter()
            .map(|hold| (hold.id, hold.nonce, hold.status, hold.hash.map(B256::repeat_byte)))
            .collect();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(view(store, lane).await.next_nonce, Some(self.cursor));
    }
}
