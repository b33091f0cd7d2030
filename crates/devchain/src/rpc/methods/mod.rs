//! What the methods do, by what they are about.

pub(super) mod account;
pub(super) mod block;
pub(super) mod call;
pub(super) mod dev;
pub(super) mod fee;
pub(super) mod log;
pub(super) mod meta;
pub(super) mod send;
pub(super) mod transaction;
