//! Managed transactions, end to end: real `stile serve` processes, real chains, both stores.
//!
//! | file | what is checked |
//! |---|---|
//! | `transfers` | a thousand at once, from one signer and from ten; contracts; calls that revert |
//! | `cancel` | transactions withdrawn, with and without a nonce: who won |
//! | `kills` | a node killed twenty times under load: what was answered is mined, once |
//! | `lost_attempts` | attempts made after a backup was taken, of payments that are in it |
//! | `lost_commits` | commits whose answer never comes |
//! | `covered` | PostgreSQL fails over, and a node remembers what was lost |
//! | `failover` | PostgreSQL fails over to a standby, with and without the last commits |
//! | `histories` | readers of the stream, when the database has another history |
//! | `wire_log` | whatever is on the wire was on record before |
//! | `reorgs` | blocks replaced and taken away, and endpoints on different forks |
//! | `outages` | a chain that is away, that takes and does not answer, that wants money |
//! | `constant_calls` | what a block costs in chain calls, whatever is in flight |
//! | `idle` | a node with nothing to do leaves the store alone |
//! | `same_request` | one request id, many callers |
//! | `remote_signer` | a signer that is slow, and one that is away |
//! | `order` | nonces in the order of acceptance |
//! | `mixed` | bare nonces and transactions on one lane |
//! | `panics` | tasks that panic: the node leaves, and nothing is lost |
//! | `takeover` | a holder killed with work in flight |
//! | `retention` | what is over is removed, as a whole |
//! | `pooler` | PgBouncer between the nodes and PostgreSQL |
//! | `restore` | the database lost, or an older one in its place |
//! | `copies` | copies of the database that nothing but the chain tells from it |
//! | `restored` | payments that waited in a backup, and were made since |
//! | `swapped` | the same, with a backup that is put back under a running node |
//! | `secrets` | what must not be seen is not seen |
//!
//! `support` is what they share.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "tx/support/mod.rs"]
mod support;

#[path = "tx/cancel.rs"]
mod cancel;
#[path = "tx/constant_calls.rs"]
mod constant_calls;
#[path = "tx/copies.rs"]
mod copies;
#[path = "tx/covered.rs"]
mod covered;
#[path = "tx/failover.rs"]
mod failover;
#[path = "tx/histories.rs"]
mod histories;
#[path = "tx/idle.rs"]
mod idle;
#[path = "tx/kills.rs"]
mod kills;
#[path = "tx/lost_attempts.rs"]
mod lost_attempts;
#[path = "tx/lost_commits.rs"]
mod lost_commits;
#[path = "tx/mixed.rs"]
mod mixed;
#[path = "tx/order.rs"]
mod order;
#[path = "tx/outages.rs"]
mod outages;
#[path = "tx/panics.rs"]
mod panics;
#[path = "tx/pooler.rs"]
mod pooler;
#[path = "tx/remote_signer.rs"]
mod remote_signer;
#[path = "tx/reorgs.rs"]
mod reorgs;
#[path = "tx/restore.rs"]
mod restore;
#[path = "tx/restored.rs"]
mod restored;
#[path = "tx/retention.rs"]
mod retention;
#[path = "tx/same_request.rs"]
mod same_request;
#[path = "tx/secrets.rs"]
mod secrets;
#[path = "tx/swapped.rs"]
mod swapped;
#[path = "tx/takeover.rs"]
mod takeover;
#[path = "tx/transfers.rs"]
mod transfers;
#[path = "tx/wire_log.rs"]
mod wire_log;
