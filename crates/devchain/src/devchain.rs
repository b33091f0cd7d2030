//! A running chain with its server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::error::DevChainError;
use crate::node::{Node, tick};
use crate::options::{Blocks, Options};
use crate::rpc::serve;

/// How long requests that have begun may take to end.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// A running chain with its HTTP JSON-RPC server. Dropped, it ends as well, without waiting.
#[derive(Debug)]
pub struct DevChain {
    address: SocketAddr,
    node: Arc<Node>,
    tasks: Vec<JoinHandle<()>>,
    end: CancellationToken,
}

impl DevChain {
    /// Reads the state file, if there is one, and starts.
    pub async fn start(options: Options) -> Result<Self, DevChainError> {
        if !options.listen.ip().is_loopback() {
            return Err(DevChainError::NotLoopback(options.listen));
        }
        if options.blocks == Blocks::Every(Duration::ZERO) {
            return Err(DevChainError::Options("the time between blocks is 0"));
        }
        if options.gas_limit < 1_000_000 {
            return Err(DevChainError::Options("a block has room for at least 1000000 gas"));
        }
        let wanted = options.listen;
        let failed = |source| DevChainError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let node = tokio::task::spawn_blocking(move || Node::open(&options)).await;
        let node = node.map_err(|error| failed(std::io::Error::other(error)))??;
        let node = Arc::new(node);
        let end = CancellationToken::new();
        let tasks = vec![
            tokio::spawn(tick(Arc::clone(&node), end.clone())),
            tokio::spawn(serve(Arc::clone(&node), listener, end.clone())),
        ];
        Ok(Self { address, node, tasks, end })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of its JSON-RPC endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Whether there is a transaction in any of its blocks.
    pub fn has_transactions(&self) -> bool {
        self.node.ledger().has_transactions()
    }

    /// Ends it. Requests that have begun are answered first.
    pub async fn stop(mut self) {
        self.end.cancel();
        for task in &mut self.tasks {
            if tokio::time::timeout(STOP_PATIENCE, &mut *task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Drop for DevChain {
    fn drop(&mut self) {
        self.end.cancel();
        // Somebody may still be connected, but the file is for others to use.
        self.node.close();
    }
}
