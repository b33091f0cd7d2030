//! The only JSON-RPC in Stile, and the only signatures.
//!
//! ```text
//!  Chains ── one per chain ──→ ChainPool ── one per URL ──→ endpoint ──→ HTTP or WebSocket
//!                                 │  looks at all of them, follows one
//!                                 └──→ View: blocks and receipts as the followed one tells them
//! ```
//!
//! | file | what it is for |
//! |---|---|
//! | `chains` | all configured chains |
//! | `pool` | the endpoints of a chain |
//! | `look` | how they are, and which one is followed |
//! | `flight` | one look at a time, for all who wait |
//! | `in_turn` | one endpoint after the other, without waiting for a slow one |
//! | `judge` | which of them are in use, by how far each says it has come |
//! | `view` | the chain as the followed endpoint sees it |
//! | `endpoint` | one endpoint and what is known of it |
//! | `target` | an endpoint's URL, and what of it may be shown |
//! | `places` | how many calls may be under way at an endpoint |
//! | `hints` | announcements of new heads |
//! | `unreadable` | what they answered that cannot be read, kept so that it is told |
//! | `rpc` | questions and answers, over HTTP and WebSocket, with time limits |
//! | `batches` | many questions of one kind |
//! | `calls` | counting them |
//! | `blocks`, `sighting`, `receipts` | what endpoints tell, checked |
//! | `maybe` | what of that is done without, if it cannot be read |
//! | `mined` | a mined transaction, with the bytes that were signed |
//! | `accounts` | what accounts have done and have |
//! | `quote` | asking one endpoint what gas costs, one way after the other |
//! | `fees`, `estimate`, `send`, `known` | what is asked around a transaction |
//! | `taking` | whether an endpoint takes transactions, and when it is asked next |
//! | `capability` | what an endpoint can do, and what follows from what it cannot |
//! | `probe` | finding that out |
//! | `check` | trying a node before it is configured |
//! | `pace` | how fast the chain is, and how often it is looked at |
//! | `tags` | whether a chain has a block tag |
//! | `votes` | what each endpoint says about a block |
//! | `hearing` | waiting for that, and not for the slowest |
//! | `report` | what each of them says of an account, for whoever looks for what is wrong |
//! | `classify` | what nodes mean by what they say: the only place that reads error texts |
//! | `wordings` | what they do say, word for word |
//! | `signer` | keys in this process, in key files, and elsewhere |
//!
//! Nothing that an endpoint says is trusted: an answer that cannot be, or is not to the question,
//! is an error and never a panic. Nothing of an endpoint's URL is shown but host and port.
//!
//! What is deliberately absent: retries that hide a broken endpoint, any knowledge of lanes'
//! leases or of the store, and tasks in the background, but for the one that reads a WebSocket.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

mod accounts;
mod address;
mod batches;
mod blocks;
mod calls;
mod capability;
mod chains;
mod check;
mod classify;
mod endpoint;
mod estimate;
mod estimate_block;
mod fees;
mod flight;
mod hearing;
mod hints;
mod in_turn;
mod judge;
mod known;
mod look;
mod maybe;
mod means;
mod mined;
mod nonces;
mod pace;
mod places;
mod pool;
mod pooled;
mod probe;
mod quote;
mod receipts;
mod report;
mod rpc;
mod send;
mod sighting;
mod signer;
mod tags;
mod taking;
mod target;
mod unreadable;
mod view;
mod votes;
mod wordings;

pub use accounts::At;
pub use address::{KeyError, address_of_key};
pub use blocks::{Block, Outline};
pub use calls::CALL_METHODS;
pub use capability::{Capability, CapabilityRow, Supported};
pub use chains::{Chains, PoolOptions};
pub use check::{NodeCheck, check};
pub use classify::SendClass;
pub use endpoint::{EndpointPlaces, EndpointStatus};
pub use estimate::{BlockGasLimit, BlockTerms, EstimateError};
pub use fees::FeeQuotes;
pub use means::Means;
pub use mined::MinedTx;
pub use nonces::{BlockTag, ChainError, NonceSource};
pub use places::Places;
pub use pool::ChainPool;
pub use pooled::{Pool, Pools};
pub use probe::EndpointCapabilities;
pub use receipts::ReceiptAnswer;
pub use report::{EndpointReport, UnreadableReport};
pub use send::{EndpointSaid, NotAsked, SendAnswer};
pub use sighting::Sighting;
pub use signer::{
    KeystoreError, LocalSigner, RemoteSigner, SignError, SignedTx, TxSigner, UnsignedTx,
};
pub use tags::Tag;
pub use target::EndpointError;
pub use unreadable::Unreadable;
pub use view::View;
pub use votes::Ballots;
pub use wordings::WORDINGS;
