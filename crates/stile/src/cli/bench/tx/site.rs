//! What a figure is measured on: a chain, and `stile serve` as a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, Process, free_port};

use super::chain::{self, Chain};
use crate::cli::Failure;
use crate::cli::bench::http::Connection;
use crate::cli::bench::nodes::ready;

/// A node with its chain. Dropped, both are killed.
pub(super) struct Site {
    process: Process,
    address: SocketAddr,
    _directory: TempDir,
    /// From the start of the process until it said that it was ready.
    pub(super) ready_after: Duration,
    /// The accounts it signs for.
    pub(super) signers: Vec<String>,
    pub(super) chain: Chain,
}

impl Site {
    /// `settings` are further lines of the configuration, before its first table.
    pub(super) async fn start(
        store: &str,
        chain: Chain,
        signers: usize,
        settings: &str,
    ) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("stile-bench-").tempdir()?;
        let file = directory.path().join("stile.toml");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        std::fs::write(&file, configuration(store, &chain.url(), signers, address, settings))?;
        let mut launch = Launch::new(std::env::current_exe()?)
            .args(["serve", "--config"])
            .arg(&file)
            .current_directory(std::env::current_dir()?);
        for account in 0..signers {
            launch = launch.env(key_variable(account), chain::key(account));
        }
        let started = Instant::now();
        let process = launch.start();
        ready(&process, address).await?;
        let ready_after = started.elapsed();
        let signers = (0..signers).map(chain::account).collect::<Result<_, _>>()?;
        Ok(Self { process, address, _directory: directory, ready_after, signers, chain })
    }

    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(self.address).await
    }

    /// Kills the node and leaves the chain.
    pub(super) fn into_chain(self) -> Chain {
        self.chain
    }

    /// What the node says of one of its signers.
    pub(super) async fn signer(&self, signer: &str) -> Result<Value, Failure> {
        let (status, body) =
            self.connect().await?.get(&format!("/api/v1/signers/{signer}")).await?;
        if !status.is_success() {
            return Err(format!("the node answered {status}: {}", text(&body)).into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// The sum of a number that the node tells of each of its signers.
    pub(super) async fn sum(&self, field: &str) -> Result<u64, Failure> {
        let mut sum = 0;
        for signer in &self.signers {
            sum += self.signer(signer).await?[field].as_u64().unwrap_or(0);
        }
        Ok(sum)
    }

    /// The memory that the node has in use, in bytes.
    pub(super) fn resident(&self) -> Result<u64, Failure> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok());
        kilobytes.map(|kilobytes: u64| kilobytes * 1024).ok_or_else(|| "no VmRSS".into())
    }
}

fn key_variable(account: usize) -> String {
    format!("STILE_BENCH_KEY_{account}")
}

fn configuration(
    store: &str,
    endpoint: &str,
    signers: usize,
    address: SocketAddr,
    settings: &str,
) -> String {
    let store = match store.strip_prefix("sqlite://") {
        // From wherever the node is started.
        Some(path) => format!(
            "sqlite://{}",
            std::path::absolute(Path::new(path))
                .map_or_else(|_| path.into(), |path| path.display().to_string())
        ),
        None => store.to_owned(),
    };
    let mut text = format!(
        "{settings}\nnode.id = \"bench\"\nserver.listen = \"{address}\"\nlog.level = \"warn\"\n\
         store.url = {store:?}\nconfirmations.required = 1\n\
         [[chain]]\nid = {}\nendpoints = [{endpoint:?}]\n",
        chain::ID,
    );
    for account in 0..signers {
        text += &format!("[[signer]]\nkey = \"env:{}\"\n", key_variable(account));
    }
    text
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
