//! One node: a real `stile serve`, the ways to its database, its Redis and its chain.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;
use testkit::{Anvil, Launch, Process, RpcProxy, Signal, TcpProxy, eventually_within, free_port};

use super::configuration::{self, Ways};
use super::sources::{Looks, Sources};
use super::{Options, skew};

/// How long a node may take to be ready on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the nodes know each other by.
const CLUSTER_SECRET: &str = "5b0f7c1d9a3e48627fd1c09b6e2a84535b1c9e07d2f64a38";

/// Where the servers are that nodes find behind their proxies.
#[derive(Debug)]
pub(super) struct Servers<'s> {
    pub(super) database_url: &'s str,
    pub(super) redis: Option<SocketAddr>,
    pub(super) chain_url: &'s str,
}

/// A node and what stands around it. The processes come and go; address and proxies stay.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) number: usize,
    pub(super) url: String,
    /// Its way to PostgreSQL.
    pub(super) store: TcpProxy,
    /// Its way to Redis, where there is one.
    pub(super) redis: Option<TcpProxy>,
    /// Its ways to the chain.
    pub(super) endpoints: Vec<RpcProxy>,
    binary: PathBuf,
    seed: u64,
    /// What makes its clock wrong.
    faketime: String,
    environment: Vec<(String, String)>,
    directory: TempDir,
    logs: Option<PathBuf>,
    process: Mutex<Option<Process>>,
    /// Whether it is to run: not while it is killed on purpose.
    wanted: AtomicBool,
    /// Whether a fault has it.
    hit: AtomicBool,
    pub(super) starts: AtomicU64,
    /// How often it ended without being told to.
    pub(super) exits: AtomicU64,
    /// What it counted, by start: a counter begins anew with its process.
    counters: Mutex<BTreeMap<(u64, &'static str), f64>>,
    /// The starts that were seen to have a wrong clock.
    skewed: Mutex<BTreeSet<u64>>,
    /// Whom it was seen to learn of the others from.
    looks: Mutex<Looks>,
    client: reqwest::Client,
}

/// What is asked of a node's metrics.
pub(super) const FENCED: &str = "stile_fence_reject_total";
pub(super) const TAKEOVERS: &str = "stile_lease_takeover_total";
pub(super) const HAND_OVERS: &str = "stile_lane_hand_over_total";
pub(super) const REALIGNED: &str = "stile_lanes_realigned_total";
const COUNTED: [&str; 4] = [FENCED, TAKEOVERS, HAND_OVERS, REALIGNED];

impl Node {
    pub(super) async fn new(
        number: usize,
        options: &Options,
        servers: &Servers<'_>,
        lanes: usize,
    ) -> Self {
        let (before, after) = servers.database_url.split_once('@').expect("user@host");
        let (host, database) = after.split_once('/').expect("host/database");
        let store = TcpProxy::start(host.parse().expect("an address")).await;
        let redis = match servers.redis {
            Some(redis) => Some(TcpProxy::start(redis).await),
            None => None,
        };
        let mut endpoints = Vec::new();
        for _ in 0..super::ENDPOINTS {
            endpoints.push(RpcProxy::start(servers.chain_url).await);
        }
        let port = free_port();
        let zone = configuration::zone(number).replace('/', "%2F");
        let store_url = format!(
            "{before}@{}/{database}?application_name=n{number}&options=-c%20TimeZone%3D{zone}",
            store.addr()
        );
        let directory = tempfile::tempdir().expect("create a temporary directory");
        let ways = Ways {
            store_url,
            redis: redis.as_ref().map(TcpProxy::addr),
            endpoints: endpoints.iter().map(RpcProxy::url).collect(),
        };
        let text = configuration::text(number, port, &ways, options, lanes);
        std::fs::write(directory.path().join("stile.toml"), text).expect("write the configuration");
        let mut environment: Vec<(String, String)> =
            (0..lanes).map(|lane| (format!("KEY_{lane}"), Anvil::key(lane).to_owned())).collect();
        environment.push(("TZ".to_owned(), configuration::zone(number + 1).to_owned()));
        environment.push(("CLUSTER_SECRET".to_owned(), CLUSTER_SECRET.to_owned()));
        environment.extend(options.environment.iter().cloned());
        let client = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(2)).build();
        Self {
            number,
            url: format!("http://127.0.0.1:{port}"),
            store,
            redis,
            endpoints,
            binary: options.binary.clone(),
            seed: options.seed,
            faketime: skew::library(),
            environment,
            directory,
            logs: options.logs.clone(),
            process: Mutex::default(),
            wanted: AtomicBool::new(false),
            hit: AtomicBool::new(false),
            starts: AtomicU64::new(0),
            exits: AtomicU64::new(0),
            counters: Mutex::default(),
            skewed: Mutex::default(),
            looks: Mutex::default(),
            client: client.expect("build an HTTP client"),
        }
    }

    /// Has the node for a fault; `false` if another one has it.
    pub(super) fn take(&self) -> bool {
        !self.hit.swap(true, Ordering::AcqRel)
    }

    /// The fault is over.
    pub(super) fn give_back(&self) {
        self.hit.store(false, Ordering::Release);
    }

    /// Starts a process without waiting for it.
    pub(super) fn start(&self) {
        self.wanted.store(true, Ordering::Release);
        let start = self.starts.fetch_add(1, Ordering::AcqRel) + 1;
        let file = self.directory.path().join("stile.toml");
        let mut launch = Launch::new(&self.binary).args(["serve", "--config"]).arg(file);
        for (name, value) in &self.environment {
            launch = launch.env(name, value);
        }
        for (name, value) in skew::environment(&self.faketime, self.offset(start)) {
            launch = launch.env(name, value);
        }
        *self.process.lock().unwrap() = Some(launch.start());
    }

    fn offset(&self, start: u64) -> i64 {
        skew::offset(self.seed, self.number, start)
    }

    /// Waits until it serves.
    pub(super) async fn is_ready(&self) {
        let what = format!("n{} to be ready", self.number);
        eventually_within(PATIENCE, &what, async || {
            let answer = self.client.get(format!("{}/health/ready", self.url)).send().await;
            self.has_not_ended();
            answer.is_ok_and(|answer| answer.status() == 200).then_some(())
        })
        .await;
    }

    /// Panics with what it said if it has.
    fn has_not_ended(&self) {
        let process = self.process.lock().unwrap();
        if let Some(process) = process.as_ref().filter(|process| process.try_exit().is_some()) {
            panic!("n{} has ended:\n{}", self.number, process.stderr());
        }
    }

    /// Ends the process without a word.
    pub(super) async fn kill(&self) {
        self.end(Signal::Kill).await;
    }

    /// Asks the process to end, and waits until it has.
    pub(super) async fn terminate(&self) {
        self.end(Signal::Term).await;
    }

    async fn end(&self, signal: Signal) {
        self.wanted.store(false, Ordering::Release);
        let process = self.process.lock().unwrap().take();
        let Some(process) = process else { return };
        if process.try_exit().is_none() {
            process.signal(signal);
            process.wait_exit(testkit::DEADLINE).await;
        }
        self.keep_log(&process);
    }

    /// Stops the process where it stands, or lets it go on.
    pub(super) fn signal(&self, signal: Signal) {
        let process = self.process.lock().unwrap();
        if let Some(process) = process.as_ref().filter(|process| process.try_exit().is_none()) {
            process.signal(signal);
        }
    }

    /// Starts it again if it ended although it is wanted, as a supervisor would.
    pub(super) fn supervise(&self) {
        let ended = {
            let process = self.process.lock().unwrap();
            let ended = process.as_ref().is_some_and(|process| process.try_exit().is_some());
            if ended && let Some(process) = process.as_ref() {
                self.keep_log(process);
            }
            ended
        };
        if ended && self.wanted.load(Ordering::Acquire) {
            self.exits.fetch_add(1, Ordering::AcqRel);
            self.start();
        }
    }

    fn keep_log(&self, process: &Process) {
        if let Some(logs) = &self.logs {
            let start = self.starts.load(Ordering::Acquire);
            let file = logs.join(format!("n{}-{start}.log", self.number));
            std::fs::write(file, process.stderr()).expect("keep a log");
        }
    }

    /// The log of the process that runs, for whoever wants to keep it.
    pub(super) fn keep_running_log(&self) {
        if let Some(process) = self.process.lock().unwrap().as_ref() {
            self.keep_log(process);
        }
    }

    /// Reads what it counts; nothing if it does not answer.
    pub(super) async fn read_metrics(&self) {
        let start = self.starts.load(Ordering::Acquire);
        let Ok(answer) = self.client.get(format!("{}/metrics", self.url)).send().await else {
            return;
        };
        if start != self.starts.load(Ordering::Acquire) {
            return;
        }
        let date = answer.headers().get("date").and_then(|date| date.to_str().ok());
        let offset = self.offset(start);
        if offset != 0 && date.is_some_and(|date| skew::shows(date, offset)) {
            self.skewed.lock().unwrap().insert(start);
        }
        let Ok(page) = answer.text().await else { return };
        self.looks.lock().unwrap().add(start, &page);
        let mut counters = self.counters.lock().unwrap();
        for name in COUNTED {
            counters.insert((start, name), sum(&page, name));
        }
    }

    /// What it answers to a question; `None` if it does not, or refuses.
    pub(super) async fn page(&self, path: &str) -> Option<String> {
        let answer = self.client.get(format!("{}{path}", self.url)).send().await.ok()?;
        answer.error_for_status().ok()?.text().await.ok()
    }

    /// How often it was started with a wrong clock that showed in its answers.
    pub(super) fn skewed(&self) -> u64 {
        self.skewed.lock().unwrap().len() as u64
    }

    /// Whom it learned of the others from, as far as it was asked.
    pub(super) fn sources(&self) -> Sources {
        self.looks.lock().unwrap().sources
    }

    /// What all its processes have counted, as far as they were asked in time.
    pub(super) fn counted(&self, name: &str) -> f64 {
        let counters = self.counters.lock().unwrap();
        counters.iter().filter(|((_, known), _)| *known == name).map(|(_, value)| value).sum()
    }
}

/// The sum of a metric's series.
fn sum(page: &str, name: &str) -> f64 {
    let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
    let series = lines.filter(|(series, _)| series.split('{').next() == Some(name));
    series.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_one_name_are_added_up() {
        let page = "# HELP a b\na{op=\"x\"} 2\na{op=\"y\"} 3\nab 7\na_total 9\n";
        assert_eq!(sum(page, "a"), 5.0);
    }
}
