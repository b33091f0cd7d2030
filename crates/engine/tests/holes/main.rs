//! The holes that protocols like this one have, tried on running nodes.
//!
//! A test carries the number of the hole it is about. Every one of them fails when what closes its
//! hole is taken out. Renewal under load (16d) is the stores' to test, and the order of waiting
//! transactions (16e) does not concern holds.
//!
//! | file | holes |
//! |---|---|
//! | `at_once` | 1: many allocations of one lane at once |
//! | `silence` | 14: callers that went silent, on a real chain |
//! | `keys` | 15: idempotency keys |
//! | `neighbours` | 16: nested calls, signers whose chain hangs, lanes and their workers |
//! | `gone` | 16: callers that go away at every moment |
//! | `cursors` | 16a: a cursor that moves while plans are made |
//! | `reuse` | 16c: released nonces, on a real chain |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

mod at_once;
mod cursors;
mod gone;
mod keys;
mod neighbours;
mod reuse;
mod silence;
