//! What the tests of managed transactions share.
//!
//! | file | what is in it |
//! |---|---|
//! | `backend` | the store a node runs on, and a look at it from outside |
//! | `calls` | a node's calls for transactions |
//! | `evidence` | what the chain itself shows |
//! | `load` | callers who insist |
//! | `random` | chance that can be repeated |
//! | `restore` | a database that is replaced by an older one |

#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

mod backend;
mod calls;
mod evidence;
mod load;
mod random;
mod restore;

pub(crate) use backend::Backend;
pub(crate) use calls::{SINK, id, text, transfer};
pub(crate) use evidence::{assert_all_mined_once, assert_mined_once};
pub(crate) use load::{Load, SIGNERS};
pub(crate) use random::Random;
pub(crate) use restore::{Restore, copy, put_back};
