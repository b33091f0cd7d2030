//! Managed transactions over HTTP.
//!
//! | file | what is in it |
//! |---|---|
//! | `send` | take one |
//! | `batch` | take many, with an answer for each |
//! | `read` | one, one by its caller's name, a page |
//! | `replace` | withdraw one, or have it mined sooner |
//! | `story` | history, attempts, confirmations |
//! | `body` | what a caller hands over |
//! | `value` | amounts, addresses and bytes as callers write them |
//! | `finality` | the evidence as callers write it |
//! | `view` | a transaction as callers see it |

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod finality;
pub(crate) mod read;
pub(crate) mod replace;
pub(crate) mod send;
pub(crate) mod story;
pub(crate) mod value;
pub(crate) mod view;
