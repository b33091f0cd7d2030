//! Whether an account can pay for what it is asked to send, before that is accepted.
//!
//! What counts is the account's queue: what waits on its lane, what is in flight, and the new one, each
//! with its value and all of its gas at the highest price that it offers. It is advice at the door and
//! nothing else: no nonce depends on it, and what is not known refuses nobody.
//!
//! Acceptance asks nobody. Of each lane it is remembered what its account had and what was open when
//! that was last seen, and what was let in since. Where that is enough, the request is let in, and from
//! time to time all of it is looked at anew beside the work. Where it is not enough, the request waits for
//! a look that begins after it came, together with all others that do; only such a look refuses.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use stile_domain::{AttemptKind, BalanceTooLow, Lane, TxId, U256, check_balance, cost_of};
use stile_store::{InFlightFrom, NewTx, OpenCost, StoreError};
use tokio::time::timeout;
use tracing::debug;

use crate::core::Core;
use crate::metrics;
use crate::task;
use crate::tx::bind;
use crate::tx::settings::Underfunded;
use crate::tx::track::Track;

/// For so long nobody waits for a look again after one that found nothing out.
const SILENT_FOR: Duration = Duration::from_secs(10);

/// A look that is given up after this has met a silent chain; before, its caller has hung up.
const SLOW: Duration = Duration::from_millis(500);

/// How old what was seen may be.
const GOOD_FOR: Duration = Duration::from_secs(60);

/// When it is looked at anew, beside the work.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// An account that has so many times what it needs is looked at less often.
const AMPLE_TIMES: u64 = 10;
const AMPLE_GOOD_FOR: Duration = Duration::from_secs(600);
const AMPLE_LOOK_AGAIN: Duration = Duration::from_secs(60);

/// The lanes of one look.
const LANES: usize = 50;

/// Of each lane so many that wait are counted, and as many in flight. What is beyond that is let in.
const COUNTED: u32 = 2000;

/// The least that a transaction uses whose gas is not known yet.
const LEAST_GAS: u64 = 21_000;

/// What is remembered of the accounts of a chain.
#[derive(Debug, Default)]
pub(crate) struct Balances {
    known: Mutex<Known>,
    /// Whoever has it looks; the others wait for what is found.
    looking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    accounts: HashMap<Lane, Account>,
    /// Lanes of which somebody waits for a look.
    wanted: BTreeSet<Lane>,
    /// When the chain last did not say.
    silent: Option<Instant>,
}

/// What is remembered of one account.
#[derive(Debug, Default)]
struct Account {
    seen: Option<Seen>,
    /// What was let in and is not answered yet: it may be on record or not.
    entering: Entering,
    /// Which of them have which name.
    names: HashMap<Arc<Name>, Vec<TxId>>,
    /// What was let in since the look began that is under way.
    since: U256,
    /// A look is under way that somebody waits for. Nobody is let in until it is over, so that all is
    /// counted once.
    is_held: bool,
    /// When it was last looked at in vain.
    in_vain: Option<Instant>,
}

/// What was let in and is not answered yet.
type Entering = HashMap<TxId, Entrant>;

/// A tenant, and its caller's name for a request of a lane.
type Name = (String, String);

/// One that was let in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entrant {
    /// What it is counted with. Of those that have a name in common one is counted, and which of them
    /// is the new one is not known before they are answered.
    cost: U256,
    /// What has the name of another one is that one.
    name: Option<Arc<Name>>,
}

/// What a look has found, and what was let in since.
#[derive(Debug, Clone, Copy)]
struct Seen {
    began: Instant,
    balance: U256,
    open: U256,
    /// Nothing was let in while it was looked at.
    is_exact: bool,
}

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It is let in. Whether it is time to look anew.
    Enters { is_due: bool },
    /// Nobody knows enough.
    Look,
    /// Nobody knows, and nobody has found out a moment ago.
    Unknown,
    /// The account cannot pay for it.
    Refused(BalanceTooLow),
}

impl Account {
    /// What becomes of a request that came at this time.
    fn judge(&mut self, id: TxId, entrant: &Entrant, came: Instant, now: Instant) -> Verdict {
        let cost = entrant.cost;
        if self.same_as(entrant).is_some() {
            // One of the two becomes a repeat of the other.
            self.let_in(id, Entrant { cost: U256::ZERO, ..entrant.clone() });
            return Verdict::Enters { is_due: false };
        }
        let is_silent = self.in_vain.is_some_and(|vain| now.duration_since(vain) < SILENT_FOR);
        let unknown = if is_silent { Verdict::Unknown } else { Verdict::Look };
        if self.is_held {
            return unknown;
        }
        let Some(seen) = &mut self.seen else { return unknown };
        let age = now.duration_since(seen.began);
        let needed = seen.open.saturating_add(cost);
        let is_ample = seen.balance / U256::from(AMPLE_TIMES) >= needed;
        let good_for = if is_ample { AMPLE_GOOD_FOR } else { GOOD_FOR };
        if age >= good_for {
            return unknown;
        }
        if let Err(low) = check_balance(seen.balance, seen.open, cost) {
            let is_new = seen.is_exact && seen.began >= came;
            return if is_new { Verdict::Refused(low) } else { unknown };
        }
        seen.open = needed;
        self.since = self.since.saturating_add(cost);
        self.let_in(id, entrant.clone());
        let again = if is_ample { AMPLE_LOOK_AGAIN } else { LOOK_AGAIN };
        Verdict::Enters { is_due: age >= again }
    }

    /// One that was let in under the same name and is not answered yet: the one that is counted, if any is.
    fn same_as(&mut self, entrant: &Entrant) -> Option<&mut Entrant> {
        let same = self.names.get(entrant.name.as_ref()?)?;
        let cost = |id: &&TxId| self.entering.get(*id).map(|it| it.cost);
        let counted = same.iter().max_by_key(cost)?;
        self.entering.get_mut(counted)
    }

    fn let_in(&mut self, id: TxId, entrant: Entrant) {
        if let Some(name) = &entrant.name {
            self.names.entry(Arc::clone(name)).or_default().push(id);
        }
        self.entering.insert(id, entrant);
    }

    fn take_out(&mut self, id: TxId) -> Option<Entrant> {
        let entrant = self.entering.remove(&id)?;
        if let Some(name) = &entrant.name
            && let Some(same) = self.names.get_mut(name)
        {
            same.retain(|it| *it != id);
            if same.is_empty() {
                self.names.remove(name);
            }
        }
        Some(entrant)
    }

    /// A look begins. Answers with what was let in and is not answered yet, which it counts by itself.
    fn begin(&mut self, is_waited_for: bool) -> Entering {
        self.is_held = is_waited_for;
        self.since = U256::ZERO;
        self.entering.clone()
    }

    /// A look that began then has found this on record, without what was let in before it began, of which
    /// what has the name of one of `repeats` is counted no more.
    fn saw(
        &mut self,
        began: Instant,
        balance: U256,
        on_record: U256,
        entering: &Entering,
        repeats: &HashSet<Name>,
    ) {
        let is_new = |it: &&Entrant| it.name.as_ref().is_none_or(|name| !repeats.contains(&**name));
        for id in repeats.iter().filter_map(|name| self.names.get(name)).flatten() {
            if let Some(repeat) = self.entering.get_mut(id) {
                repeat.cost = U256::ZERO;
            }
        }
        let new = entering.values().filter(is_new);
        let entering = new.fold(U256::ZERO, |sum, it| sum.saturating_add(it.cost));
        let is_exact = self.since.is_zero();
        let open = on_record.saturating_add(entering).saturating_add(self.since);
        self.seen = Some(Seen { began, balance, open, is_exact });
        self.in_vain = None;
    }

    /// A request that was let in is answered. What is not new is not one more. Whoever else has its name
    /// is what it turned out not to be, and is counted for it, or no more.
    fn answered(&mut self, id: TxId, is_new: bool) {
        let Some(entrant) = self.take_out(id) else { return };
        if let Some(same) = self.same_as(&entrant) {
            same.cost = if is_new { U256::ZERO } else { same.cost.max(entrant.cost) };
        } else if let Some(seen) = self.seen.as_mut().filter(|_| !is_new) {
            seen.open = seen.open.saturating_sub(entrant.cost);
        }
    }
}

impl Known {
    fn account(&mut self, lane: Lane) -> &mut Account {
        self.accounts.entry(lane).or_default()
    }
}

impl Balances {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, lane: Lane, id: TxId, entrant: &Entrant, came: Instant) -> Verdict {
        let mut known = self.known();
        let silent = known.silent;
        let account = known.account(lane);
        account.in_vain = account.in_vain.max(silent);
        account.judge(id, entrant, came, Instant::now())
    }

    /// Whether a look has ended that began after this moment.
    fn is_looked_at_since(&self, lane: Lane, moment: Instant) -> bool {
        let known = self.known();
        let account = known.accounts.get(&lane);
        let is_silent = known.silent.is_some_and(|silent| silent >= moment);
        is_silent
            || account.is_some_and(|account| {
                account.seen.is_some_and(|seen| seen.is_exact && seen.began >= moment)
                    || account.in_vain.is_some_and(|vain| vain >= moment)
            })
    }

    /// The chain does not say, for whatever lane.
    fn silent(&self) {
        self.known().silent = Some(Instant::now());
    }

    fn in_vain(&self, lanes: impl Iterator<Item = Lane>) {
        let mut known = self.known();
        for lane in lanes {
            known.account(lane).in_vain = Some(Instant::now());
        }
    }
}

/// One that was let in. Dropped, it may be on record or not.
#[derive(Debug)]
pub(crate) struct Ticket {
    track: Arc<Track>,
    lane: Lane,
    id: TxId,
}

impl Ticket {
    /// It is answered: as a new one, or not.
    pub(crate) fn answered(self, is_new: bool) {
        self.release(is_new);
    }

    fn release(&self, is_new: bool) {
        self.track.balances.known().account(self.lane).answered(self.id, is_new);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.release(true);
    }
}

/// A look that is under way. However it ends, requests are let in again.
struct Look<'l> {
    balances: &'l Balances,
    began: Instant,
    is_over: bool,
    /// What was let in and was not answered when it began.
    lanes: BTreeMap<Lane, Entering>,
}

impl<'l> Look<'l> {
    /// A look at this lane and at others that are waited for.
    fn waited_for(balances: &'l Balances, lane: Lane) -> Self {
        let mut known = balances.known();
        known.wanted.remove(&lane);
        let mut lanes = vec![lane];
        while lanes.len() < LANES
            && let Some(other) = known.wanted.pop_first()
        {
            lanes.push(other);
        }
        Self::begin(balances, known, lanes, true)
    }

    /// A look that nobody waits for.
    fn beside(balances: &'l Balances, lane: Lane) -> Self {
        Self::begin(balances, balances.known(), vec![lane], false)
    }

    fn begin(
        balances: &'l Balances,
        mut known: MutexGuard<'_, Known>,
        lanes: Vec<Lane>,
        is_waited_for: bool,
    ) -> Self {
        let began = |lane| (lane, known.account(lane).begin(is_waited_for));
        let lanes = lanes.into_iter().map(began).collect();
        Self { balances, began: Instant::now(), is_over: false, lanes }
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut known = self.balances.known();
        if !self.is_over && self.began.elapsed() >= SLOW {
            known.silent = Some(Instant::now());
        }
        for lane in self.lanes.keys() {
            known.account(*lane).is_held = false;
        }
    }
}

/// Lets a request in, or says what its account would have to have. `None` where nobody looks, or nothing
/// is known.
pub(crate) async fn enter(core: &Arc<Core>, new: &NewTx) -> Result<Option<Ticket>, BalanceTooLow> {
    if core.settings.tx.underfunded == Underfunded::Wait {
        return Ok(None);
    }
    let Some(track) = core.tracks.get(new.lane.chain) else { return Ok(None) };
    let (lane, id, came) = (new.lane, new.id, Instant::now());
    let cost = cost_of_new(core, track, new);
    if cost.is_zero() {
        return Ok(None);
    }
    let name = new.request_id.as_ref().map(|name| Arc::new((new.tenant.clone(), name.clone())));
    let entrant = Entrant { cost, name };
    let balances = &track.balances;
    loop {
        match balances.judge(lane, id, &entrant, came) {
            Verdict::Enters { is_due } => {
                if is_due {
                    look_beside(core, track, lane);
                }
                return Ok(Some(Ticket { track: Arc::clone(track), lane, id }));
            }
            Verdict::Refused(low) => return Err(low),
            Verdict::Unknown => return Ok(None),
            Verdict::Look => {}
        }
        let left = core.settings.tx.check_within.saturating_sub(came.elapsed());
        if timeout(left, look_for(core, track, lane, came)).await.is_err() {
            balances.in_vain(std::iter::once(lane));
            return Ok(None);
        }
    }
}

/// Waits until somebody has looked at a lane since this moment.
async fn look_for(core: &Arc<Core>, track: &Arc<Track>, lane: Lane, since: Instant) {
    let balances = &track.balances;
    balances.known().wanted.insert(lane);
    let _turn = balances.looking.lock().await;
    if !balances.is_looked_at_since(lane, since) {
        look(core, track, Look::waited_for(balances, lane)).await;
    }
}

/// Has a lane looked at, unless somebody looks at any. Nobody waits for it.
fn look_beside(core: &Arc<Core>, track: &Arc<Track>, lane: Lane) {
    if track.balances.looking.try_lock().is_err() {
        return;
    }
    let (core, track) = (Arc::clone(core), Arc::clone(track));
    let producers = core.producers.clone();
    producers.spawn(task::BALANCE, async move {
        let Ok(_turn) = track.balances.looking.try_lock() else { return };
        let looked = look(&core, &track, Look::beside(&track.balances, lane));
        tokio::select! {
            () = core.stopping.cancelled() => {}
            _ = timeout(core.settings.tx.check_within, looked) => {}
        }
    });
}

/// Looks at what accounts have, and then at what is open on their lanes: what is mined in between is
/// counted as open no more.
async fn look(core: &Arc<Core>, track: &Arc<Track>, mut look: Look<'_>) {
    look_at(core, track, &look).await;
    look.is_over = true;
}

async fn look_at(core: &Arc<Core>, track: &Arc<Track>, look: &Look<'_>) {
    let lanes: Vec<Lane> = look.lanes.keys().copied().collect();
    let accounts: Vec<_> = lanes.iter().map(|lane| lane.signer).collect();
    let Some(means) = track.pool.means(&accounts).await else {
        return look.balances.silent();
    };
    let from: Vec<InFlightFrom> = lanes
        .iter()
        .zip(&means)
        .map(|(lane, means)| InFlightFrom { lane: *lane, nonce: means.count })
        .collect();
    let open = match core.store.open_costs(&from, COUNTED).await {
        Ok(open) => open,
        Err(error) => {
            metrics::store_failed("open_costs");
            debug!(%error, "what is open could not be summed up");
            return look.balances.in_vain(lanes.into_iter());
        }
    };
    let mut sums: HashMap<Lane, U256> = HashMap::new();
    for open in open {
        let is_entering = look.lanes.get(&open.lane).is_some_and(|it| it.contains_key(&open.id));
        if !is_entering {
            let sum = sums.entry(open.lane).or_default();
            *sum = sum.saturating_add(cost_of_open(core, track, &open));
        }
    }
    let mut repeats: HashMap<Lane, HashSet<Name>> = HashMap::new();
    for (lane, entering) in &look.lanes {
        match repeats_of(core, *lane, entering).await {
            Ok(found) => drop(repeats.insert(*lane, found)),
            Err(error) => {
                metrics::store_failed("txs_by_request");
                debug!(%error, "it is not known what is a repeat");
                return look.balances.in_vain(std::iter::once(*lane));
            }
        }
    }
    let mut known = look.balances.known();
    known.silent = None;
    for ((lane, entering), means) in look.lanes.iter().zip(&means) {
        let on_record = sums.get(lane).copied().unwrap_or_default();
        let repeats = repeats.remove(lane).unwrap_or_default();
        known.account(*lane).saw(look.began, means.balance, on_record, entering, &repeats);
    }
    drop(known);
}

/// The names of those of a lane that were let in and are the same as one that was made before: a batch may
/// repeat much of an earlier one.
async fn repeats_of(
    core: &Core,
    lane: Lane,
    entering: &Entering,
) -> Result<HashSet<Name>, StoreError> {
    let names: BTreeSet<&Name> = entering.values().filter_map(|it| it.name.as_deref()).collect();
    let mut tenants: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (tenant, name) in names {
        tenants.entry(tenant).or_default().push(name.clone());
    }
    let mut repeats = HashSet::new();
    for (tenant, names) in tenants {
        let found = core.store.txs_by_request(tenant, lane, &names).await?;
        let found = names.into_iter().zip(found);
        // What is on record may be one of them.
        let before = found
            .filter(|(_, tx)| tx.as_ref().is_some_and(|tx| !entering.contains_key(&tx.id)))
            .map(|(name, _)| (tenant.to_owned(), name));
        repeats.extend(before);
    }
    Ok(repeats)
}

/// What a new transaction costs at most. Where nobody says what the chain asks for, and its caller does
/// not either, it is what it carries.
fn cost_of_new(core: &Core, track: &Track, new: &NewTx) -> U256 {
    let gas = new.gas_limit.unwrap_or(LEAST_GAS);
    cost_of(new.payload.value, gas, price(core, track, &new.payload))
}

fn cost_of_open(core: &Core, track: &Track, open: &OpenCost) -> U256 {
    match &open.offer {
        Some(offer) => {
            let does_nothing = matches!(offer.kind, AttemptKind::Cancel | AttemptKind::GiveUp);
            let value = if does_nothing { U256::ZERO } else { open.payload.value };
            cost_of(value, offer.gas_limit, offer.fees.most())
        }
        None => {
            let gas = open.gas_limit.unwrap_or(LEAST_GAS);
            cost_of(open.payload.value, gas, price(core, track, &open.payload))
        }
    }
}

/// The most that a first attempt would offer for a unit of gas, as far as that is known.
fn price(core: &Core, track: &Track, payload: &stile_domain::Payload) -> u128 {
    let quotes = track.quotes(bind::fresh_quote());
    let fees = core.first_fees(track.pool.chain(), payload, quotes.as_ref());
    fees.map_or(0, |fees| fees.fees().most())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn id(number: u128) -> TxId {
        TxId(Uuid::from_u128(number))
    }

    fn wei(amount: u64) -> U256 {
        U256::from(amount)
    }

    fn costs(amount: u64) -> Entrant {
        Entrant { cost: wei(amount), name: None }
    }

    fn named(amount: u64, name: &str) -> Entrant {
        Entrant { name: Some(Arc::new((String::new(), name.to_owned()))), ..costs(amount) }
    }

    /// An account that was seen with so much, and so much open.
    fn seen(balance: u64, open: u64, began: Instant) -> Account {
        let mut account = Account::default();
        account.begin(true);
        account.saw(began, wei(balance), wei(open), &Entering::new(), &HashSet::new());
        account.is_held = false;
        account
    }

    fn low(balance: u64, queued: u64, cost: u64) -> Verdict {
        let (balance, queued, cost) = (wei(balance), wei(queued), wei(cost));
        Verdict::Refused(BalanceTooLow { balance, queued, cost })
    }

    const ENTERS: Verdict = Verdict::Enters { is_due: false };

    #[test]
    fn hole_37_the_queue_counts_and_only_a_new_look_refuses() {
        let before = Instant::now();
        let (came, began) = (before + Duration::from_secs(1), before + Duration::from_secs(2));
        let now = began;
        assert_eq!(Account::default().judge(id(0), &costs(1), came, now), Verdict::Look);
        let mut account = seen(100, 40, began);
        assert_eq!(account.judge(id(1), &costs(30), came, now), ENTERS);
        assert_eq!(
            account.judge(id(2), &costs(31), came, now),
            low(100, 70, 31),
            "the first counts"
        );
        assert_eq!(
            account.judge(id(3), &costs(30), came, now),
            ENTERS,
            "what was refused does not"
        );
        assert_eq!(account.judge(id(4), &costs(1), came, now), low(100, 100, 1));
        // By what was seen before it came nobody is refused: the account may have been filled.
        let later = began + Duration::from_secs(1);
        assert_eq!(account.judge(id(5), &costs(1), later, later), Verdict::Look);
    }

    #[test]
    fn hole_37_what_turns_out_to_be_a_repeat_is_not_one_more() {
        let began = Instant::now();
        let mut account = seen(100, 0, began);
        for number in 1..=2 {
            assert_eq!(account.judge(id(number), &costs(50), began, began), ENTERS);
        }
        account.answered(id(1), true);
        assert_eq!(account.judge(id(3), &named(50, "a"), began, began), low(100, 100, 50));
        account.answered(id(2), false);
        account.answered(id(2), false);
        assert_eq!(account.judge(id(3), &named(50, "a"), began, began), ENTERS);
        // What a look has found to be one counts no more, and is not taken off again.
        let entering = account.begin(true);
        let repeats = HashSet::from([(String::new(), "a".to_owned())]);
        account.saw(began, wei(100), wei(50), &entering, &repeats);
        account.is_held = false;
        assert_eq!(account.judge(id(4), &costs(50), began, began), ENTERS);
        account.answered(id(3), false);
        assert_eq!(account.judge(id(5), &costs(50), began, began), low(100, 100, 50));
    }

    /// The account can pay for one of them, and for nothing else.
    #[test]
    fn hole_37_a_repeat_of_what_is_still_being_taken_is_let_in_and_counted_once() {
        let began = Instant::now();
        let [one, another] = [("a", "a"), ("b", "a")].map(|(tenant, name)| Entrant {
            name: Some(Arc::new((tenant.to_owned(), name.to_owned()))),
            ..costs(100)
        });
        // Which of the two is answered first, and as a new one or not; the other one is not new.
        for (first, is_new, second, open) in
            [(1, true, 2, 100), (2, true, 1, 100), (1, false, 2, 0), (2, false, 1, 0)]
        {
            let mut account = seen(100, 0, began);
            assert_eq!(account.judge(id(1), &one, began, began), ENTERS);
            assert_eq!(account.judge(id(2), &one, began, began), ENTERS, "the same");
            assert_eq!(account.judge(id(3), &another, began, began), low(100, 100, 100));
            assert_eq!(account.judge(id(4), &costs(100), began, began), low(100, 100, 100));
            account.answered(id(first), is_new);
            assert_eq!(account.seen.unwrap().open, wei(100), "the other one may be new");
            account.answered(id(second), false);
            assert_eq!(account.seen.unwrap().open, wei(open), "{first} {is_new}");
        }
        // The one that is counted is answered first, and it is the other one that is new.
        let mut account = seen(100, 0, began);
        for number in 1..=2 {
            assert_eq!(account.judge(id(number), &one, began, began), ENTERS);
        }
        account.answered(id(1), false);
        account.answered(id(2), true);
        assert_eq!(account.seen.unwrap().open, wei(100));
        assert!(account.entering.is_empty() && account.names.is_empty());
    }

    #[test]
    fn hole_37_a_look_counts_what_has_one_name_once() {
        let began = Instant::now();
        let before = HashSet::from([(String::new(), "a".to_owned())]);
        for (repeats, on_record, open) in [(HashSet::new(), 0, 60), (before, 60, 60)] {
            let mut account = seen(100, 0, began);
            for number in 1..=3 {
                assert_eq!(account.judge(id(number), &named(60, "a"), began, began), ENTERS);
            }
            let entering = account.begin(true);
            // It waits for no look.
            assert_eq!(account.judge(id(4), &named(60, "a"), began, began), ENTERS);
            assert_eq!(account.judge(id(5), &costs(1), began, began), Verdict::Look);
            account.saw(began, wei(100), wei(on_record), &entering, &repeats);
            account.is_held = false;
            for number in 1..=4 {
                account.answered(id(number), repeats.is_empty() && number == 4);
            }
            assert_eq!(account.seen.unwrap().open, wei(open), "{repeats:?}");
        }
    }

    #[test]
    fn hole_37_what_is_on_its_way_is_counted_once() {
        let began = Instant::now();
        let mut account = seen(100, 0, began);
        assert_eq!(account.judge(id(1), &costs(60), began, began), ENTERS);
        // A look that finds it on record leaves it out, and counts it by itself.
        let entering = account.begin(true);
        assert_eq!(entering, Entering::from([(id(1), costs(60))]));
        assert_eq!(account.judge(id(2), &costs(1), began, began), Verdict::Look, "it is looked at");
        account.answered(id(1), true);
        account.saw(began, wei(100), U256::ZERO, &entering, &HashSet::new());
        account.is_held = false;
        assert_eq!(account.judge(id(2), &costs(41), began, began), low(100, 60, 41));
        // Beside the work requests go on, and what was let in meanwhile may be counted twice.
        account.begin(false);
        assert_eq!(account.judge(id(3), &costs(40), began, began), ENTERS);
        account.saw(began, wei(100), wei(100), &Entering::new(), &HashSet::new());
        assert_eq!(account.judge(id(4), &costs(1), began, began), Verdict::Look, "not by that");
    }

    #[test]
    fn what_was_seen_long_ago_is_looked_at_anew() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        for (balance, seconds, expected) in [
            (100, 9, ENTERS),
            (100, 10, Verdict::Enters { is_due: true }),
            (100, 59, Verdict::Enters { is_due: true }),
            (100, 60, Verdict::Look),
            (1_000, 59, ENTERS),
            (1_000, 60, Verdict::Enters { is_due: true }),
            (1_000, 599, Verdict::Enters { is_due: true }),
            (1_000, 600, Verdict::Look),
        ] {
            let now = after(seconds);
            let verdict = seen(balance, 50, began).judge(id(1), &costs(50), now, now);
            assert_eq!(verdict, expected, "{balance} after {seconds} s");
        }
    }

    #[test]
    fn what_nobody_found_out_holds_up_nobody() {
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        let mut account = Account { in_vain: Some(began), ..seen(100, 100, began) };
        for (seconds, expected) in
            [(1, Verdict::Unknown), (9, Verdict::Unknown), (10, Verdict::Look)]
        {
            let now = after(seconds);
            assert_eq!(account.judge(id(1), &costs(1), now, now), expected, "after {seconds} s");
        }
        // What is enough by what was seen is let in all the same.
        account.saw(began, wei(100), wei(10), &Entering::new(), &HashSet::new());
        account.in_vain = Some(began);
        assert_eq!(account.judge(id(2), &costs(1), after(1), after(1)), ENTERS);
    }
}
