//! A cluster under faults, and what must hold of its history.
//!
//! ```text
//!  seed ─→ schedule ─→ run: PostgreSQL, Redis ← proxies ← 3 × stile serve → 3 proxies each → anvil
//!          (pure)            │  clients call, faults come and go, then all is left to settle
//!                            ▼
//!                         evidence: calls, store, chain, wire ─→ check ─→ violations, stories
//!                                                               (pure)
//! ```
//!
//! | place | what is in it |
//! |---|---|
//! | [`random`] | chance that can be repeated |
//! | [`schedule`] | which fault comes when: a pure function of the seed |
//! | [`evidence`] | what a run leaves behind |
//! | [`check`] | what must hold of it, rule by rule, and the story of what does not |
//! | [`hostile`] | a Redis under somebody else's control, and who waits for what it leads astray |
//! | [`summary`] | several runs side by side |
//! | [`run`] | the only part with processes, sockets and time |
//!
//! Deliberately absent: the crates under test. The checker shares no line with what it checks, and
//! knows the nodes only as callers and operators do: by HTTP, by the tables, by the wire and by the
//! chain.

#![allow(
    clippy::unwrap_used,
    reason = "a harness that lacks its servers cannot go on; there is no caller that could"
)]

pub mod check;
pub mod evidence;
pub mod hostile;
pub mod random;
pub mod run;
pub mod schedule;
pub mod summary;

pub use check::{Coverage, Rule, Violation, check};
pub use evidence::Evidence;
pub use run::{Options, Outcome};
pub use summary::Summary;
