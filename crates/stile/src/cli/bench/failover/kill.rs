//! One kill, and all that is seen of it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use stile_domain::{Lane, Timestamp, TxId};
use stile_store::raw::LeftLane;

use super::Bench;
use super::report::{Kill, LaneSeen, Survivors};
use super::trickle::Trickle;
use crate::cli::Failure;
use crate::cli::bench::nodes::{Cluster, hand_over_once};

/// How often the database is looked at. When something happened, the database itself has noted.
const LOOK: Duration = Duration::from_millis(100);

/// By how much commits may come later than the moment that their rows tell of.
const LATE_COMMITS: Duration = Duration::from_secs(10);

/// For how long, after the leases are over, it is waited for lanes that nobody takes.
const PATIENCE: Duration = Duration::from_secs(60);

impl Bench<'_> {
    /// Kills a node, hands over a transaction for each of its lanes, and waits until others hold
    /// the lanes and have bound the transactions.
    pub(super) async fn kill(
        &self,
        cluster: &Cluster,
        trickle: &Trickle,
        number: usize,
        victim: usize,
    ) -> Result<Kill, Failure> {
        let node = &cluster.nodes[victim];
        let before = self.survivors(cluster, victim).await?;
        let killed_at = cluster.watch.now().await?;
        node.kill().await;
        trickle.uses(cluster, Some(victim));
        let left = cluster.watch.left_by(&node.id).await?;
        let probes = self.probe(cluster, number, victim, &left).await?;
        let sampled: Vec<Lane> = probes.keys().copied().collect();
        let (taken, sent) = tokio::try_join!(
            self.taken(cluster, killed_at, &left),
            self.sent_again(cluster, killed_at, &sampled),
        )?;
        let bound = self.bound(cluster, &probes).await?;
        let lanes = left.iter().map(|left| LaneSeen {
            expires_at: left.expires_at,
            taken_at: taken[&left.lane],
            sent_at: sent.get(&left.lane).copied(),
            bound_at: probes.get(&left.lane).map(|tx| bound[tx]),
        });
        let survivors = self.survivors(cluster, victim).await?.since(&before);
        Ok(Kill::new(&node.id, killed_at, lanes, survivors))
    }

    /// What the others say of their renewals and their memory.
    async fn survivors(&self, cluster: &Cluster, victim: usize) -> Result<Survivors, Failure> {
        let mut seen = Survivors::default();
        for (_, node) in cluster.nodes.iter().enumerate().filter(|(place, _)| *place != victim) {
            let renewals = node.counter("stile_lease_renew_total").await?;
            let of = |result: &str| renewals.get(result).copied().unwrap_or_default();
            seen.renewed += of("renewed");
            seen.failed += of("error");
            seen.lost += of("fenced");
            seen.late += node.total("stile_lease_renew_late_total").await?;
            let memory = node.peak_memory().map_or(0.0, |bytes| bytes as f64 / 1e6);
            seen.peak_memory_mb = seen.peak_memory_mb.max(memory);
        }
        Ok(seen)
    }

    /// When the lowest transaction in flight of each of these lanes was sent again, where any is.
    async fn sent_again(
        &self,
        cluster: &Cluster,
        killed_at: Timestamp,
        lanes: &[Lane],
    ) -> Result<HashMap<Lane, Timestamp>, Failure> {
        let mut sent: HashMap<Lane, Timestamp> = HashMap::with_capacity(lanes.len());
        if self.args.in_flight == 0 {
            return Ok(sent);
        }
        let until = Instant::now() + self.lease + PATIENCE;
        loop {
            for (lane, at) in cluster.watch.first_sent_after(lanes, killed_at).await? {
                sent.entry(lane).or_insert(at);
            }
            if sent.len() == lanes.len() {
                return Ok(sent);
            }
            if Instant::now() > until {
                let missing = lanes.len() - sent.len();
                return Err(format!("nobody sent for {missing} of {} lanes", lanes.len()).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A transaction for each lane, or for some of them spread evenly, at a node that lives.
    async fn probe(
        &self,
        cluster: &Cluster,
        number: usize,
        victim: usize,
        left: &[LeftLane],
    ) -> Result<HashMap<Lane, TxId>, Failure> {
        let step = left.len().div_ceil(self.args.sample.max(1)).max(1);
        let lanes: Vec<Lane> = left.iter().step_by(step).map(|left| left.lane).collect();
        let signers: Vec<String> = lanes.iter().map(|lane| lane.signer.to_string()).collect();
        let survivor = (victim + 1) % cluster.nodes.len();
        let name = format!("after-kill-{number}");
        let ids = hand_over_once(cluster, survivor, &signers, &name).await?;
        let ids = ids.iter().map(|id| Ok(TxId(id.parse()?)));
        let ids: Vec<TxId> = ids.collect::<Result<_, Failure>>()?;
        Ok(lanes.into_iter().zip(ids).collect())
    }

    /// When each lane came to another node first.
    async fn taken(
        &self,
        cluster: &Cluster,
        killed_at: Timestamp,
        left: &[LeftLane],
    ) -> Result<HashMap<Lane, Timestamp>, Failure> {
        let mut taken: HashMap<Lane, Timestamp> = HashMap::with_capacity(left.len());
        let Some(incarnation) = left.first().map(|left| left.incarnation) else {
            return Ok(taken);
        };
        let (until, mut since) = (Instant::now() + self.lease + PATIENCE, killed_at);
        loop {
            for (lane, at) in cluster.watch.taken_after(incarnation, since).await? {
                taken.entry(lane).or_insert(at);
                since = since.max(at.checked_sub(LATE_COMMITS)?);
            }
            let missing = left.iter().filter(|left| !taken.contains_key(&left.lane)).count();
            if missing == 0 {
                return Ok(taken);
            }
            if Instant::now() > until {
                return Err(format!("nobody took {missing} of {} lanes", left.len()).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// When each transaction got its nonce.
    async fn bound(
        &self,
        cluster: &Cluster,
        probes: &HashMap<Lane, TxId>,
    ) -> Result<HashMap<TxId, Timestamp>, Failure> {
        let ids: Vec<TxId> = probes.values().copied().collect();
        let until = Instant::now() + PATIENCE;
        loop {
            let bound = cluster.watch.bound(&ids).await?;
            if bound.len() == ids.len() {
                return Ok(bound.into_iter().collect());
            }
            if Instant::now() > until {
                let missing = ids.len() - bound.len();
                return Err(format!("{missing} of {} transactions have no nonce", ids.len()).into());
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}
