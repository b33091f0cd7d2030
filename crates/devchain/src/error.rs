//! Why a chain cannot be started.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a chain cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DevChainError {
    /// Whoever reaches the chain may change it, so only this machine may.
    #[error("a development chain listens on loopback addresses only, and {0} is none")]
    NotLoopback(SocketAddr),
    /// The address is taken, or not one of this machine.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: std::io::Error,
    },
    /// The options contradict themselves.
    #[error("{0}")]
    Options(&'static str),
    /// The state file cannot be read or written.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// Another process uses the state file.
    #[error("{} is in use by another process", .0.display())]
    InUse(PathBuf),
    /// The state file keeps another chain.
    #[error("{} keeps another chain: {reason}", file.display())]
    OtherChain {
        /// The file.
        file: PathBuf,
        /// What differs.
        reason: String,
    },
    /// The state file is damaged.
    #[error("{}, line {line}: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}
