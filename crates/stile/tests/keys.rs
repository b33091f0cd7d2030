//! API keys, end to end: real `stile` processes, both stores.
//!
//! | file | what is checked |
//! |---|---|
//! | `support` | a store, keys made on it, and callers who have one |
//! | `admission` | who is let in, from when, and until when |
//! | `canaries` | no secret comes out anywhere |
//! | `closed` | closed stays closed; keys are rotated, bound to addresses and looked after |
//! | `host` | files for their owner alone, memory that nobody reads |
//! | `operations` | every call with a key of every scope |
//! | `strangers` | what a key is not for does not exist, on every route |
//! | `lists` | lists and streams have nothing of others |
//! | `listening` | who can reach a server with and without keys |
//! | `management` | keys over HTTP and at a terminal |
//! | `nodes` | several nodes, and a database that is away |
//! | `secrets` | tokens are nowhere but with their owners |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[macro_use]
mod common;

#[path = "keys/support.rs"]
mod support;

#[path = "keys/admission.rs"]
mod admission;
#[path = "keys/canaries.rs"]
mod canaries;
#[path = "keys/closed.rs"]
mod closed;
#[path = "keys/host.rs"]
mod host;
#[path = "keys/listening.rs"]
mod listening;
#[path = "keys/lists.rs"]
mod lists;
#[path = "keys/management.rs"]
mod management;
#[path = "keys/nodes.rs"]
mod nodes;
#[path = "keys/operations.rs"]
mod operations;
#[path = "keys/secrets.rs"]
mod secrets;
#[path = "keys/strangers.rs"]
mod strangers;
