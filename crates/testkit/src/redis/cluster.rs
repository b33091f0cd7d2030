//! A private Redis Cluster.

use super::Redis;
use crate::wait::eventually;
use crate::{Process, ports};

/// How long a server of the cluster may be silent before the others give it up.
const NODE_TIMEOUT_MS: &str = "2000";

const SLOTS: usize = 16_384;

/// Three masters that share the slots, and as many replicas if asked for.
#[derive(Debug)]
pub struct RedisCluster {
    masters: Vec<Redis>,
    replicas: Vec<Redis>,
}

impl RedisCluster {
    /// Three masters.
    ///
    /// Panics if they do not find each other.
    pub async fn start() -> Self {
        let masters = servers(3).await;
        for (index, master) in masters.iter().enumerate() {
            let (first, last) = (SLOTS * index / 3, SLOTS * (index + 1) / 3 - 1);
            master.server.command(&format!("CLUSTER ADDSLOTSRANGE {first} {last}")).await;
            master.server.command(&format!("CLUSTER SET-CONFIG-EPOCH {}", index + 1)).await;
        }
        meet(&masters, &masters[0]).await;
        let masters: Vec<Redis> = masters.into_iter().map(|member| member.server).collect();
        let cluster = Self { masters, replicas: Vec::new() };
        cluster.wait_until_whole(3).await;
        cluster
    }

    /// Three masters with a replica each: one that is lost is replaced by its replica.
    pub async fn start_with_replicas() -> Self {
        let mut cluster = Self::start().await;
        let replicas = servers(3).await;
        let first = &cluster.masters[0];
        for replica in &replicas {
            replica.meet(first).await;
        }
        cluster.replicas = replicas.into_iter().map(|member| member.server).collect();
        cluster.wait_until_whole(6).await;
        for (master, replica) in cluster.masters.iter().zip(&cluster.replicas) {
            let id = master.command("CLUSTER MYID").await;
            let id = id.lines().nth(1).expect("the id of a master").to_owned();
            eventually("a replica to know its master", async || {
                replica.command("CLUSTER NODES").await.contains(&id).then_some(())
            })
            .await;
            replica.command(&format!("CLUSTER REPLICATE {id}")).await;
        }
        for replica in &cluster.replicas {
            eventually("a replica to follow its master", async || {
                let said = replica.command("INFO replication").await;
                said.contains("master_link_status:up").then_some(())
            })
            .await;
        }
        cluster
    }

    async fn wait_until_whole(&self, members: usize) {
        let size = format!("cluster_known_nodes:{members}\r\n");
        for server in self.masters.iter().chain(&self.replicas) {
            eventually("the cluster to be whole", async || {
                let said = server.command("CLUSTER INFO").await;
                (said.contains("cluster_state:ok") && said.contains(&size)).then_some(())
            })
            .await;
        }
    }

    /// The addresses of the masters, with commas in between.
    pub fn url(&self) -> String {
        self.masters.iter().map(Redis::url).collect::<Vec<_>>().join(",")
    }

    /// The servers that began as masters.
    pub fn masters(&self) -> &[Redis] {
        &self.masters
    }

    /// The servers that began as replicas, in the order of their masters.
    pub fn replicas(&self) -> &[Redis] {
        &self.replicas
    }

    /// The process of a master, to stop or kill it.
    pub fn process(&self, master: usize) -> &Process {
        self.masters[master].process()
    }
}

/// A server and the port on which the others talk to it.
struct Member {
    server: Redis,
    bus: u16,
}

impl Member {
    /// Has somebody who is in the cluster meet this one.
    async fn meet(&self, inside: &Redis) {
        let (port, bus) = (self.server.port(), self.bus);
        inside.command(&format!("CLUSTER MEET 127.0.0.1 {port} {bus}")).await;
    }
}

async fn servers(number: usize) -> Vec<Member> {
    let mut members = Vec::new();
    for _ in 0..number {
        // By default ten thousand above the other one, where the system gives ports to clients.
        let bus = ports::free_port();
        let port = bus.to_string();
        let arguments = [
            ["--cluster-enabled", "yes"],
            ["--cluster-port", &port],
            ["--cluster-node-timeout", NODE_TIMEOUT_MS],
            ["--repl-diskless-sync-delay", "0"],
        ];
        members.push(Member { server: Redis::start_with(&arguments.concat()).await, bus });
    }
    members
}

async fn meet(members: &[Member], first: &Member) {
    for member in members.iter().skip(1) {
        member.meet(&first.server).await;
    }
}
