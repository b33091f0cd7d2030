//! The chain crate against real chain nodes, and against some that misbehave.

#![allow(clippy::unwrap_used, reason = "a test that fails says so")]

mod accounts;
mod asking;
mod barred;
mod batches;
mod counting;
mod distrust;
mod following;
mod hanging;
mod hints;
mod other_nodes;
mod quotes;
mod reports;
mod secrets;
mod sending;
mod signers;
mod support;
mod voting;
