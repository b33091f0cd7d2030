//! The Redis that all nodes share, and how it fails.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::{DEADLINE, Redis, Signal};
use tokio::sync::Mutex;

use crate::hostile::{Attack, Attacker, Trap};

/// The time between two attacks.
const ATTACK_PAUSE: Duration = Duration::from_millis(300);

/// A server of the run's own, or the one that took its place.
#[derive(Debug)]
pub(super) struct SharedRedis {
    server: Mutex<Redis>,
    /// Where it is in the beginning, past the nodes' proxies.
    pub(super) address: SocketAddr,
}

impl SharedRedis {
    pub(super) async fn start() -> Self {
        let server = Redis::start().await;
        Self { address: address(&server), server: Mutex::new(server) }
    }

    /// Ends the server without a word, and has an empty one take its place after this time. `lead`
    /// sends everybody there.
    pub(super) async fn kill(&self, down: Duration, lead: impl FnOnce(SocketAddr)) {
        let mut server = self.server.lock().await;
        server.process().signal(Signal::Kill);
        server.process().wait_exit(DEADLINE).await;
        tokio::time::sleep(down).await;
        *server = Redis::start().await;
        lead(address(&server));
    }

    /// Stops the server for this time, with all its connections open.
    pub(super) async fn freeze(&self, lasts: Duration) {
        let server = self.server.lock().await;
        server.process().signal(Signal::Stop);
        tokio::time::sleep(lasts).await;
        server.process().signal(Signal::Cont);
    }

    /// Has somebody else write to the server for this time; `None` if that could not be done once.
    pub(super) async fn attack(&self, attack: Attack, lasts: Duration, trap: &Trap) -> Option<()> {
        let server = self.server.lock().await;
        let attacker = Attacker::new(address(&server), trap);
        let until = tokio::time::Instant::now() + lasts;
        let mut done = None;
        while tokio::time::Instant::now() < until {
            // Again and again, since nodes tell Redis of themselves all the time.
            done = attacker.inflict(attack).await.ok().map(drop).or(done);
            tokio::time::sleep(ATTACK_PAUSE).await;
        }
        done
    }

    /// Has the server forget everything.
    pub(super) async fn wipe(&self) {
        self.server.lock().await.command("FLUSHALL").await;
    }
}

fn address(server: &Redis) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], server.port()))
}
