//! The PostgreSQL servers under all nodes, and how they fail.
//!
//! One server takes writes, and a synchronous standby has every commit that it has answered. When
//! the standby takes its place, a new standby is copied from it, so that the next failover loses
//! nothing either.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::Postgres;
use tokio::sync::Mutex;

/// A standby that has lost its server looks for it this often; commits wait until it is back.
const SETTINGS: [(&str, &str); 1] = [("wal_retrieve_retry_interval", "200ms")];

/// Servers of the run's own, with one database.
#[derive(Debug)]
pub(super) struct Database {
    servers: Mutex<Servers>,
    name: String,
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
    pub(super) async fn start() -> Self {
        let primary = Postgres::start(&SETTINGS).await;
        let url = primary.database().await;
        let name = url.rsplit('/').next().unwrap_or_default().to_owned();
        let standby = followed(&primary).await;
        Self { servers: Mutex::new(Servers { primary, standby }), name, url }
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
        let next = followed(&servers.standby).await;
        servers.primary = std::mem::replace(&mut servers.standby, next);
    }
}

/// A new standby that every commit waits for.
async fn followed(primary: &Postgres) -> Postgres {
    let standby = primary.start_standby().await;
    primary.wait_for_standbys().await;
    standby
}
