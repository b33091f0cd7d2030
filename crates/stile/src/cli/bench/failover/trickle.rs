//! A small load, so that lanes are at work when their holder is killed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;

use crate::cli::Failure;
use crate::cli::bench::http::Connection;
use crate::cli::bench::nodes::{Cluster, request};

/// Hands over transactions of one signer after the other, at one node after the other, until it is
/// dropped. What is refused is not missed.
pub(super) struct Trickle {
    nodes: Arc<Mutex<Vec<SocketAddr>>>,
    task: JoinHandle<()>,
}

impl Trickle {
    /// So many a second.
    pub(super) fn start(cluster: &Cluster, per_second: u64) -> Self {
        let signers: Vec<String> =
            cluster.accounts.addresses.iter().map(ToString::to_string).collect();
        let nodes: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let task = tokio::spawn(run(signers, Arc::clone(&nodes), per_second.clamp(1, 1000)));
        let trickle = Self { nodes, task };
        trickle.uses(cluster, None);
        trickle
    }

    /// From now on at these nodes, one of which may have been killed.
    pub(super) fn uses(&self, cluster: &Cluster, killed: Option<usize>) {
        let live = cluster.nodes.iter().enumerate().filter(|(place, _)| Some(*place) != killed);
        let live = live.map(|(_, node)| node.address).collect();
        *self.nodes.lock().unwrap_or_else(PoisonError::into_inner) = live;
    }
}

impl Drop for Trickle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(signers: Vec<String>, nodes: Arc<Mutex<Vec<SocketAddr>>>, per_second: u64) {
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second as u32);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut connections: HashMap<SocketAddr, Connection> = HashMap::new();
    for turn in 0_usize.. {
        ticks.tick().await;
        let address = {
            let nodes = nodes.lock().unwrap_or_else(PoisonError::into_inner);
            // Shifted with every round of signers, so that each meets every node.
            let place = turn + turn / signers.len();
            nodes.get(place % nodes.len().max(1)).copied()
        };
        let Some(address) = address else { continue };
        let signer = &signers[turn % signers.len()];
        if send(&mut connections, address, signer, turn).await.is_err() {
            connections.remove(&address);
        }
    }
}

async fn send(
    connections: &mut HashMap<SocketAddr, Connection>,
    address: SocketAddr,
    signer: &str,
    turn: usize,
) -> Result<(), Failure> {
    let mut connection = match connections.remove(&address) {
        Some(connection) => connection,
        None => Connection::open(address).await?,
    };
    let body = request(signer, &format!("trickle-{turn}")).to_string();
    connection.post("/api/v1/tx", body).await?;
    connections.insert(address, connection);
    Ok(())
}
