//! `stile bench allocate`.

use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use metrics_exporter_prometheus::PrometheusHandle;
use stile_chain::Chains;
use stile_domain::{Address, ChainId, Lane};
use stile_engine::{Mode, Node, NonceComponent, Settings};
use stile_registry::Registry;
use stile_server::{App, Directory, Server};
use stile_store::raw::{self, RawLimits};

use super::http::Connection;
use super::load::{self, Caller, Got, Seen};
use super::stores::{Databases, StoreKind};
use super::table::{Line, Raw, Report};
use super::{Failure, show};
use crate::cli::run::recorder;
use crate::wiring::default_open_options;

#[derive(Debug, Args)]
pub(in crate::cli) struct AllocateArgs {
    /// Which stores to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sqlite", "postgres"])]
    stores: Vec<StoreKind>,
    /// A PostgreSQL database to use instead of a private server.
    #[arg(long, value_name = "URL")]
    postgres_url: Option<String>,
    /// Numbers of lanes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64])]
    lanes: Vec<usize>,
    /// Which modes to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["basic", "worker-queue"])]
    modes: Vec<ModeName>,
    /// Which ways of calling to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["in-process", "http"])]
    calls: Vec<Way>,
    /// Callers at one time in process; at most 1000 for each lane, which is what its queue holds.
    #[arg(long, default_value_t = 4096)]
    callers: usize,
    /// Callers at one time over HTTP.
    #[arg(long, default_value_t = 256)]
    http_callers: usize,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModeName {
    Basic,
    WorkerQueue,
}

impl ModeName {
    fn name(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::WorkerQueue => "worker-queue",
        }
    }

    fn mode(self) -> Mode {
        match self {
            Self::Basic => Mode::Basic,
            Self::WorkerQueue => Settings::new("default").mode,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    InProcess,
    Http,
}

pub(super) async fn run(args: AllocateArgs) -> Result<(), Failure> {
    let prometheus = recorder()?;
    let each = Duration::from_secs(args.seconds.max(1));
    let figures = args.stores.len() * (1 + args.lanes.len() * args.modes.len() * args.calls.len());
    let bar = show::progress(figures)?;
    let mut report = Report::default();
    for kind in args.stores.iter().copied() {
        bar.set_message(format!("{}: raw limits", kind.name()));
        let databases = Databases::start(kind, args.postgres_url.as_deref()).await?;
        let limits = raw::measure(&databases.fresh("raw").await?, each).await?;
        report.raw.push(shown(kind, &limits));
        bar.inc(1);
        for mode in args.modes.iter().copied() {
            for lanes in args.lanes.iter().copied() {
                let lanes = fresh_lanes(lanes)?;
                bar.set_message(format!("{}, {}, {} lanes", kind.name(), mode.name(), lanes.len()));
                let url = databases.fresh(&format!("{}-{}", mode.name(), lanes.len())).await?;
                let node = Arc::new(start(&url, mode.mode()).await?);
                for way in args.calls.iter().copied() {
                    let (what, callers) = match way {
                        Way::InProcess => {
                            ("in process", args.callers.min(lanes.len() * CALLERS_PER_LANE))
                        }
                        Way::Http => ("HTTP", args.http_callers),
                    };
                    let seen = match way {
                        Way::InProcess => in_process(&node, &lanes, callers, each).await?,
                        Way::Http => over_http(&node, &prometheus, &lanes, callers, each).await?,
                    };
                    report.allocate.push(Line {
                        store: kind.name(),
                        what,
                        mode: mode.name(),
                        lanes: lanes.len(),
                        callers,
                        per_second: seen.per_second,
                        p50_ms: seen.p50.as_secs_f64() * 1e3,
                        p99_ms: seen.p99.as_secs_f64() * 1e3,
                        failed: seen.failed,
                        times_single_row_commits: seen.per_second / limits.single_row_commits,
                        share_of_bulk_rows: seen.per_second / limits.bulk_rows,
                    });
                    bar.inc(1);
                }
                node.shutdown().await;
            }
        }
    }
    bar.finish_and_clear();
    show::print(&report, args.json, Report::table)
}

fn shown(kind: StoreKind, limits: &RawLimits) -> Raw {
    Raw {
        store: kind.name(),
        single_row_commits_per_second: limits.single_row_commits,
        bulk_rows_per_second: limits.bulk_rows,
        bulk_rows: raw::BULK_ROWS,
        bulk_connections: limits.bulk_connections,
    }
}

/// What a lane's queue holds by default, with some room.
const CALLERS_PER_LANE: usize = 1000;

/// Lanes that nobody has used before.
fn fresh_lanes(count: usize) -> Result<Vec<Lane>, Failure> {
    let chain = ChainId::new(31337)?;
    let lanes = (0..count).map(|_| {
        let random = stile_domain::HoldId::fresh().0.into_bytes().repeat(2);
        Lane::new(chain, Address::from_slice(&random[random.len() - 20..]))
    });
    Ok(lanes.collect())
}

async fn start(url: &str, mode: Mode) -> Result<Node, Failure> {
    let mut settings = Settings::new("bench");
    settings.mode = mode;
    // Nobody marks these holds; none of them is to run out within the measurement.
    settings.hold_timeout = Duration::from_secs(3600);
    let store = stile_store::open(default_open_options(url, true))?;
    Ok(Node::start(settings, store, Arc::new(Chains::default())).await?)
}

struct InProcess {
    nonces: NonceComponent,
    lane: Lane,
}

impl Caller for InProcess {
    async fn call(&mut self) -> Got {
        Got::one(self.nonces.allocate(self.lane).await.is_ok())
    }
}

async fn in_process(
    node: &Node,
    lanes: &[Lane],
    callers: usize,
    each: Duration,
) -> Result<Seen, Failure> {
    let spread = lanes.iter().cycle().take(callers);
    let callers = spread.map(|lane| InProcess { nonces: node.nonces().clone(), lane: *lane });
    load::run(callers.collect(), each).await
}

struct OverHttp {
    connection: Connection,
    path: String,
}

impl Caller for OverHttp {
    async fn call(&mut self) -> Got {
        let answer = self.connection.post(&self.path, String::new()).await;
        Got::one(answer.is_ok_and(|(status, _)| status.is_success()))
    }
}

async fn over_http(
    node: &Arc<Node>,
    prometheus: &PrometheusHandle,
    lanes: &[Lane],
    callers: usize,
    each: Duration,
) -> Result<Seen, Failure> {
    let app = App {
        node: Arc::clone(node),
        directory: Directory::new(lanes.iter().copied()),
        prometheus: prometheus.clone(),
        registry: Registry::in_process(stile_registry::Settings::default())?,
        cluster: stile_server::ClusterOptions::default(),
    };
    let server = Server::start(([127, 0, 0, 1], 0).into(), app).await?;
    let mut connected = Vec::new();
    for lane in lanes.iter().cycle().take(callers) {
        let connection = Connection::open(server.address()).await?;
        let path = format!("/api/v1/nonces/{}/allocate", lane.signer);
        connected.push(OverHttp { connection, path });
    }
    let seen = load::run(connected, each).await?;
    server.stop(Duration::from_secs(1)).await;
    Ok(seen)
}
