//! A development chain.

#![warn(missing_docs)]

pub mod accounts;
pub mod counter;

mod chain;
mod devchain;
mod error;
mod file;
mod node;
mod options;
mod pool;
mod rpc;

pub use devchain::DevChain;
pub use error::DevChainError;
pub use options::{Blocks, Clock, Options};
