//! Stile: an EVM transaction manager.
//!
//! This version is its ground floor: the nonces of any number of signers, handed out each exactly
//! once, by one process on an embedded store or by many nodes on one PostgreSQL.
//!
//! As a library, for programs that sign and send by themselves:
//!
//! ```
#![doc = include_str!("../examples/embed.rs")]
//! ```
//!
//! | module | what it is for |
//! |---|---|
//! | [`facade`] | [`Stile`]: a node inside another program |
//! | [`config`] | the configuration of the `stile` binary |
//! | [`wiring`] | from configuration to running parts |
//! | [`cli`] | the commands of the binary |

#![warn(missing_docs)]

pub mod cli;
pub mod config;
pub mod facade;
pub mod wiring;

pub use facade::{Stile, StileBuilder, StileError};
pub use stile_chain::{BlockTag, ChainError, NonceSource};
pub use stile_domain::{
    Address, B256, ChainId, HeldExpiry, Hold, HoldId, HoldStatus, Lane, LeaseTerms, Nonce,
    parse_address,
};
pub use stile_engine::{
    ChainQuery, HandlerError, Mode, NonceComponent, NonceError, QueueSettings, RejectPolicy, Sent,
    Settings, WithNonceError,
};
pub use stile_store::AllocationKey;
