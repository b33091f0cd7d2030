//! Nothing stays stuck, end to end: real `stile serve` processes, real chains, both stores.
//!
//! Each test brings a signer to a standstill, reads what `doctor` says about it, and sees it go on:
//! by itself, or as `doctor` proposes. In the end whatever was accepted is mined once, without a gap.
//!
//! | file | what is checked |
//! |---|---|
//! | `fees` | fees that rise above every offer, and the limits of what is offered |
//! | `pools` | pools that lose transactions, and endpoints that take them and forget |
//! | `standstill` | a chain that makes no blocks, or has nobody else on it |
//! | `wordings` | every refusal that a chain node is known to make |
//! | `rejected` | a transaction that no endpoint takes, ever |
//! | `outside` | somebody else signs with the key |
//! | `funds` | an account that is emptied |
//! | `pending` | an endpoint that lies about pending transactions |
//! | `reset` | a chain that is set back |
//! | `emptied` | a chain that is emptied |
//! | `made_anew` | a transaction that has a successor, and whose nonce comes back |
//! | `holds` | nonces of callers who send by themselves, below transactions that wait for them |
//! | `signer` | a signing service that is away |
//! | `hanging` | a chain that takes connections and never answers, beside a healthy one |
//!
//! `support`, `care` and `stage` are what they share.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "tx/support/mod.rs"]
mod support;

#[path = "stuck/care.rs"]
mod care;
#[path = "stuck/stage.rs"]
mod stage;

#[path = "stuck/emptied.rs"]
mod emptied;
#[path = "stuck/fees.rs"]
mod fees;
#[path = "stuck/funds.rs"]
mod funds;
#[path = "stuck/hanging.rs"]
mod hanging;
#[path = "stuck/holds.rs"]
mod holds;
#[path = "stuck/made_anew.rs"]
mod made_anew;
#[path = "stuck/outside.rs"]
mod outside;
#[path = "stuck/pending.rs"]
mod pending;
#[path = "stuck/pools.rs"]
mod pools;
#[path = "stuck/rejected.rs"]
mod rejected;
#[path = "stuck/reset.rs"]
mod reset;
#[path = "stuck/signer.rs"]
mod signer;
#[path = "stuck/standstill.rs"]
mod standstill;
#[path = "stuck/wordings.rs"]
mod wordings;
