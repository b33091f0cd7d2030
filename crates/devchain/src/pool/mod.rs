//! Transactions that wait for a block.
//!
//! | file | what it is for |
//! |---|---|
//! | `refusal` | why a transaction is not taken |
//! | `check` | what is asked of every transaction, whatever else waits |
//! | `pool` | who waits: per sender by nonce, replacements, what is executable |
//! | `select` | which of them go into a block, and in what order |

mod check;
#[allow(clippy::module_inception, reason = "the pool is what this module is about")]
mod pool;
mod refusal;
mod select;

pub(crate) use check::check;
pub(crate) use pool::Pool;
pub(crate) use refusal::Refusal;
pub(crate) use select::fill;
