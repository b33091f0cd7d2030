//! Accounts that cannot pay.
//!
//! A lane whose account cannot pay for its next transaction is stopped: nothing of it is sent, and
//! no more nonces are bound. Its balance is looked at every few seconds, and when it has grown
//! enough everything goes on by itself.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use stile_domain::{Lane, LaneEventKind, TxId, U256};
use stile_store::NewLaneEvent;
use tracing::{debug, info, warn};

use crate::core::Core;
use crate::metrics;
use crate::tx::bind;
use crate::tx::cause::Cause;
use crate::tx::replace;
use crate::tx::too_dear::too_dear;
use crate::tx::track::Track;

/// How often the balances of stopped lanes are looked at.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// After so long the lowest transaction of a stopped lane is tried again whatever the balance: what
/// a chain node wants may have changed.
const TRY_AGAIN: Duration = Duration::from_secs(30);

/// How old the word about fees may be by which stopped lanes are looked at: what they are stopped by may
/// be an endpoint's that has gone mad for a moment.
const QUOTE_AGE: Duration = Duration::from_secs(10);

/// A lane that is stopped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stopped {
    needed: U256,
    since: Instant,
    /// The balance when it was first looked at after that.
    had: Option<U256>,
    attempt: Try,
}

/// Whether it is found out if a stopped lane can go on all the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Try {
    None,
    /// Its lowest transaction is on its way.
    UnderWay,
    /// And was taken.
    Taken,
}

/// What a look at a stopped lane says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Wait,
    Try,
    GoOn,
}

/// The stopped lanes of a chain.
#[derive(Debug, Default)]
pub(crate) struct Funds {
    stopped: HashMap<Lane, Stopped>,
}

impl Funds {
    pub(crate) fn lanes(&self) -> HashSet<Lane> {
        self.stopped.keys().copied().collect()
    }

    pub(crate) fn is_stopped(&self, lane: Lane) -> bool {
        self.stopped.contains_key(&lane)
    }

    /// Those of which nothing is sent: all but the ones that are being tried.
    pub(crate) fn silent(&self) -> HashSet<Lane> {
        let silent = self.stopped.iter().filter(|(_, stopped)| stopped.attempt != Try::UnderWay);
        silent.map(|(lane, _)| *lane).collect()
    }

    /// A lane cannot pay so much for one of its transactions, which `is_lowest` or not. What its lowest
    /// one needs is what is waited for: it may have been raised since less was tried.
    pub(crate) fn stop(&mut self, lane: Lane, needed: U256, is_lowest: bool) {
        let stopped = Stopped { needed, since: Instant::now(), had: None, attempt: Try::None };
        let known = self.stopped.entry(lane).or_insert(stopped);
        known.attempt = Try::None;
        if is_lowest {
            known.needed = needed;
        }
    }

    /// The lane's lowest transaction has a new attempt. One that costs less than what could not be paid
    /// is tried at once.
    pub(crate) fn offered(&mut self, lane: Lane, cost: U256) {
        if let Some(stopped) = self.stopped.get_mut(&lane)
            && cost < stopped.needed
        {
            stopped.needed = cost;
            stopped.since = Instant::now();
            stopped.attempt = Try::UnderWay;
        }
    }

    /// A chain node has taken something of this lane.
    pub(crate) fn taken(&mut self, lane: Lane) {
        if let Some(stopped) = self.stopped.get_mut(&lane)
            && stopped.attempt == Try::UnderWay
        {
            stopped.attempt = Try::Taken;
        }
    }

    /// What is to be done about a lane with this balance.
    fn judge(&mut self, lane: Lane, balance: U256) -> Verdict {
        let Some(stopped) = self.stopped.get_mut(&lane) else { return Verdict::Wait };
        let first = stopped.had.is_none();
        let had = *stopped.had.get_or_insert(balance);
        let enough = balance >= stopped.needed;
        let grown = balance > had && enough;
        if grown || stopped.attempt == Try::Taken {
            self.stopped.remove(&lane);
            return Verdict::GoOn;
        }
        // Money that came before the first look is not seen to come.
        let came_before = first && enough;
        if !came_before && stopped.since.elapsed() < TRY_AGAIN {
            return Verdict::Wait;
        }
        stopped.since = Instant::now();
        stopped.attempt = Try::UnderWay;
        Verdict::Try
    }

    fn needs(&self, lane: Lane) -> Option<U256> {
        self.stopped.get(&lane).map(|stopped| stopped.needed)
    }
}

/// Looks at the stopped lanes of a chain, and lets those go on that can pay.
pub(crate) async fn look(core: &Arc<Core>, track: &Arc<Track>, told: &mut HashSet<Lane>) {
    let stopped: Vec<Lane> = track.unfunded().into_iter().collect();
    told.retain(|lane| stopped.contains(lane));
    if stopped.is_empty() {
        return;
    }
    let accounts: Vec<_> = stopped.iter().map(|lane| lane.signer).collect();
    let balances = match track.pool.balances(&accounts).await {
        Ok(balances) => balances,
        Err(error) => return debug!(%error, "balances could not be asked for"),
    };
    if track
        .quote(Instant::now().checked_sub(QUOTE_AGE).unwrap_or_else(bind::fresh_quote))
        .is_none()
        && let Err(error) = track.ask_quotes().await
    {
        debug!(%error, "no fee quote");
    }
    for (lane, balance) in stopped.into_iter().zip(balances) {
        let needed = track.funds().needs(lane).unwrap_or_default();
        metrics::balance(lane, balance);
        let verdict = track.funds().judge(lane, balance);
        let data = json!({ "balance": balance.to_string(), "needed": needed.to_string() });
        if verdict == Verdict::GoOn {
            info!(signer = %lane.signer, chain = %lane.chain, %balance, %needed, "the account can pay again: its transactions are sent");
            if told.remove(&lane) {
                tell(core, lane, LaneEventKind::Funded, data).await;
            }
            let all: Vec<TxId> = track.book().unmined_of(lane).map(|open| open.id).collect();
            core.submit(track, all);
            crate::tx::wake(core, &core.lanes.slot(lane));
            continue;
        }
        if told.insert(lane) {
            warn!(signer = %lane.signer, chain = %lane.chain, %balance, %needed,
                  "the account cannot pay for its next transaction: nothing is sent until it can");
            tell(core, lane, LaneEventKind::Unfunded, data).await;
        }
        // Their fees were chosen when the chain asked for more, or an endpoint said so.
        for id in too_dear(core, track, lane, balance) {
            replace::replace(core, track, id, Cause::TooDear);
        }
        if verdict == Verdict::Try {
            let lowest = track.book().unmined_of(lane).next().map(|open| open.id);
            match lowest {
                Some(id) => core.submit(track, [id]),
                // Nothing is left of what could not be paid for.
                None => track.funds().taken(lane),
            }
        }
    }
}

async fn tell(core: &Core, lane: Lane, kind: LaneEventKind, data: serde_json::Value) {
    let event = NewLaneEvent { kind, data };
    if let Err(error) = core.store.tell_lane(&core.holder.node, lane, &event).await {
        metrics::store_failed("tell_lane");
        warn!(%error, signer = %lane.signer, "the lane's history could not be written");
    }
}

#[cfg(test)]
mod tests {
    use stile_domain::{Address, ChainId};

    use super::*;

    #[test]
    fn hole_42_an_attempt_that_costs_less_is_tried_at_once() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        let mut funds = Funds::default();
        funds.offered(lane, U256::from(1));
        assert!(funds.lanes().is_empty(), "it is not stopped");
        funds.stop(lane, U256::from(100), true);
        funds.offered(lane, U256::from(100));
        assert!(funds.silent().contains(&lane), "it costs the same");
        funds.offered(lane, U256::from(99));
        assert!(!funds.silent().contains(&lane) && funds.lanes().contains(&lane), "only sent");
        assert_eq!(funds.needs(lane), Some(U256::from(99)));
        funds.stop(lane, U256::from(99), true);
        assert!(funds.silent().contains(&lane), "in vain");
        funds.stop(lane, U256::from(500), false);
        assert_eq!(funds.needs(lane), Some(U256::from(99)), "it is behind the lowest");
        funds.stop(lane, U256::from(120), true);
        assert_eq!(funds.needs(lane), Some(U256::from(120)), "what was tried was too low");
        funds.offered(lane, U256::from(5));
        funds.taken(lane);
        assert_eq!(funds.judge(lane, U256::from(7)), Verdict::GoOn);
    }

    #[test]
    fn a_lane_goes_on_when_its_balance_has_grown_enough() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        let mut funds = Funds::default();
        funds.stop(lane, U256::from(100), true);
        assert_eq!(funds.judge(lane, U256::from(7)), Verdict::Wait, "not enough");
        assert_eq!(funds.judge(lane, U256::from(99)), Verdict::Wait, "not enough still");
        assert_eq!(funds.judge(lane, U256::from(100)), Verdict::GoOn);
        assert!(funds.lanes().is_empty());
        // What a node refused although it should have been enough is not tried in circles.
        funds.stop(lane, U256::from(100), true);
        assert_eq!(funds.judge(lane, U256::from(500)), Verdict::Try, "it may have come just now");
        funds.stop(lane, U256::from(100), true);
        assert_eq!(funds.judge(lane, U256::from(500)), Verdict::Wait);
    }

    #[test]
    fn a_lane_is_tried_after_a_while_and_goes_on_if_that_is_taken() {
        let lane = Lane::new(ChainId::new(1).unwrap(), Address::ZERO);
        let mut funds = Funds::default();
        let few = U256::from(7);
        funds.stop(lane, U256::from(100), true);
        funds.taken(lane);
        assert_eq!(funds.judge(lane, few), Verdict::Wait, "that was sent before");
        let long_ago = |funds: &mut Funds| {
            let stopped = funds.stopped.get_mut(&lane).unwrap();
            stopped.since = stopped.since.checked_sub(TRY_AGAIN).unwrap();
        };
        long_ago(&mut funds);
        assert_eq!(funds.judge(lane, few), Verdict::Try);
        assert!(funds.silent().is_empty() && funds.lanes().contains(&lane), "only sent, not bound");
        funds.stop(lane, U256::from(100), true);
        assert_eq!(funds.judge(lane, few), Verdict::Wait, "in vain");
        assert!(funds.silent().contains(&lane));
        long_ago(&mut funds);
        assert_eq!(funds.judge(lane, few), Verdict::Try);
        funds.taken(lane);
        assert_eq!(funds.judge(lane, few), Verdict::GoOn);
    }
}
