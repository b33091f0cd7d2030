//! One node.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, Process, Signal, free_port};

use crate::cli::Failure;
use crate::cli::bench::http::Connection;

/// How long a node may take to be ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often another port is tried when somebody was faster.
const PORT_ATTEMPTS: u32 = 5;

/// `stile serve`, as a process of its own. Dropped, it is killed.
pub(in crate::cli::bench) struct Node {
    pub(in crate::cli::bench) id: String,
    pub(in crate::cli::bench) address: SocketAddr,
    process: Process,
    _directory: TempDir,
}

impl Node {
    /// Starts one and waits until it is ready. The configuration does not say where it listens.
    pub(in crate::cli::bench) async fn start(
        id: &str,
        configuration: &str,
    ) -> Result<Self, Failure> {
        for attempt in 1.. {
            let node = Self::launch(id, configuration)?;
            match ready(&node.process, node.address).await {
                Ok(()) => return Ok(node),
                Err(_) if attempt < PORT_ATTEMPTS && node.was_too_late() => {}
                Err(failure) => return Err(failure),
            }
        }
        Err("no free port".into())
    }

    fn launch(id: &str, configuration: &str) -> Result<Self, Failure> {
        let directory = tempfile::Builder::new().prefix("stile-bench-").tempdir()?;
        let file = directory.path().join("stile.toml");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let place = format!(
            "node.id = \"{id}\"\nserver.listen = \"{address}\"\n\
             cluster.advertise_url = \"http://{address}\"\n"
        );
        std::fs::write(&file, place + configuration)?;
        let process = Launch::new(std::env::current_exe()?)
            .args(["serve", "--config"])
            .arg(&file)
            .current_directory(std::env::current_dir()?)
            .start();
        Ok(Self { id: id.to_owned(), address, process, _directory: directory })
    }

    fn was_too_late(&self) -> bool {
        self.process.stderr().contains("Address already in use")
    }

    pub(in crate::cli::bench) async fn connect(&self) -> Result<Connection, Failure> {
        Connection::open(self.address).await
    }

    /// What it answers to a question that it can answer.
    pub(in crate::cli::bench) async fn get(&self, path: &str) -> Result<Value, Failure> {
        let (status, body) = self.connect().await?.get(path).await?;
        if !status.is_success() {
            let text = String::from_utf8_lossy(&body).into_owned();
            return Err(format!("node {} answered {status} to {path}: {text}", self.id).into());
        }
        Ok(serde_json::from_slice(&body)?)
    }

    /// A counter of its metrics with one label, by that label's values.
    pub(in crate::cli::bench) async fn counter(
        &self,
        name: &str,
    ) -> Result<BTreeMap<String, f64>, Failure> {
        let (_, body) = self.connect().await?.get("/metrics").await?;
        Ok(series(&String::from_utf8_lossy(&body), name))
    }

    /// A counter of its metrics that has no label.
    pub(in crate::cli::bench) async fn total(&self, name: &str) -> Result<f64, Failure> {
        let (_, body) = self.connect().await?.get("/metrics").await?;
        Ok(total(&String::from_utf8_lossy(&body), name))
    }

    /// The most memory it has had so far, in bytes, where the system tells.
    pub(in crate::cli::bench) fn peak_memory(&self) -> Option<u64> {
        self.memory_of("VmHWM:")
    }

    /// The memory that it has now, in bytes, where the system tells.
    pub(in crate::cli::bench) fn memory(&self) -> Option<u64> {
        self.memory_of("VmRSS:")
    }

    fn memory_of(&self, name: &str) -> Option<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
        Some(kilobytes * 1024)
    }

    /// How many files it has open, where the system tells, and how many of them are sockets.
    pub(in crate::cli::bench) fn open_files(&self) -> Option<(usize, usize)> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.process.id())).ok()?;
        let files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
        let is_socket = |file: &&std::path::PathBuf| {
            let target = std::fs::read_link(file).unwrap_or_default();
            target.to_string_lossy().starts_with("socket:")
        };
        Some((files.len(), files.iter().filter(is_socket).count()))
    }

    /// Ends it without a word, and waits until it is gone.
    pub(in crate::cli::bench) async fn kill(&self) {
        self.process.signal(Signal::Kill);
        self.process.wait_exit(PATIENCE).await;
    }
}

/// The values of a metric's series on a page, by the value of their one label.
fn series(page: &str, name: &str) -> BTreeMap<String, f64> {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
    let found = lines.filter_map(|rest| {
        let (labels, value) = rest.rsplit_once("} ")?;
        Some((labels.split('"').nth(1)?.to_owned(), value.parse().ok()?))
    });
    found.collect()
}

/// The value of a metric without labels; 0 if it is not there yet.
fn total(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    lines.filter_map(|value| value.trim().parse::<f64>().ok()).next().unwrap_or_default()
}

/// Waits until a node answers that it is ready.
pub(in crate::cli::bench) async fn ready(
    process: &Process,
    address: SocketAddr,
) -> Result<(), Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Ok(mut connection) = Connection::open(address).await
            && let Ok((status, _)) = connection.get("/health/ready").await
            && status.is_success()
        {
            return Ok(());
        }
        if process.try_exit().is_some() || Instant::now() > until {
            return Err(format!("the node did not get ready:\n{}", process.stderr()).into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::{series, total};

    #[test]
    fn a_metric_without_labels_is_found_by_its_whole_name() {
        let page =
            "# HELP late_total what\nlate_total_more 7\nlate_total{kind=\"a\"} 9\nlate_total 3\n";
        assert_eq!((total(page, "late_total"), total(page, "other_total")), (3.0, 0.0));
    }

    #[test]
    fn series_are_told_apart_by_their_label() {
        let page = "# HELP asked_total what\nasked_total{kind=\"a\"} 2\nasked_total{kind=\"b\"} 3.5\n\
                    asked_total_more{kind=\"c\"} 1\nother_total{kind=\"a\"} 9\n";
        let found: Vec<_> = series(page, "asked_total").into_iter().collect();
        assert_eq!(found, [("a".to_owned(), 2.0), ("b".to_owned(), 3.5)]);
    }
}
