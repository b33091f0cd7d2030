//! `stile bench failover`: how long the lanes of a node that is killed stand still.
//!
//! | file | what is in it |
//! |---|---|
//! | `kill` | one kill, and all that is seen of it |
//! | `trickle` | a small load |
//! | `report` | the results, for people and for programs |

mod kill;
mod report;
mod trickle;

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;

use self::report::Report;
use self::trickle::Trickle;
use super::nodes::{
    Accounts, Cluster, InFlight, Mode, Signers, Wanted, hand_over_once, lanes_by_node,
};
use super::stores::{Databases, StoreKind};
use super::{Failure, show};
use crate::config::HumanDuration;

/// What the first node is told if it is to hold every lane: it hands none of them over.
const KEEPS_LANES: &str = "cluster.move_lanes = false";

/// A lane is seldom given work if this long passes in between. It is open for 128 blocks of a second
/// each after it was mined.
const SELDOM_SECONDS: u64 = 60;

#[derive(Debug, Args)]
pub(in crate::cli) struct FailoverArgs {
    /// A PostgreSQL server to use instead of a private one: any database on it, in which nothing is
    /// changed. A database is created next to it, and removed.
    #[arg(long, value_name = "URL")]
    store_url: Option<String>,
    /// How often a node is killed.
    #[arg(long, default_value_t = 50)]
    kills: usize,
    /// Lanes, all with open work.
    #[arg(long, default_value_t = 20)]
    lanes: usize,
    /// Nodes, two at least.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// How long a lease lasts. It is renewed four times as often.
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    lease: HumanDuration,
    /// How the nodes work their lanes.
    #[arg(long, value_enum, default_value = "worker-queue")]
    mode: Mode,
    /// The node that is killed first holds every lane, instead of its share of them.
    #[arg(long)]
    one_holder: bool,
    /// Of the lanes of a killed node, how many are given a transaction to see when they are at work
    /// again.
    #[arg(long, default_value_t = 200, value_name = "COUNT")]
    sample: usize,
    /// Transactions in flight on each lane when a node is killed. They are written into the database
    /// before the nodes start, and the chain makes no blocks.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    in_flight: usize,
    /// How many of a hundred of those have 100 kB of call data.
    #[arg(long, default_value_t = 1, value_name = "PERCENT")]
    large: usize,
    /// Transactions handed over each second meanwhile, over all lanes.
    #[arg(long, default_value_t = 50, value_name = "COUNT")]
    load: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: FailoverArgs) -> Result<(), Failure> {
    if args.nodes < 2 || args.lanes == 0 || args.kills == 0 {
        return Err(
            "--nodes: 2 at least, so that there is one to take over; --lanes and --kills: \
                    give numbers from 1"
                .into(),
        );
    }
    let bar = show::progress(args.kills)?;
    bar.set_message("accounts");
    bar.tick();
    let accounts = Arc::new(Accounts::new(args.lanes)?);
    let databases = Databases::start(StoreKind::Postgres, args.store_url.as_deref()).await?;
    let server = databases.server().await?;
    let lease = args.lease.get();
    let renewal = HumanDuration::from_millis(lease.as_millis() as u64 / 4);
    let wanted = Wanted {
        server: &server,
        nodes: args.nodes,
        accounts: &accounts,
        signers: Signers::Send,
        mode: args.mode,
        settings: format!(
            "nonce.lease.duration = \"{}\"\nnonce.lease.renew_interval = \"{renewal}\"",
            args.lease
        ),
        first: if args.one_holder { KEEPS_LANES } else { "" },
        in_flight: (args.in_flight > 0)
            .then_some(InFlight { of_each_lane: args.in_flight, large_percent: args.large }),
    };
    let bench = Bench { args: &args, lease, bar: &bar };
    let report = Cluster::with(wanted, async |cluster| bench.kills(cluster).await).await?;
    bar.finish_and_clear();
    show::print(&report, args.json, Report::tables)
}

struct Bench<'b> {
    args: &'b FailoverArgs,
    lease: Duration,
    bar: &'b ProgressBar,
}

impl Bench<'_> {
    async fn kills(&self, cluster: &mut Cluster) -> Result<Report, Failure> {
        self.step("lanes".into());
        if self.args.one_holder {
            let signers = cluster.accounts.addresses.iter().map(ToString::to_string);
            hand_over_once(cluster, 0, &signers.collect::<Vec<_>>(), "first").await?;
            cluster.complete(self.args.nodes).await?;
        } else {
            lanes_by_node(cluster).await?;
        }
        if self.args.in_flight > 0 {
            self.step("first sendings".into());
            self.all_sent(cluster).await?;
        }
        let trickle = Trickle::start(cluster, self.args.load);
        let mut kills = Vec::with_capacity(self.args.kills);
        for number in 0..self.args.kills {
            self.step(format!("kill {}", number + 1));
            let victim = self.victim(cluster, number).await?;
            self.give_work(cluster, number, victim).await?;
            kills.push(self.kill(cluster, &trickle, number, victim).await?);
            if number + 1 < self.args.kills {
                self.step("restart".into());
                cluster.restart(victim).await?;
                trickle.uses(cluster, None);
            }
            self.bar.inc(1);
        }
        Ok(Report::new(self.args, kills))
    }

    /// The node to be killed next: one after the other, if it holds lanes, else whoever holds most.
    /// Lanes may still be on their way to it.
    async fn victim(&self, cluster: &Cluster, number: usize) -> Result<usize, Failure> {
        let next = number % cluster.nodes.len();
        let until = Instant::now() + 4 * self.lease + Duration::from_secs(2);
        loop {
            let holders = cluster.watch.holders().await?;
            let settled = holders.values().sum::<usize>() == self.args.lanes;
            let has = |place: usize| holders.get(&cluster.nodes[place].id).copied().unwrap_or(0);
            if settled && has(next) > 0 {
                return Ok(next);
            }
            if settled && Instant::now() > until {
                let most = (0..cluster.nodes.len()).max_by_key(|place| has(*place));
                return most.ok_or_else(|| "nobody holds lanes".into());
            }
            if Instant::now() > until + Duration::from_secs(60) {
                return Err(format!("not all lanes are held: {holders:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until everything that is in flight has been sent once.
    async fn all_sent(&self, cluster: &Cluster) -> Result<(), Failure> {
        let until = Instant::now() + Duration::from_secs(600);
        loop {
            let unsent = cluster.watch.unsent().await?;
            if unsent == 0 {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(format!("{unsent} transactions were not sent").into());
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    /// Where the load comes to a lane so rarely that all its work may be over and done with, each
    /// lane gets some more: lanes without open work are not taken over.
    async fn give_work(
        &self,
        cluster: &Cluster,
        number: usize,
        victim: usize,
    ) -> Result<(), Failure> {
        if self.args.in_flight == 0 && self.args.lanes as u64 > SELDOM_SECONDS * self.args.load {
            let signers = cluster.accounts.addresses.iter().map(ToString::to_string);
            let name = format!("before-kill-{number}");
            hand_over_once(cluster, victim, &signers.collect::<Vec<_>>(), &name).await?;
        }
        Ok(())
    }

    fn step(&self, message: String) {
        self.bar.set_message(message);
        self.bar.tick();
    }
}
