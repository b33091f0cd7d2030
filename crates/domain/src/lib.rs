//! The pure rules of Stile.
//!
//! Nothing here reads a clock, opens a socket, or knows SQL; nothing is `async`. Whatever a rule
//! needs to know is handed to it, so every rule can be tested by calling it.
//!
//! | file | the rule in it |
//! |---|---|
//! | [`address`] | what text is a signer's address |
//! | [`lane`] | what a lane is, and which worker it belongs to |
//! | [`node`] | who a running process is |
//! | [`lease`] | how long a lease may be trusted without asking the database |
//! | [`hold`] | how a hold's status may change |
//! | [`reuse`] | when a released nonce may be given out again |
//! | [`plan`] | which nonces a batch of requests gets |

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

pub mod address;
pub mod hold;
pub mod lane;
pub mod lease;
pub mod node;
pub mod plan;
pub mod reuse;

pub use address::{AddressError, parse_address};
pub use alloy_primitives::{Address, B256};
pub use hold::{HeldExpiry, Hold, HoldEvent, HoldId, HoldStatus, IllegalMark};
pub use jiff::Timestamp;
pub use lane::{ChainId, Lane, LaneError};
pub use lease::LeaseTerms;
pub use node::{Holder, Incarnation, NodeId};
pub use plan::{Plan, Planner};
pub use reuse::{Released, ReuseFate};

/// A transaction count of an account.
///
/// The stores keep it in a signed 64-bit column, so [`MAX_NONCE`] is the largest one Stile works
/// with; no real account comes near it.
pub type Nonce = u64;

/// The largest nonce that fits the stores' signed 64-bit columns.
pub const MAX_NONCE: Nonce = i64::MAX as u64;
