//! The file that keeps a chain over restarts: one record on each line, appended only.
//!
//! A block is written before anybody can see it, so whatever was seen is in the file, even if the
//! process is killed. At the start the blocks are made again from their transactions, and each has
//! to come out with the hash that is on record. What was being written when the process was killed
//! is cut off. The pool is not kept.
//!
//! | file | what it is for |
//! |---|---|
//! | `record` | what a line says |
//! | `state_file` | appending, and one process at a time |
//! | `replay` | making a chain from its file |

mod record;
mod replay;
mod state_file;

pub(crate) use record::Record;
pub(crate) use replay::{Opened, open};
pub(crate) use state_file::StateFile;
