//! The only JSON-RPC in Stile.
//!
//! This version asks one thing of a chain: how many transactions an account has made
//! ([`NonceSource`]). That is where a new lane's cursor starts, and the evidence that settles
//! nonces whose callers went silent or gave them back.
//!
//! What is deliberately absent: retries that hide a broken endpoint, and any knowledge of lanes'
//! leases or of the store.

#![warn(missing_docs, clippy::print_stdout, clippy::print_stderr)]

mod address;
mod json_rpc;
mod nonces;

pub use address::{KeyError, address_of_key};
pub use json_rpc::{EndpointError, JsonRpcNonces};
pub use nonces::{BlockTag, ChainError, NonceSource};
