//! `stile bench cluster`: what a second node brings, and what all of them cost the database.

mod report;

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use stile_store::raw;

use self::report::{Raw, Report, Row};
use super::load;
use super::nodes::{Accounts, Cluster, Mode, Sender, Signers, Wanted, Way, lanes_by_node};
use super::stores::{Databases, StoreKind};
use super::{Failure, show};

#[derive(Debug, Args)]
pub(in crate::cli) struct ClusterArgs {
    /// A PostgreSQL server to use instead of a private one: any database on it, in which nothing is
    /// changed. Databases are created next to it, and removed.
    #[arg(long, value_name = "URL")]
    store_url: Option<String>,
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    nodes: Vec<usize>,
    /// Signers, each with a lane of its own.
    #[arg(long, default_value_t = 1000)]
    signers: usize,
    /// Callers at one time, who share the signers.
    #[arg(long, default_value_t = 128)]
    callers: usize,
    /// Which nodes calls go to. One node alone is always asked as the holder.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["holder", "any-accepts", "any-forwards"])]
    ways: Vec<Way>,
    /// How the nodes work their lanes.
    #[arg(long, value_enum, default_value = "worker-queue")]
    mode: Mode,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ClusterArgs) -> Result<(), Failure> {
    if args.signers == 0 || args.callers == 0 || args.nodes.contains(&0) {
        return Err("--nodes, --signers and --callers: give numbers from 1".into());
    }
    let bench = Bench::new(args)?;
    let report = bench.run().await?;
    bench.bar.finish_and_clear();
    show::print(&report, bench.args.json, Report::tables)
}

struct Bench {
    args: ClusterArgs,
    each: Duration,
    accounts: Arc<Accounts>,
    bar: ProgressBar,
}

impl Bench {
    fn new(args: ClusterArgs) -> Result<Self, Failure> {
        let rows: usize = args.nodes.iter().map(|nodes| ways(&args, *nodes).len()).sum();
        let bar = show::progress(1 + rows)?;
        let accounts = Arc::new(Accounts::new(args.signers)?);
        Ok(Self { each: Duration::from_secs(args.seconds.max(1)), args, accounts, bar })
    }

    async fn run(&self) -> Result<Report, Failure> {
        let databases =
            Databases::start(StoreKind::Postgres, self.args.store_url.as_deref()).await?;
        let server = databases.server().await?;
        self.step("raw limits".into());
        let raw = raw_limit(&server, self.each).await?;
        self.bar.inc(1);
        let mut rows: Vec<Row> = Vec::new();
        for nodes in self.args.nodes.iter().copied() {
            for way in ways(&self.args, nodes) {
                self.step(format!("{nodes} nodes, calls to {}", way.name()));
                let mut row = self.row(&server, nodes, way).await?;
                row.share_of_raw = row.per_second / raw.bound_per_second;
                let one = rows.iter().find(|row| row.nodes == 1);
                row.times_one_node = one.map(|one| row.per_second / one.per_second);
                rows.push(row);
                self.bar.inc(1);
            }
        }
        Ok(Report { raw, cluster: rows })
    }

    async fn row(&self, server: &str, nodes: usize, way: Way) -> Result<Row, Failure> {
        let wanted = Wanted {
            server,
            nodes,
            accounts: &self.accounts,
            signers: Signers::Send,
            mode: self.args.mode,
            settings: format!("cluster.not_holder = \"{}\"", way.not_holder()),
            first: "",
            in_flight: None,
        };
        Cluster::with(wanted, async |cluster| self.measure(cluster, way).await).await
    }

    async fn measure(&self, cluster: &Cluster, way: Way) -> Result<Row, Failure> {
        let lanes = lanes_by_node(cluster).await?;
        let senders = Sender::many(cluster, &lanes, way, self.args.callers).await?;
        let (seen, cost) = tokio::join!(load::run(senders, self.each), self.cost(cluster));
        let (seen, cost) = (seen?, cost?);
        let accepted = (seen.per_second * self.each.as_secs_f64()).max(1.0);
        Ok(Row {
            nodes: cluster.nodes.len(),
            calls: way.name(),
            mode: self.args.mode.name(),
            signers: self.args.signers,
            callers: self.args.callers,
            per_second: seen.per_second,
            p50_ms: seen.p50.as_secs_f64() * 1e3,
            p99_ms: seen.p99.as_secs_f64() * 1e3,
            refused: seen.failed,
            lease_statements_per_second: cost.lease_statements,
            commits_per_tx: cost.commits / accepted,
            wal_bytes_per_tx: cost.wal_bytes / accepted,
            share_of_raw: 0.0,
            times_one_node: None,
        })
    }

    /// What the nodes ask of the database while callers are counted.
    async fn cost(&self, cluster: &Cluster) -> Result<Cost, Failure> {
        const STATEMENTS: &str = "stile_lease_statements_total";
        tokio::time::sleep(load::warm_up(self.each)).await;
        let statements = cluster.counter(STATEMENTS).await?;
        let counters = cluster.watch.counters().await?;
        tokio::time::sleep(self.each).await;
        let now = cluster.watch.counters().await?;
        let mut lease_statements = cluster.counter(STATEMENTS).await?;
        for (kind, count) in &mut lease_statements {
            let before = statements.get(kind).copied().unwrap_or_default();
            *count = (*count - before) / self.each.as_secs_f64();
        }
        Ok(Cost {
            lease_statements,
            commits: now.commits.saturating_sub(counters.commits) as f64,
            wal_bytes: now.wal_bytes.saturating_sub(counters.wal_bytes) as f64,
        })
    }

    fn step(&self, message: String) {
        self.bar.set_message(message);
        self.bar.tick();
    }
}

/// What nodes cost the database for as long as one figure takes.
struct Cost {
    /// A second, by kind.
    lease_statements: std::collections::BTreeMap<String, f64>,
    commits: f64,
    wal_bytes: f64,
}

/// Where there is one node, all ways are the same.
fn ways(args: &ClusterArgs, nodes: usize) -> Vec<Way> {
    if nodes == 1 { vec![Way::Holder] } else { args.ways.clone() }
}

async fn raw_limit(server: &str, each: Duration) -> Result<Raw, Failure> {
    let database = raw::OwnDatabase::create(server).await?;
    let measured = async {
        let store = stile_store::open(crate::wiring::default_open_options(database.url(), false))?;
        store.migrate().await?;
        store.close().await;
        raw::measure_admission(database.url(), each.min(Duration::from_secs(4))).await
    };
    let measured = measured.await;
    database.remove().await?;
    let limits = measured?;
    Ok(Raw {
        rows_in_a_commit: raw::BULK_ROWS,
        bound_per_second: limits.bound.per_second,
        bound_connections: limits.bound.connections,
    })
}
