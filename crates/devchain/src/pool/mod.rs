//! Transactions that wait for a block.
//!
//! | file | what it is for |
//! |---|---|
//! | `refusal` | why a transaction is not taken |
//! | `check` | what is asked of every transaction, whatever else waits |
//! | `waiting` | who waits: per sender by nonce, replacements, what is executable |
//! | `select` | which of them go into a block, and in what order |

mod check;
mod refusal;
mod select;
mod waiting;

pub(crate) use check::check;
pub(crate) use refusal::Refusal;
pub(crate) use select::fill;
pub(crate) use waiting::Pool;
