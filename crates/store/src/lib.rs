//! The only SQL in Stile.
//!
//! [`Store`] is what the engine sees: batches in, an answer for each item out, one database
//! transaction per call. Two implementations stand behind it, [`postgres`] for clusters and
//! [`sqlite`] for one machine with nothing installed, and one conformance suite
//! (`tests/conformance`) runs every behaviour on both.
//!
//! # The fence
//!
//! Every write of a lane's holder begins by updating the lane's row `WHERE owner_incarnation =
//! mine AND fencing_token = mine`. Zero rows: somebody else holds the lane now, and nothing is
//! written. One row: its lock keeps any takeover out until the commit. In each implementation that
//! statement lives in `fence.rs` and is the only one that yields a `Fenced` value, whose methods
//! are the only functions that write what belongs to a lane; a write that does not hold the lane's
//! row does not compile. From outside this crate the same holds by way of [`Claim`], which only an
//! acquisition yields:
//!
//! ```
//! use stile_store::Claim;
//! fn fenced_write(claim: Claim) -> stile_domain::Lane { claim.lane() }
//! ```
//!
//! ```compile_fail,E0451
//! use stile_store::{Claim, FencingToken};
//! fn forged(real: Claim) -> Claim { Claim { token: FencingToken(99), ..real } }
//! ```
//!
//! # Transactions
//!
//! [`TxStore`] is the part about managed transactions. Whoever accepts one needs no lease; whoever
//! binds a nonce to it, or records what happened to it, is fenced. A transaction's row counts the
//! entries of its history, every change is a compare-and-set on that count, and the entry is
//! written in the same commit: so the numbers in a history have no gaps. All histories together are
//! one stream, whose order ([`StreamPosition`]) is such that a reader who goes on from the last
//! entry it saw misses nothing, although commits finish out of order.
//!
//! # Nodes
//!
//! [`NodeStore`] is the part about who shares the database, and what nodes tell each other. It
//! makes things fast and decides nothing.
//!
//! # Lanes on the move
//!
//! [`RolloutStore`] says which lanes are Stile's, while they are moved to it one by one, and takes
//! over nonces that were given out before. [`v1`] reads and fences the tables they come from.
//!
//! # Restored databases
//!
//! [`RestoreStore`] is the part about lanes whose database may have lost commits: what the chain has
//! that the database does not, and what waits until it is known whether it was sent.
//!
//! # API keys
//!
//! [`KeyStore`] is the part about who may call. Of a token only its SHA-256 is here, so whoever
//! reads the database can let nobody in.
//!
//! # What is deliberately absent
//!
//! No client clock: every time that is compared or stored comes from the database. No network
//! call and no signature inside a transaction. No session state, so that a pooler between Stile
//! and PostgreSQL does no harm.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

mod error;
mod histories;
mod in_flight;
mod key_store;
mod lane_entries;
mod mark_rules;
mod node_store;
mod open;
mod open_costs;
#[cfg(feature = "planted-bugs")]
pub mod planted;
pub mod postgres;
pub mod raw;
mod restore_store;
mod rollout_store;
pub mod sqlite;
mod store;
mod tx_columns;
mod tx_store;
mod tx_types;
mod types;
pub mod v1;

pub use error::StoreError;
pub use in_flight::{InFlightFrom, InFlightPage, PageLimit, SIZE_PER_RAW_BYTE};
pub use key_store::{ActiveKey, Key, KeyRef, KeyStore, NewKey, Rotated, Rotation};
pub use lane_entries::SETTLES_ITSELF;
pub use node_store::{Heard, LaneNews, LiveNode, NodeRecord, NodeStore};
pub use open::{OpenOptions, open, patience};
pub use open_costs::{Offer, OpenCost};
pub use restore_store::{LostTx, Recovery, RestoreMark, RestoreStore};
pub use rollout_store::{ImportEnd, ImportPart, Imported, OwnerChange, RolloutStore};
pub use store::Store;
pub use tx_store::TxStore;
pub use tx_types::{
    Acceptance, Attempt, BindTx, Bindable, HeaderUpdate, HistoryChange, HistoryId, LaneChanges,
    LedgerOwner, NewAttempt, NewEvent, NewTx, NonceOwner, OpenAttempt, OpenTx, Recorded, Sending,
    Set, StreamEvent, StreamHistory, StreamPosition, Tx, TxBinding, TxChange, TxEvent, TxFilter,
    TxPage, Wish, WishEnd, Withdrawal,
};
pub use types::{
    Acquisition, Advance, AllocationKey, Beginning, Binding, Claim, ExpiredLane, FencingToken,
    HeldLane, HoldFilter, HoldPage, LANES_A_RENEWAL, LaneEvent, LaneSurvey, LaneView, Mark,
    MarkOutcome, MarkVerdict, NewHold, NewLaneEvent, Owner, Realign, Realigned, Refusal, Renewal,
    Resumed, SchemaReport, Takeover,
};
