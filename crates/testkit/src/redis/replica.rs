//! A server that follows another one.

use super::Redis;
use crate::wait::eventually;

impl Redis {
    /// Starts a server that follows this one, and waits until it has everything.
    pub async fn replica(&self) -> Redis {
        let master = format!("127.0.0.1 {}", self.port());
        let arguments = ["--replicaof", &master, "--repl-diskless-sync-delay", "0"];
        let replica = Self::start_with(&arguments).await;
        eventually("the replica to follow", async || {
            let said = replica.command("INFO replication").await;
            said.contains("master_link_status:up").then_some(())
        })
        .await;
        replica
    }

    /// Cuts a replica off from its master, at once and with what it has: it neither hears of more nor
    /// is one that takes writes, until [`Redis::promote`].
    pub async fn cut_off(&self) {
        self.command("REPLICAOF 127.0.0.1 1").await;
    }

    /// Makes a replica a master of what it has.
    pub async fn promote(&self) {
        self.command("REPLICAOF NO ONE").await;
    }
}
