//! `stile bench acquires`: how often nodes ask for lanes in vain, by mode.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;

use super::nodes::{Accounts, Cluster, Mode, Signers, Wanted};
use super::stores::{Databases, StoreKind};
use super::table::{align, plain, thousands};
use super::{Failure, show};

#[derive(Debug, Args)]
pub(in crate::cli) struct AcquiresArgs {
    /// A PostgreSQL server to use instead of a private one: any database on it, in which nothing is
    /// changed. Databases are created next to it, and removed.
    #[arg(long, value_name = "URL")]
    store_url: Option<String>,
    /// Nodes that calls go to in turn.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Lanes that all of them are asked for.
    #[arg(long, default_value_t = 12)]
    lanes: usize,
    /// Callers at one time.
    #[arg(long, default_value_t = 24)]
    callers: usize,
    /// Nonces asked for in each mode.
    #[arg(long, default_value_t = 12_000)]
    calls: usize,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    mode: &'static str,
    nodes: usize,
    lanes: usize,
    callers: usize,
    calls: usize,
    calls_refused: usize,
    calls_per_second: f64,
    /// Lanes that nodes asked the database for.
    asked: f64,
    /// Those of them that were another node's.
    in_vain: f64,
    in_vain_per_1000_calls: f64,
    /// Against the first mode.
    share_of_first: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    acquires: Vec<Line>,
}

pub(super) async fn run(args: AcquiresArgs) -> Result<(), Failure> {
    if args.nodes == 0 || args.lanes == 0 || args.callers == 0 {
        return Err("--nodes, --lanes and --callers: give numbers from 1".into());
    }
    let modes = [Mode::Basic, Mode::WorkerQueue];
    let bar = show::progress(modes.len() * args.calls)?;
    let accounts = Arc::new(Accounts::new(args.lanes)?);
    let databases = Databases::start(StoreKind::Postgres, args.store_url.as_deref()).await?;
    let server = databases.server().await?;
    let mut report = Report { acquires: Vec::new() };
    for mode in modes {
        bar.set_message(mode.name());
        bar.tick();
        let wanted = Wanted {
            server: &server,
            nodes: args.nodes,
            accounts: &accounts,
            signers: Signers::GiveOutNonces,
            mode,
            settings: "cluster.not_holder = \"accept\"".into(),
            first: "",
            in_flight: None,
        };
        let measure = async |cluster: &mut Cluster| measure(&args, cluster, mode, &bar).await;
        let mut line = Cluster::with(wanted, measure).await?;
        let first = report.acquires.first().map_or(line.in_vain, |first| first.in_vain);
        line.share_of_first = line.in_vain / first.max(1.0);
        report.acquires.push(line);
    }
    bar.finish_and_clear();
    show::print(&report, args.json, Report::table)
}

async fn measure(
    args: &AcquiresArgs,
    cluster: &Cluster,
    mode: Mode,
    bar: &ProgressBar,
) -> Result<Line, Failure> {
    const ACQUIRES: &str = "stile_lease_acquire_total";
    let before = cluster.counter(ACQUIRES).await?;
    let (next, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let paths: Vec<String> = cluster.accounts.addresses.iter().map(path).collect();
    let mut callers = Vec::new();
    for _ in 0..args.callers {
        let mut connections = Vec::new();
        for node in &cluster.nodes {
            connections.push(node.connect().await?);
        }
        callers.push(connections);
    }
    let begun = Instant::now();
    let calling = callers.into_iter().map(async |mut connections| {
        loop {
            let call = next.fetch_add(1, Ordering::Relaxed);
            if call >= args.calls {
                return;
            }
            // Shifted with every round of lanes, so that each meets every node.
            let node = (call + call / paths.len()) % connections.len();
            let answer = connections[node].post(&paths[call % paths.len()], String::new()).await;
            if !answer.is_ok_and(|(status, _)| status.is_success()) {
                refused.fetch_add(1, Ordering::Relaxed);
            }
            bar.inc(1);
        }
    });
    futures::future::join_all(calling).await;
    let seconds = begun.elapsed().as_secs_f64();
    let after = cluster.counter(ACQUIRES).await?;
    let rise = |result: &str| {
        let value = |page: &std::collections::BTreeMap<String, f64>| {
            page.get(result).copied().unwrap_or_default()
        };
        value(&after) - value(&before)
    };
    let in_vain = rise("other");
    Ok(Line {
        mode: mode.name(),
        nodes: cluster.nodes.len(),
        lanes: args.lanes,
        callers: args.callers,
        calls: args.calls,
        calls_refused: refused.into_inner(),
        calls_per_second: args.calls as f64 / seconds,
        asked: after.keys().map(|result| rise(result)).sum(),
        in_vain,
        in_vain_per_1000_calls: in_vain * 1000.0 / args.calls.max(1) as f64,
        share_of_first: 1.0,
    })
}

fn path(signer: &stile_domain::Address) -> String {
    format!("/api/v1/nonces/{signer}/allocate")
}

impl Report {
    fn table(&self) -> String {
        let mut table = plain(&[
            "mode",
            "nodes",
            "lanes",
            "callers",
            "calls",
            "refused",
            "calls/s",
            "lanes asked for",
            "in vain",
            "in vain a 1,000 calls",
            "of basic",
        ]);
        for line in &self.acquires {
            table.add_row([
                line.mode.to_owned(),
                line.nodes.to_string(),
                line.lanes.to_string(),
                line.callers.to_string(),
                line.calls.to_string(),
                line.calls_refused.to_string(),
                thousands(line.calls_per_second),
                thousands(line.asked),
                thousands(line.in_vain),
                format!("{:.1}", line.in_vain_per_1000_calls),
                format!("{:.1} %", line.share_of_first * 100.0),
            ]);
        }
        align(&mut table, 1..11);
        table.to_string()
    }
}
