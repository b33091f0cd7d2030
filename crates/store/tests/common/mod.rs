//! What the tests of the stores share.
//!
//! | file | what is in it |
//! |---|---|
//! | `database` | a database of one's own, and handles on it |
//! | `raw` | SQL past the store |
//! | `nodes` | nodes, lanes and what a node asks of a store |
//! | `txs` | transactions, and what a node asks of a store about them |
//! | `blocking` | two sessions on PostgreSQL, one of which waits for the other |

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod blocking;
mod database;
mod nodes;
mod raw;
mod txs;

pub(crate) use blocking::{is_blocked, wait_until_blocked};
pub(crate) use database::{Bench, Database, proxied};
pub(crate) use nodes::{
    HOLD, LEASE, RUN_OUT, WINDOW, acquire, bind, binding, claim_at, fresh, give_back, held,
    hold_at, key, keyed, lane, lanes, mark, node, owner, pause, read_hold, recyclable, reissue,
    released, resume, successor, used, view,
};
pub(crate) use raw::Raw;
pub(crate) use txs::{
    A_NODE, accept, accept_one, attempt, bind_new, bind_txs, block, bound, change, created, header,
    kinds, lose, named, new_tx, of_txs, read_tx, receipt, record, record_one, rival, steps,
    tx_binding, tx_id, waiting_binding,
};
