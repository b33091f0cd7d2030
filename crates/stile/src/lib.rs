//! Stile: an EVM transaction manager. Hand it a transaction once, and it lands on chain exactly once,
//! from one process on an embedded store or from many nodes on one PostgreSQL.
//!
//! This crate is the `stile` binary, and the same inside your own program: [`Stile::builder`] starts
//! a node with its store, its chains, its signers and, if asked, its HTTP server. The program below
//! sends one transaction to a development chain (`anvil --block-time 1`) and waits until it is
//! confirmed:
//!
//! ```no_run
#![doc = include_str!("../examples/embed.rs")]
//! ```
//!
//! A program that signs and sends by itself takes only its nonces from Stile, each exactly once
//! however many instances of it run ([`NonceComponent`]):
//!
//! ```
#![doc = include_str!("../examples/nonces.rs")]
//! ```
//!
//! # What to know
//!
//! - A **lane** is one signer on one chain ([`Lane`]). Order matters inside a lane and nowhere else.
//! - A **request id** makes a request safe to repeat: the same id is the same transaction, after a
//!   crash, a time-out, or on another node ([`TxRequest::request_id`]).
//! - **Done** is `CONFIRMED` (on chain, as final as was asked; its outcome says whether the execution
//!   succeeded) or `FAILED` (not on chain). [`Stile::wait`] waits for it;
//!   [`Transactions::events_after`] tells all that happens on the way.
//! - **Several instances** of a program share the work on one PostgreSQL: give each a
//!   [`StileBuilder::node_id`] of its own.
//! - **Errors** say what to do next: [`TxError::retry_after`] and [`NonceError::retry_after`] tell when
//!   trying again makes sense.
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
mod host;
pub mod wiring;

pub use facade::{Stile, StileBuilder, StileError};
pub use stile_chain::{
    BlockTag, ChainError, EndpointError, KeyError, KeystoreError, LocalSigner, NonceSource,
    RemoteSigner, SignError, SignedTx, TxSigner, UnsignedTx,
};
pub use stile_domain::{
    Address, AttemptKind, B256, Bytes, Ceiling, ChainId, EventKind, FeeLimitReached, FeePolicy,
    FeeQuote, Fees, Finality, HeldExpiry, Hold, HoldId, HoldStatus, Holder, Lane, LaneError,
    LaneEventKind, LeaseTerms, Market, Nonce, Outcome, Payload, PayloadError, Receipt, Rival,
    Standing, SubState, Successor, Timestamp, TxId, TxState, U256, parse_address,
};
pub use stile_engine::{
    Accepted, BlockRef, Cancelled, CareError, ChainQuery, Confirmations, Diagnosis, Finding,
    HandlerError, LaneCare, LaneFacts, Mismatch, Mode, NonceComponent, NonceError, OutsideUse,
    QueueSettings, RejectPolicy, Remedy, Repair, RepairStep, ReplaceError, Resumption, Retention,
    Route, Router, Sent, Settings, Severity, Transactions, TxError, TxRequest, TxSettings,
    WithNonceError,
};
pub use stile_server::{
    Authorities, ClusterOptions, ClusterSecret, ListenError, NodeIdentity, NotAnIdentity,
    NotCertificates, NotHolder, WeakSecret,
};
pub use stile_store::{
    AllocationKey, Attempt, FencingToken, HistoryChange, HistoryId, HoldFilter, HoldPage,
    LaneEvent, LaneView, StoreError, StreamEvent, StreamHistory, StreamPosition, Tx, TxEvent,
    TxFilter, TxPage, Wish,
};
