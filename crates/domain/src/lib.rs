//! The pure rules of Stile.
//!
//! Nothing here reads a clock, opens a socket, or knows SQL; nothing is `async`. Whatever a rule
//! needs to know is handed to it, so every rule can be tested by calling it.
//!
//! | file | the rule in it |
//! |---|---|
//! | [`address`] | what text is a signer's address |
//! | [`lane`] | what a lane is, and which worker it belongs to |
//! | [`lane_event`] | what happens to lanes |
//! | [`node`] | who a running process is |
//! | [`lease`] | how long a lease may be trusted without asking the database |
//! | [`hold`] | how a hold's status may change |
//! | [`rendezvous`] | which node a lane had best be held by |
//! | [`reuse`] | when a released nonce may be given out again |
//! | [`plan`] | which nonces a batch of requests gets |
//! | [`drift`] | how a lane stands to its chain |
//! | [`memory`] | what the holder of a lane has written, and whether that covers what a failover lost |
//! | [`realign`] | where a lane goes on when the database has lost its last commits |
//! | [`recovery`] | which transactions on chain were sent for those that wait after a restore |
//! | [`rollout`] | which lanes are Stile's, while they are moved to it |
//! | [`v1`] | what V1's nonces become, and the way back |
//! | [`tx`] | how a managed transaction's state may change |
//! | [`payload`] | what a transaction is to do, and when two requests are the same |
//! | [`estimate`] | how often its gas is estimated before it is refused |
//! | [`intrinsic`] | what gas it costs before anything of it is run |
//! | [`queue`] | whether an account can pay for all that is open on its lane |
//! | [`fees`] | what it pays |
//! | [`ceiling`] | the most that it may offer, and the most gas that it may use |
//! | [`wei`] | amounts as text |
//! | [`receipt`] | what the chain says once it is mined |
//! | [`headers`] | which blocks are canonical |
//! | [`finality`] | when it is done |
//! | [`quorum`] | what a chain's endpoints agree on |
//! | [`key`] | what API keys are called |
//! | [`scope`] | what an API key may do, and for which signers |
//! | [`network`] | from which addresses an API key may be used |
//! | [`secret`] | a text that nobody is shown |
//! | [`token`] | the secret of an API key, and what is kept of it |

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

pub mod address;
pub mod ceiling;
pub mod drift;
pub mod estimate;
pub mod fees;
pub mod finality;
pub mod headers;
pub mod hold;
pub mod intrinsic;
pub mod key;
pub mod lane;
pub mod lane_event;
pub mod lease;
pub mod memory;
pub mod network;
pub mod node;
pub mod pace;
pub mod payload;
pub mod plan;
pub mod queue;
pub mod quorum;
pub mod quote;
pub mod realign;
pub mod receipt;
pub mod recovery;
pub mod rendezvous;
pub mod reuse;
pub mod rollout;
pub mod room;
pub mod scope;
pub mod secret;
pub mod token;
pub mod tx;
pub mod v1;
pub mod waits;
pub mod wei;

pub use address::{AddressError, parse_address};
pub use alloy_primitives::{Address, B256, Bytes, U256};
pub use ceiling::{Capped, Ceiling, GasLimitReached, TIMES_THE_MARKET, check_gas};
pub use drift::{Drift, HeadOwner, drift, first_cursor};
pub use estimate::{AfterFailure, EstimatePolicy};
pub use fees::{FeeLimitReached, FeePolicy, FeeQuote, Fees, Market, gas_limit_for};
pub use finality::{Finality, Heads, SetBack, TakenBack, taken_back};
pub use headers::{Fit, Header, HeaderWindow};
pub use hold::{HeldExpiry, Hold, HoldEvent, HoldId, HoldStatus, IllegalMark, USED_BY_OTHERS};
pub use intrinsic::{
    AccessListSize, GasBelowIntrinsic, GasRules, check_intrinsic, intrinsic_gas, shows_dear_data,
};
pub use jiff::Timestamp;
pub use key::{KeyId, KeyName, KeyNameError};
pub use lane::{ChainId, ChainIdTextError, Lane, LaneError};
pub use lane_event::LaneEventKind;
pub use lease::LeaseTerms;
pub use memory::{CommitId, LaneMemory, NotCovered, OnRecord, RememberedAttempt};
pub use network::{Networks, NetworksError};
pub use node::{Holder, Incarnation, NodeId, NodeMode, serves};
pub use pace::{Content, Made, Pace};
pub use payload::{Payload, PayloadError, request_hash};
pub use plan::{Plan, Planner};
pub use queue::{BalanceTooLow, check_balance, cost_of};
pub use quorum::{Counted, Decision, Quorum, QuorumError, Verdict, Votes};
pub use quote::TIMES_AGREED;
pub use realign::{Ahead, Failover, HistoryChange, Loss, Others, REMEMBERED, Remembered};
pub use receipt::Receipt;
pub use recovery::{Found, Waiting, lost_attempt, match_found};
pub use rendezvous::preferred;
pub use reuse::{Released, ReuseFate};
pub use rollout::{Elsewhere, LaneOwner, Percent, PercentError, Rollout};
pub use room::first_offer;
pub use scope::{Operation, Scope, ScopeError, SignerScope};
pub use secret::Secret;
pub use token::{NotAToken, Token, TokenHash};
pub use tx::{
    AttemptKind, EventKind, IllegalStep, Obstacle, Outcome, Rival, Standing, Step, SubState,
    Successor, TxId, TxState, UnknownName,
};
pub use waits::{
    Behind, ChainState, LaneHolder, LaneState, Wait, WaitCode, WaitFacts, no_block, waiting_for,
};

/// A transaction count of an account.
///
/// The stores keep it in a signed 64-bit column, so [`MAX_NONCE`] is the largest one Stile works
/// with; no real account comes near it.
pub type Nonce = u64;

/// The largest nonce that fits the stores' signed 64-bit columns.
pub const MAX_NONCE: Nonce = i64::MAX as u64;
