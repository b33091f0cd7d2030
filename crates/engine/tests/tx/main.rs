//! Managed transactions on a real chain, tried on running nodes inside this process.
//!
//! | file | what is checked |
//! |---|---|
//! | `landing` | the straight way: accepted, bound, sent, mined, confirmed; repeats; reverts |
//! | `waiting` | order of acceptance, full lanes, pauses, silent chains |
//! | `reorgs` | blocks that are taken back |
//! | `retention` | removing what is over |
//! | `leaving` | a node that goes, and one that takes over |

#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends")]

#[path = "../common/mod.rs"]
mod common;

mod landing;
mod leaving;
mod reorgs;
mod retention;
mod setup;
mod waiting;
