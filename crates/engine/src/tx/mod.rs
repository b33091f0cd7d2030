//! Managed transactions: handed over once, landed once.
//!
//! ```text
//!  send ──→ admit ── lane ours, nothing older waits, key local ──→ plan, sign, commit ─┐
//!             │                                                                        │
//!             └── else: accepted as CREATED ──→ bind, in order of acceptance ──────────┤
//!                                                                                      ▼
//!   record ←── what happened, one commit for many ──┬─ submit   stored bytes to every endpoint
//!                                                   ├─ follow   each new block against the book; reorgs; finality
//!                                                   ├─ receipts what blocks did not show, asked for by itself
//!                                                   └─ resubmit timers
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | [`component`] | `Transactions`: the API |
//! | [`error`] | what a caller is told when it does not work |
//! | [`settings`] | what the node is told once, at start |
//! | `admit` | acceptance, on the lane's worker |
//! | `bind` | nonces for transactions that waited |
//! | `estimates` | transactions whose gas cannot be estimated for now |
//! | `sign` | from a payload to signed bytes |
//! | `book` | what is open, in memory |
//! | `track` | what a node keeps of one chain |
//! | `record` | writing down what happened |
//! | `submit` | sending stored bytes |
//! | `delivery` | what each endpoint makes of a transaction, and what that comes to |
//! | `abandon` | what there is to know before a transaction is given up |
//! | `learn` | finding out what endpoints can do |
//! | `follow` | new blocks, reorganisations, finality |
//! | `receipts` | asking for receipts one by one, where blocks stayed silent |
//! | `resubmit` | timers |
//! | `pace` | how a chain's blocks come |
//! | `quotes` | what the chain asks for, as its endpoints last said |
//! | `fees` | what attempts offer |
//! | `limits` | requests that ask for more than is allowed, or for less gas than they need |
//! | `balance` | whether an account can pay for what it is asked to send, before that is accepted |
//! | `bump` | which offer more by the clock |
//! | `cause` | why a transaction gets a new attempt |
//! | `replace` | new attempts: higher offers, and empty ones that withdraw or give up |
//! | `waits` | what a transaction waits for, in words |
//! | `wishes` | what callers want of transactions that are on their way |
//! | `overtake` | other transactions at the nonces of ours |
//! | `lost_attempt` | attempts of ours that the database has lost and the chain has |
//! | `outside` | nonces that somebody else has used |
//! | `tags` | finality that a chain cannot give |
//! | `funds` | accounts that cannot pay |
//! | `too_dear` | what such accounts offer once the chain asks for less |
//! | `adopt` | taking up what a lane's last holder left |
//! | `confirmations` | the blocks on top of a transaction |
//!
//! The book is only a memory: it is filled from the store when a lane comes, dropped when it goes,
//! and read again from the store whenever a write did not find what the book said.

mod abandon;
mod admit;
mod adopt;
pub(crate) mod balance;
pub(crate) mod bind;
mod book;
mod bump;
pub(crate) mod cause;
pub mod component;
pub mod confirmations;
mod delivery;
pub mod error;
pub(crate) mod estimates;
mod fees;
mod follow;
mod funds;
mod learn;
mod limits;
mod lost_attempt;
pub(crate) mod memorise;
pub(crate) mod outside;
mod overtake;
pub(crate) mod pace;
pub(crate) mod quotes;
mod receipts;
mod record;
pub(crate) mod replace;
mod resubmit;
pub mod settings;
pub(crate) mod sign;
mod submit;
mod tags;
mod too_dear;
pub(crate) mod track;
pub(crate) mod waits;
pub mod wishes;

use std::sync::Arc;

use stile_domain::{Lane, Nonce};
use stile_store::StoreError;

pub(crate) use admit::{SendCall, admit};
pub(crate) use adopt::{adopt, again, give_up};
pub(crate) use bind::wake;
pub(crate) use record::Recorder;
pub(crate) use track::Tracks;
pub use wishes::ReplaceError;
pub(crate) use wishes::speed_up;

use crate::core::Core;
use crate::metrics;
use crate::task;

/// Somebody else has used a lane's nonces up to this one: the lane is paused, or follows.
pub(crate) async fn outside_use(
    core: &Arc<Core>,
    lane: Lane,
    nonce: Nonce,
) -> Result<(), StoreError> {
    outside::used(core, lane, nonce, None, None).await
}

/// Starts everything that moves transactions.
pub(crate) fn start(core: &Arc<Core>, recorder: record::Inbox) {
    core.tasks.spawn(task::RECORD, record::run(Arc::clone(core), recorder));
    if core.tracks.is_empty() {
        core.producers.close();
        return;
    }
    core.producers.spawn(task::BIND_POLL, bind::poll(Arc::clone(core)));
    for track in core.tracks.iter() {
        for endpoint in track.pool.endpoints() {
            metrics::endpoint(track.pool.chain(), &endpoint.shown);
        }
        core.producers.spawn(task::SUBMIT, submit::run(Arc::clone(core), Arc::clone(track)));
        core.producers.spawn(task::FOLLOW, follow::run(Arc::clone(core), Arc::clone(track)));
        core.producers.spawn(task::RECEIPTS, receipts::run(Arc::clone(core), Arc::clone(track)));
        core.producers.spawn(task::ESTIMATES, estimates::run(Arc::clone(core), Arc::clone(track)));
        core.producers.spawn(task::RESUBMIT, resubmit::run(Arc::clone(core), Arc::clone(track)));
        core.producers.spawn(task::LEARN, learn::run(Arc::clone(core), Arc::clone(track)));
    }
}
