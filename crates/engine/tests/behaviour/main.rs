//! What callers and operators rely on, tried on running nodes.
//!
//! | file | what is checked |
//! |---|---|
//! | `cluster` | two nodes on one database: who serves a lane, and who takes it over |
//! | `lease` | what a node does with a lease it can no longer be sure of |
//! | `many` | more lanes than anybody looks at one by one |
//! | `moving` | lanes that move to the node that they had best be on |
//! | `namesakes` | two processes under one node id |
//! | `queue` | worker-queue mode: order, batches, full queues |
//! | `shutdown` | what is finished, what is refused, what is left behind |
//! | `commits` | commits whose fate is unknown, and a database that goes away |
//! | `handlers` | `with_nonce`: what a handler's end says about its nonce |
//! | `pause` | pause and resume |
//! | `retention` | removing holds that are over |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod commits;
mod handlers;
mod lease;
mod many;
mod moving;
mod namesakes;
mod pause;
mod queue;
mod retention;
mod shutdown;
