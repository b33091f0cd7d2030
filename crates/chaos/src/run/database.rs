//! The PostgreSQL servers under all nodes, and how they fail.
//!
//! One server takes writes, and a synchronous standby has every commit that it has answered. When
//! the standby takes its place, a new standby is copied from it, so that the next failover loses
//! nothing either. In runs with restores the standby is asynchronous, and may lack what was answered
//! last.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::Postgres;
use tokio::sync::Mutex;

use super::diary::now;
use crate::evidence::Restore;

/// A standby that has lost its server looks for it this often; commits wait until it is back.
const SETTINGS: [(&str, &str); 1] = [("wal_retrieve_retry_interval", "200ms")];

/// Servers of the run's own, with one database.
#[derive(Debug)]
pub(super) struct Database {
    servers: Mutex<Servers>,
    name: String,
    /// Whether commits wait for the standby.
    synchronous: bool,
    /// Where it is in the beginning, past the nodes' proxies.
    pub(super) url: String,
}

#[derive(Debug)]
struct Servers {
    primary: Postgres,
    standby: Postgres,
}

/// Where the database is from now on.
#[derive(Debug)]
pub(super) struct Moved {
    /// The server.
    pub(super) address: SocketAddr,
    /// The URL past the nodes' proxies.
    pub(super) url: String,
}

impl Database {
    pub(super) async fn start(synchronous: bool) -> Self {
        let primary = Postgres::start(&SETTINGS).await;
        let url = primary.database().await;
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        let standby = followed(&primary, synchronous).await;
        Self { servers: Mutex::new(Servers { primary, standby }), name, synchronous, url }
    }

    /// Ends the server as a power cut would, and has it recover after this time.
    pub(super) async fn crash(&self, down: Duration) {
        let mut servers = self.servers.lock().await;
        servers.primary.stop_immediate().await;
        tokio::time::sleep(down).await;
        servers.primary.start_again().await;
    }

    /// Ends the server, or has it hang with all its connections open, and has the standby take its
    /// place after this time. `lead` sends everybody there. A server that hung ends after that.
    pub(super) async fn fail_over(&self, hangs: bool, down: Duration, lead: impl FnOnce(Moved)) {
        let mut servers = self.servers.lock().await;
        let frozen = if hangs {
            Some(servers.primary.freeze())
        } else {
            servers.primary.stop_immediate().await;
            None
        };
        tokio::time::sleep(down).await;
        servers.standby.promote().await;
        let port = servers.standby.port();
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        lead(Moved { address, url: servers.standby.url(&self.name) });
        if let Some(frozen) = frozen {
            drop(frozen);
            servers.primary.stop_immediate().await;
        }
        self.follow(&mut servers).await;
    }

    /// The standby is the server from now on, and has a standby of its own.
    async fn follow(&self, servers: &mut Servers) {
        let next = followed(&servers.standby, self.synchronous).await;
        servers.primary = std::mem::replace(&mut servers.standby, next);
    }

    /// Makes a backup, and puts it in the database's place after this time. `stop` ends everybody who
    /// uses the database, and reads what is lost.
    pub(super) async fn restore(&self, after: Duration, stop: impl AsyncFnOnce()) -> Restore {
        let servers = self.servers.lock().await;
        let kept_at = now();
        let backup = servers.primary.dump(&servers.primary.url(&self.name)).await;
        tokio::time::sleep(after).await;
        stop().await;
        servers.primary.restore_over(&self.name, &backup).await;
        Restore { kept_at, at: now() }
    }

    /// Cuts the standby off, and has it take the server's place after this time. `cut` keeps everybody
    /// from the server, and reads what is lost; `lead` sends everybody to the other one.
    pub(super) async fn fail_over_to_the_past(
        &self,
        after: Duration,
        cut: impl AsyncFnOnce(),
        lead: impl AsyncFnOnce(Moved, Restore),
    ) {
        let mut servers = self.servers.lock().await;
        let kept_at = now();
        servers.standby.has_caught_up_with(&servers.primary).await;
        servers.standby.stop_immediate().await;
        tokio::time::sleep(after).await;
        cut().await;
        servers.primary.stop_immediate().await;
        servers.standby.start_again().await;
        servers.standby.promote().await;
        let address = SocketAddr::from(([127, 0, 0, 1], servers.standby.port()));
        let moved = Moved { address, url: servers.standby.url(&self.name) };
        lead(moved, Restore { kept_at, at: now() }).await;
        self.follow(&mut servers).await;
    }
}

/// A new standby, and whether every commit waits for it.
async fn followed(primary: &Postgres, synchronous: bool) -> Postgres {
    let standby = primary.start_standby().await;
    if synchronous {
        primary.wait_for_standbys().await;
    }
    standby
}
