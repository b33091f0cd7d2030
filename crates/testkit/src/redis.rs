//! A private Redis server.

mod cluster;
mod command;
mod replica;
mod tls;

pub use cluster::RedisCluster;
pub use tls::TlsRedis;

use crate::launch::Launch;
use crate::process::Process;
use crate::wait::{self, DEADLINE};
use crate::{ports, programs};

/// How often another port is tried when somebody was faster.
const PORT_ATTEMPTS: u32 = 5;

/// A running Redis that writes nothing to disk. Dropped, it ends; it also ends with the test
/// process.
#[derive(Debug)]
pub struct Redis {
    process: Process,
    port: u16,
}

impl Redis {
    /// Starts a server and waits until it takes connections.
    ///
    /// Panics with its output if it does not come up.
    pub async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// [`Redis::start`] with more arguments.
    pub async fn start_with(arguments: &[&str]) -> Self {
        for _ in 0..PORT_ATTEMPTS {
            if let Some(redis) = Self::start_on(ports::free_port(), arguments).await {
                return redis;
            }
        }
        panic!("no free port for Redis in {PORT_ATTEMPTS} attempts");
    }

    /// Starts a server on this port, perhaps where another one was; `None` if the port is taken.
    ///
    /// Panics with its output if it does not come up for another reason.
    pub async fn start_on(port: u16, arguments: &[&str]) -> Option<Self> {
        let process = Self::launch(port, arguments);
        // Its own word, since on the port somebody else's server might answer.
        let up = wait::poll(DEADLINE, async || {
            let ready = process.stdout().contains("Ready to accept connections");
            if ready { Some(true) } else { process.try_exit().map(|_| false) }
        });
        match up.await {
            Some(true) => Some(Self { process, port }),
            Some(false) if process.stdout().contains("Address already in use") => None,
            Some(false) => panic!("Redis ended{}", process.report()),
            None => panic!("Redis is not ready{}", process.report()),
        }
    }

    fn launch(port: u16, arguments: &[&str]) -> Process {
        Launch::new(programs::redis())
            .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .args(arguments.iter().copied())
            .start()
    }

    /// `redis://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process, to freeze it or to read its output.
    pub fn process(&self) -> &Process {
        &self.process
    }
}
