//! Those who hand transactions over to many nodes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use super::RECEIVER;
use super::cluster::Cluster;
use crate::cli::Failure;
use crate::cli::bench::http::Connection;
use crate::cli::bench::load::{Caller, Got};

/// Questions and batches on their way at one time.
const AT_ONCE: usize = 16;

/// Transactions in a batch call.
const BATCH: usize = 100;

/// How long lanes may take to be where they had best be.
const PATIENCE: Duration = Duration::from_secs(120);

/// Which node a call goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::cli::bench) enum Way {
    /// To the one that holds the lane, as `GET /api/v1/route` tells.
    Holder,
    /// To any of them, which accepts it for the holder.
    AnyAccepts,
    /// To any of them, which passes it on to the holder.
    AnyForwards,
}

impl Way {
    pub(in crate::cli::bench) fn name(self) -> &'static str {
        match self {
            Self::Holder => "holder",
            Self::AnyAccepts => "any, accepts",
            Self::AnyForwards => "any, forwards",
        }
    }

    /// What the configuration says of lanes that another node holds.
    pub(in crate::cli::bench) fn not_holder(self) -> &'static str {
        match self {
            Self::Holder | Self::AnyAccepts => "accept",
            Self::AnyForwards => "forward",
        }
    }
}

/// A transfer, as the call for one takes it.
pub(in crate::cli::bench) fn request(signer: &str, request_id: &str) -> Value {
    json!({
        "signer": signer,
        "requestId": request_id,
        "payload": { "to": RECEIVER, "value": "1", "gasLimit": "21000" },
    })
}

/// Where a signer's lane had best be, or where it is if that is all the same: the place of the node.
/// With `settled`, only once it is there.
async fn place(cluster: &Cluster, signer: &str, settled: bool) -> Result<Option<usize>, Failure> {
    let route = cluster.nodes[0].get(&format!("/api/v1/route?signer={signer}")).await?;
    let node = |field: &str| route[field]["nodeId"].as_str().and_then(|id| cluster.place(id));
    let (preferred, holder) = (node("preferred"), node("holder"));
    Ok(match settled {
        true => holder.filter(|_| preferred.is_none() || preferred == holder),
        false => preferred,
    })
}

/// Hands over one transaction of each signer and waits until every lane is where it had best be:
/// each signer with the place of its node.
pub(in crate::cli::bench) async fn lanes_by_node(
    cluster: &Cluster,
) -> Result<Vec<(String, usize)>, Failure> {
    let signers: Vec<String> = cluster.accounts.addresses.iter().map(ToString::to_string).collect();
    let mut parts = vec![Vec::new(); cluster.nodes.len()];
    for (number, signer) in signers.iter().enumerate() {
        let best = place(cluster, signer, false).await?;
        parts[best.unwrap_or(number % cluster.nodes.len())].push(signer.clone());
    }
    for (node, part) in parts.iter().enumerate() {
        hand_over_once(cluster, node, part, "first").await?;
    }
    let until = Instant::now() + PATIENCE;
    loop {
        let places: Vec<Option<usize>> = futures::stream::iter(&signers)
            .map(|signer| place(cluster, signer, true))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let settled: Vec<(String, usize)> = signers
            .iter()
            .zip(places)
            .filter_map(|(signer, place)| Some((signer.clone(), place?)))
            .collect();
        if settled.len() == signers.len() {
            return Ok(settled);
        }
        if Instant::now() > until {
            let (there, all) = (settled.len(), signers.len());
            return Err(format!("only {there} of {all} lanes were where they had best be").into());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Hands one transaction of each of these signers to a node, many a call; the transactions' ids.
pub(in crate::cli::bench) async fn hand_over_once(
    cluster: &Cluster,
    node: usize,
    signers: &[String],
    name: &str,
) -> Result<Vec<String>, Failure> {
    let mut connection = cluster.nodes[node].connect().await?;
    let mut ids = Vec::with_capacity(signers.len());
    for part in signers.chunks(BATCH) {
        let items: Vec<Value> = part.iter().map(|signer| request(signer, name)).collect();
        let body = json!({ "items": items }).to_string();
        let (_, answer) = connection.post("/api/v1/tx/batch", body).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        for item in answer["items"].as_array().into_iter().flatten() {
            match item["tx"]["txId"].as_str() {
                Some(id) => ids.push(id.to_owned()),
                None => return Err(format!("a transaction was refused: {item}").into()),
            }
        }
    }
    if ids.len() < signers.len() {
        return Err("a batch of transactions was refused".into());
    }
    Ok(ids)
}

/// Hands over one transaction a call, of one of its signers after the other.
pub(in crate::cli::bench) struct Sender {
    /// To each node.
    connections: Vec<Connection>,
    /// With the places of their nodes.
    lanes: Vec<(String, usize)>,
    way: Way,
    /// What its request ids begin with: nobody else's do.
    name: String,
    sent: usize,
}

impl Sender {
    /// So many, among whom the signers are shared.
    pub(in crate::cli::bench) async fn many(
        cluster: &Cluster,
        lanes: &[(String, usize)],
        way: Way,
        count: usize,
    ) -> Result<Vec<Self>, Failure> {
        static LOADS: AtomicUsize = AtomicUsize::new(0);
        let load = LOADS.fetch_add(1, Ordering::Relaxed);
        let mut senders = Vec::with_capacity(count);
        for number in 0..count {
            let first = number % lanes.len();
            let lanes: Vec<_> = lanes.iter().skip(first).step_by(count).cloned().collect();
            let mut connections = Vec::with_capacity(cluster.nodes.len());
            for node in &cluster.nodes {
                connections.push(node.connect().await?);
            }
            let name = format!("bench-{load}-{number}");
            senders.push(Self { connections, lanes, way, name, sent: 0 });
        }
        Ok(senders)
    }

    async fn one(&mut self) -> Result<bool, Failure> {
        let (turn, nodes) = (self.sent, self.connections.len());
        self.sent += 1;
        let (signer, holder) = &self.lanes[turn % self.lanes.len()];
        let place = match self.way {
            Way::Holder => *holder,
            // Shifted with every round of signers, so that each meets every node.
            Way::AnyAccepts | Way::AnyForwards => (turn + turn / self.lanes.len()) % nodes,
        };
        let body = request(signer, &format!("{}-{turn}", self.name)).to_string();
        let (status, _) = self.connections[place].post("/api/v1/tx", body).await?;
        Ok(status.as_u16() == 202)
    }
}

impl Caller for Sender {
    async fn call(&mut self) -> Got {
        Got::one(self.one().await.unwrap_or(false))
    }
}
