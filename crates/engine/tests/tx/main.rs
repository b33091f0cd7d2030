//! Managed transactions on a real chain, tried on running nodes inside this process.
//!
//! | file | what is checked |
//! |---|---|
//! | `landing` | the straight way: accepted, bound, sent, mined, confirmed; repeats; reverts |
//! | `waiting` | order of acceptance, full lanes, pauses, silent chains |
//! | `counts` | counts of transactions that an endpoint hides, or lies about |
//! | `estimates` | transactions whose gas cannot be estimated |
//! | `copies` | copies of a database that nothing in them tells from the database |
//! | `fillers` | empty transactions for nonces that nobody will use |
//! | `hanging` | a chain that does not answer, beside one that does |
//! | `quotes` | what endpoints say that their chain asks for |
//! | `reorgs` | blocks that are taken back |
//! | `resets` | 39: a chain that was set back further than reorganisations are followed |
//! | `liars` | endpoints that lie, where there are others; `lies` is how they do it |
//! | `restored` | 20: lanes of a database that has lost commits |
//! | `retention` | removing what is over |
//! | `verdicts` | what endpoints say of a transaction, each for itself |
//! | `unreadable` | 37: answers that cannot be read, receipts that do not say how it ended |
//! | `voices` | one endpoint whose words do not fit what the others say |
//! | `outside` | what is taken for somebody else's, and is not |
//! | `leaving` | a node that goes, and one that takes over |
//! | `waits` | 38: what a transaction waits for |
//! | `taking_over` | 36: much that was left |

#![recursion_limit = "256"]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

mod copies;
mod counts;
mod estimates;
mod fillers;
mod hanging;
mod landing;
mod leaving;
mod liars;
mod lies;
mod outside;
mod quotes;
mod reorgs;
mod resets;
mod restored;
mod retention;
mod setup;
mod taking_over;
mod unreadable;
mod verdicts;
mod voices;
mod waiting;
mod waits;
