//! What drives a lane.
//!
//! ```text
//!  caller ──→ component ──→ dispatch ──→ allocate ──→ Store::bind ──→ the caller's hold
//!              (the API)    │  basic:        │  lease in hand? plan, commit, answer
//!                           │  at once       └──→ park: what the chain must be asked first, off the worker
//!                           │  worker-queue:
//!                           └  hash(lane) % workers, whatever waits is one commit
//!
//!  beside it, for every lane this node holds:
//!    keeper   renews leases, takes over expired lanes, gives all back at the end
//!    sweeper  ends holds that ran out, asks the chain about silent ones, offers released nonces,
//!             fills gaps that nobody takes
//!    reconcile compares each lane with its chain
//!
//!    cluster  tells the other nodes of this one, and hands lanes to the node they had best be on
//!
//!  and for every lane there is:
//!    retention removes what is over and was kept long enough
//! ```
//!
//! | file | what is in it |
//! |---|---|
//! | [`component`] | `NonceComponent`: allocate, mark, with_nonce |
//! | [`with_nonce`] | what a handler's result says about its nonce |
//! | [`node`] | starting and stopping all of it |
//! | [`settings`] | what a node is told once, at start |
//! | [`error`] | what a caller is told when it does not work, and when to come back |
//! | `dispatch` | the two modes |
//! | `queue` | the workers of worker-queue mode |
//! | `allocate` | plan, commit, answer |
//! | `park` | calls that wait for the chain |
//! | [`cluster`] | working together with the other nodes |
//! | [`signers`] | who signs on which lane |
//! | `signing` | on which lanes no signatures are had |
//! | `start` | a new lane's first cursor |
//! | `mark` | callers' marks |
//! | `lanes` | what a node remembers of its lanes |
//! | `keeper` | leases |
//! | `sweeper` | holds that nobody settles |
//! | `retention` | removing what is over |
//! | [`realign`] | lanes in another history of the database |
//! | `restored` | what waits there, and what the chain shows of it |
//! | `rollout` | which lanes are Stile's |
//! | [`fill`] | gaps that nobody else will close |
//! | [`reconcile`] | each lane, compared with its chain |
//! | [`care`] | why a lane does not move, and mending it |
//! | `offers` | released nonces, on their way back to callers |
//! | `orphans` | holds whose caller never heard of them |
//! | `pause` | pauses that nobody asked for |
//! | `made_anew` | transactions with a successor, when their nonces come back |
//! | `chains` | the chains that are followed, for people |
//! | `task` | its tasks, by name |
//! | `metrics` | names and labels |
//! | [`tx`] | managed transactions |
//!
//! What is deliberately absent: SQL, and trust in time. A lease in memory says that trying is
//! worth while; whether a write is valid is decided by the lane's row.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

mod allocate;
mod behind;
pub mod care;
mod chains;
pub mod cluster;
pub mod component;
mod core;
mod dispatch;
pub mod error;
pub mod fill;
mod keeper;
mod lanes;
mod made_anew;
mod mark;
pub mod metrics;
pub mod node;
mod offers;
mod orphans;
mod park;
mod pause;
mod pools;
mod queue;
pub mod realign;
mod reconcile;
mod restored;
mod retention;
mod rollout;
pub mod settings;
pub mod signers;
mod signing;
mod start;
mod sweeper;
mod task;
pub mod tx;
pub mod with_nonce;

pub use care::{
    CareError, Diagnosis, Finding, LaneCare, LaneFacts, Pooled, Remedy, Repair, RepairStep,
    Restoration, RestoreError, Resumption, Settled, Severity, Verdict, Word,
};
pub use chains::{Capability, CapabilityRow, ChainStatus, EndpointCapabilities, EndpointStatus};
pub use cluster::in_registry::NodeRegistry;
pub use cluster::membership::Membership;
pub use cluster::router::{Route, Router};
pub use cluster::shares::CallLimits;
pub use component::NonceComponent;
pub use error::NonceError;
pub use node::Node;
pub use reconcile::Mismatch;
pub use settings::{ChainQuery, Mode, QueueSettings, RejectPolicy, Retention, Settings};
pub use signers::{SecondSource, Signers};
pub use stile_tasks::{Fall, Fallen};
pub use task::TASKS;
pub use tx::component::{Accepted, Confirmations, Transactions, TxRequest};
pub use tx::confirmations::BlockRef;
pub use tx::error::TxError;
pub use tx::settings::{Managed, OutsideUse, RESENT_AT_ONCE, TxSettings, Underfunded};
pub use tx::wishes::{Cancelled, ReplaceError};
pub use with_nonce::{HandlerError, Sent, WithNonceError};
