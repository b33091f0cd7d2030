//! A lane's first cursor, and its first in another history of the database.
//!
//! A copy of the database that was put back cannot always be told from the database: then the chain
//! has more of the account than the cursor says. So before a process plans the first nonce of a lane,
//! its cursor is held against the chain. If the chain is ahead, the lane is treated like one of a
//! restored database. Where others use the key by declaration that is nothing unusual: then what the
//! chain shows is enough, and no person is asked (see `restored`). If the chain does not say, a lane that
//! Stile signs for waits; one that has bare nonces only goes on from its cursor, and is compared later.
//!
//! Finding it out may take a slow question to the chain; see `park` for the calls that wait.

use std::sync::Arc;
use std::time::Duration;

use stile_chain::{BlockTag, ChainError, Pools as Told};
use stile_domain::{Counted, Failover, Lane, Nonce, first_cursor};
use stile_store::{Beginning, LaneView, Refusal, StoreError};
use tracing::{info, warn};

use crate::core::Core;
use crate::error::NonceError;
use crate::lanes::Slot;
use crate::metrics;
use crate::pools::{self, Pools};
use crate::realign;
use crate::settings::ChainQuery;
use crate::tx::settings::OutsideUse;

/// How long the first nonce of a lane waits for the chain's count: longer than it takes to find out
/// which endpoints hang, and to ask the others.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// How soon the chain is asked again that did not say.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

/// How long each endpoint may take to say what it has in its pool.
const POOL_WITHIN: Duration = Duration::from_secs(10);

/// Sets the cursor of a lane that has none yet, or none in this history of the database.
pub(crate) async fn start(core: &Arc<Core>, slot: &Arc<Slot>) -> Result<(), NonceError> {
    if let Some(why) = slot.uncompared_within(ASKED_AGAIN) {
        return go_on_or_wait(core, slot.lane(), why);
    }
    let claim = slot.claim();
    // Before the row is read: a token that somebody raises meanwhile is none that the database has lost.
    let seen_token = slot.seen_token();
    let mut view = read(core, slot.lane()).await?;
    let mut asked = None;
    let mut stopped = view.as_ref().is_some_and(is_stopped);
    let has_cursor = view.as_ref().is_some_and(|view| view.next_nonce.is_some());
    let is_aligned = view.as_ref().is_none_or(|view| view.aligned);
    let is_asked = match is_aligned {
        true => is_to_be_compared(core, slot),
        // It is held against the chain anyway. Only pools can show what is not mined yet.
        false => believes_failovers(core) && is_comparable(core, slot.lane()),
    };
    if has_cursor && !stopped && is_asked {
        let cursor = view.as_ref().and_then(|view| view.next_nonce).unwrap_or_default();
        let count = ask_count(core, slot.lane()).await;
        asked = Some((count, ask_pools(core, slot.lane(), cursor).await));
        // Cursors only grow, so a count above one that is read after it is no accident of timing.
        view = read(core, slot.lane()).await?;
        stopped = view.as_ref().is_some_and(is_stopped);
    }
    match view {
        Some(mut view) if view.next_nonce.is_some() => {
            let compared = match asked {
                Some((count, pools)) => {
                    compare(core, slot, (&mut view, seen_token), count, &pools).await?
                }
                None => Compared::InStep,
            };
            if let Compared::Unknown(why) = compared {
                if slot.note_uncompared(why.clone(), !signs(core, slot.lane())) {
                    warn!(signer = %slot.lane().signer, chain = %slot.lane().chain, why,
                          "it is not known whether the chain is ahead of this lane's cursor: asked again");
                }
                return go_on_or_wait(core, slot.lane(), why);
            }
            let pooled = matches!(compared, Compared::Pooled);
            realign::realign(core, slot, &view, pooled).await?;
        }
        _ => begin(core, slot).await?,
    }
    // Only what was held against the chain under the claim that it has still, and was not stopped then.
    if claim.is_some() && slot.claim() == claim && !stopped {
        slot.set_compared(true);
    }
    Ok(())
}

/// Whether the operator says that failovers lose nothing.
fn believes_failovers(core: &Core) -> bool {
    core.settings.failover == Failover::Synchronous
}

/// Whether a lane gives out nothing as it is: then it is compared once it does.
fn is_stopped(view: &LaneView) -> bool {
    view.paused.is_some() || view.elsewhere.is_some()
}

/// Nobody knows whether the chain is ahead of a lane's cursor. What Stile signs may have been sent
/// before, so nothing of the lane gets a nonce. Where it signs nothing, a nonce that was used before
/// is refused by the chain's nodes, and pays nobody twice.
fn go_on_or_wait(core: &Core, lane: Lane, why: String) -> Result<(), NonceError> {
    if signs(core, lane) { Err(NonceError::Uncompared { lane, why }) } else { Ok(()) }
}

/// Whether this process has the lane's key.
fn signs(core: &Core, lane: Lane) -> bool {
    core.signers.signs(lane)
}

async fn read(core: &Core, lane: Lane) -> Result<Option<LaneView>, StoreError> {
    let view = core.store.lanes(&[lane]).await;
    Ok(view.inspect_err(|_| metrics::store_failed("start"))?.pop().flatten())
}

/// Whether a lane's cursor is to be held against the chain before anything is planned from it. Not
/// where no transactions are sent.
pub(crate) fn is_to_be_compared(core: &Core, slot: &Slot) -> bool {
    !slot.is_compared() && is_comparable(core, slot.lane())
}

/// Whether there is a chain to hold a lane against.
fn is_comparable(core: &Core, lane: Lane) -> bool {
    core.settings.chain_query != ChainQuery::Disabled && core.tracks.get(lane.chain).is_some()
}

/// The account's count, or why the chain does not say it.
async fn ask_count(core: &Core, lane: Lane) -> Result<Counted, String> {
    match tokio::time::timeout(ANSWER_WITHIN, core.ask_counted(lane)).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer in {ANSWER_WITHIN:?}")),
    }
}

/// How a cursor stands to the chain.
enum Compared {
    InStep,
    /// The chain is ahead: the lane is to be realigned.
    Ahead,
    /// The lane is to be realigned anyway, and somebody has more of it in a pool.
    Pooled,
    /// Nobody knows, and why not.
    Unknown(String),
}

/// Holds the cursor against the chain. If the chain is ahead by the word of a quorum, the lane is to
/// be realigned.
async fn compare(
    core: &Arc<Core>,
    slot: &Arc<Slot>,
    (view, seen_token): (&mut LaneView, u64),
    count: Result<Counted, String>,
    pools: &Told,
) -> Result<Compared, NonceError> {
    let (lane, cursor) = (slot.lane(), view.next_nonce.unwrap_or_default());
    let Some(claim) = slot.claim() else { return Ok(Compared::InStep) };
    let known = view.restored.is_some_and(|mark| mark.is_open());
    if !view.aligned && !is_stopped(view) {
        if !believes_failovers(core) {
            return Ok(Compared::InStep);
        }
        return Ok(match judge_pools(core, slot, cursor, pools) {
            Pools::Ahead(_) => Compared::Pooled,
            Pools::InStep => Compared::InStep,
            Pools::Claimed(why) => Compared::Unknown(why),
        });
    }
    let went_back = view.owner.token.get() < seen_token;
    if is_stopped(view) || (known && !went_back) {
        return Ok(Compared::InStep);
    }
    let has = match count {
        _ if went_back => format!(
            "this node has seen the signer under fencing token {seen_token}, and the database has {}",
            view.owner.token.get()
        ),
        Ok(count) if count.at_most <= cursor => match judge_pools(core, slot, cursor, pools) {
            Pools::Ahead(has) => has,
            Pools::InStep => return Ok(Compared::InStep),
            Pools::Claimed(why) => return Ok(Compared::Unknown(why)),
        },
        Ok(count) if count.at_least > cursor => {
            format!("the chain has {} transactions of this account", count.at_least)
        }
        Ok(Counted { at_least, at_most }) => {
            return Ok(Compared::Unknown(format!(
                "the endpoints say that the account has from {at_least} to {at_most} transactions, and nonces \
                 below {cursor} were given out"
            )));
        }
        Err(why) => return Ok(Compared::Unknown(why)),
    };
    let reason = format!(
        "{has}, but only nonces below {cursor} were given out: an older copy of the database was put back, or \
         somebody else signs with this key"
    );
    let settles_itself = core.settings.tx.outside_use == OutsideUse::Follow && !went_back;
    match realign::fall_behind(core, slot, &claim, reason.clone(), settles_itself).await {
        Ok(Ok(_)) => {}
        Ok(Err(Refusal::Fenced(owner))) if core.is_ours(&owner) => {
            let why = "the lane was paused or resumed meanwhile".to_owned();
            return Err(NonceError::Unaligned { lane, why });
        }
        Ok(Err(Refusal::Fenced(owner))) => {
            core.lost(slot, claim, &owner, "start");
            return Err(NonceError::Fenced { lane, owner: Box::new(owner) });
        }
        Ok(Err(Refusal::CursorMoved)) => {
            let why = "the database has just failed over or was restored".to_owned();
            return Err(NonceError::Unaligned { lane, why });
        }
        Ok(Err(refusal)) => return Err(NonceError::Internal(refusal.to_string())),
        Err(error) => {
            metrics::store_failed("start");
            return Err(error.into());
        }
    }
    view.aligned = false;
    warn!(signer = %lane.signer, chain = %lane.chain, cursor, reason, "the chain is ahead of the database");
    Ok(Compared::Ahead)
}

/// What each endpoint has of an account with its pool. Where others use the key by declaration it may be
/// theirs: then the lane settles itself once that is mined or gone.
async fn ask_pools(core: &Core, lane: Lane, cursor: Nonce) -> Told {
    let Some(track) = core.tracks.get(lane.chain) else { return Told::default() };
    let asked = track.pool.pools(lane.signer, cursor, POOL_WITHIN);
    let told = tokio::time::timeout(ANSWER_WITHIN, asked).await.ok().and_then(Result::ok);
    told.unwrap_or_else(|| Told { silent: vec!["no endpoint".to_owned()], ..Told::default() })
}

/// What pools say about the cursor. They were asked before it was read. What few of them claim and do
/// not show is waited for, and not for ever: one endpoint alone stops nobody.
fn judge_pools(core: &Core, slot: &Slot, cursor: Nonce, pools: &Told) -> Pools {
    let lane = slot.lane();
    let Some(track) = core.tracks.get(lane.chain) else { return Pools::InStep };
    match pools::judge(pools, cursor, track.pool.quorum().required()) {
        Pools::Claimed(why) if slot.doubted_for() >= pools::DOUBTED_FOR => {
            warn!(signer = %lane.signer, chain = %lane.chain, why,
                  "the lane goes on: nothing came of it, and nobody has shown it");
            Pools::InStep
        }
        judged => judged,
    }
}

/// How far the account's nonces are used, by the chain and as configured; `None` if it is not to be
/// asked.
pub(crate) async fn used_below(core: &Core, lane: Lane) -> Result<Option<Nonce>, ChainError> {
    let ChainQuery::Enabled(tag) = core.settings.chain_query else { return Ok(None) };
    let latest = core.ask_chain(lane, BlockTag::Latest).await?;
    let pending = match tag {
        BlockTag::Latest => None,
        tag => Some(core.ask_chain(lane, tag).await?),
    };
    let below = first_cursor(latest, pending);
    if pending.is_some_and(|pending| pending != below) {
        warn!(signer = %lane.signer, chain = %lane.chain, latest, pending, below,
              "the endpoint's count of pending transactions cannot be right: only its count of mined ones counts");
    }
    Ok(Some(below))
}

async fn begin(core: &Core, slot: &Slot) -> Result<(), NonceError> {
    let lane = slot.lane();
    let used = used_below(core, lane).await.map_err(|error| {
        let why = error.to_string();
        if slot.note_not_begun(why.clone()) {
            warn!(signer = %lane.signer, chain = %lane.chain, why,
                  "it is not known where this lane begins: asked again");
        }
        NonceError::ChainUnavailable { lane, why }
    })?;
    // In a database that was emptied under this node the lane is new, but not its nonces.
    let at = used.unwrap_or(0).max(slot.given_out());
    let Some(claim) = slot.claim() else { return Ok(()) };
    let beginning = Beginning {
        at,
        used: used.unwrap_or(at),
        // Tokens only rise, and nobody gives out nonces of a lane that has no cursor: its row is lost.
        known_before: slot.given_out() > 0 || slot.seen_token() > claim.token().get(),
        failover: core.settings.failover,
    };
    let start = || core.store.start_cursor(&core.holder.node, &claim, beginning, core.lease());
    let mut started = start().await;
    if matches!(started, Err(StoreError::CommitUnknown(_))) {
        // A cursor that is set already stays as it is, so asking again is how to learn it.
        started = start().await;
    }
    match started.inspect_err(|_| metrics::store_failed("start"))? {
        Ok(cursor) => {
            info!(signer = %lane.signer, chain = %lane.chain, node = %core.holder.node,
                  token = claim.token().get(), cursor, "lane starts");
            if let (Some(latest), ChainQuery::Enabled(BlockTag::Latest)) =
                (used, core.settings.chain_query)
            {
                // For people who look at the lane; nothing depends on it.
                let _ = core.store.settle(&[(claim, latest)], core.lease()).await;
            }
            Ok(())
        }
        // Paused or resumed since: the calls find out which.
        Err(Refusal::Fenced(owner)) if core.is_ours(&owner) => Ok(()),
        Err(Refusal::Fenced(owner)) => {
            core.lost(slot, claim, &owner, "start");
            Err(NonceError::Fenced { lane, owner: Box::new(owner) })
        }
        Err(refusal) => Err(NonceError::Internal(refusal.to_string())),
    }
}
