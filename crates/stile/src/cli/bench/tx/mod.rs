//! `stile bench tx`.
//!
//! | file | what is in it |
//! |---|---|
//! | `figures` | what is measured, one function each |
//! | `site` | a chain and a node as a process of its own |
//! | `chain` | the chain, and its raw limit |
//! | `callers` | those who hand transactions over |
//! | `report` | the results, for people and for programs |

mod callers;
mod chain;
mod figures;
mod report;
mod site;

use std::time::Duration;

use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use stile_store::raw;

use self::chain::{Blocks, Chain};
use self::figures::Figure;
use self::report::{RawChain, RawStore, Report};
use self::site::Site;
use super::stores::{Databases, StoreKind};
use super::{Failure, show};

/// Enough for everything a figure hands over to get its nonce at once.
const OPEN_WINDOW: &str = "lane.max_in_flight = 1000000";

#[derive(Debug, Args)]
pub(in crate::cli) struct TxArgs {
    /// Which stores to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sqlite", "postgres"])]
    stores: Vec<StoreKind>,
    /// A PostgreSQL database to use instead of a private server. It must be empty.
    #[arg(long, value_name = "URL")]
    postgres_url: Option<String>,
    /// Numbers of signers, 10 at most.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    signers: Vec<usize>,
    /// Numbers of callers at one time.
    #[arg(long, value_delimiter = ',', default_values_t = [32, 256])]
    callers: Vec<usize>,
    /// Which calls to measure.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["one", "batch"])]
    calls: Vec<Call>,
    /// Transactions in a batch call.
    #[arg(long, default_value_t = 100, value_name = "COUNT")]
    batch: usize,
    /// Transactions that are followed until the last is mined; 0 to leave that out.
    #[arg(long, default_value_t = 1000, value_name = "COUNT")]
    land: usize,
    /// Transactions in flight when memory is measured; 0 to leave that out.
    #[arg(long, default_value_t = 10_000, value_name = "COUNT")]
    in_flight: usize,
    /// Transactions that are over and done with, for the figures with history; 0 to leave them out.
    #[arg(long, default_value_t = 0, value_name = "COUNT")]
    history: u64,
    /// Which chain to send to.
    #[arg(long, value_enum, default_value = "dev")]
    chain: chain::Kind,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 4)]
    seconds: u64,
    /// Print JSON instead of tables.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Call {
    One,
    Batch,
}

/// What a lane may have in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Window {
    /// As configured by default: what is beyond it waits for its nonce.
    Default,
    /// Every transaction gets its nonce, its signature and its answer in one go.
    Open,
}

impl Window {
    const ALL: [Self; 2] = [Self::Default, Self::Open];

    fn settings(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Open => OPEN_WINDOW,
        }
    }
}

pub(super) async fn run(args: TxArgs) -> Result<(), Failure> {
    let bench = Bench::new(args)?;
    let report = bench.run().await?;
    bench.bar.finish_and_clear();
    show::print(&report, bench.args.json, Report::tables)
}

struct Bench {
    args: TxArgs,
    each: Duration,
    bar: ProgressBar,
}

impl Bench {
    fn new(args: TxArgs) -> Result<Self, Failure> {
        if args.signers.iter().any(|signers| !(1..=10).contains(signers)) {
            return Err(
                "--signers: the chain funds 10 accounts, so give numbers from 1 to 10".into()
            );
        }
        let each_store = 2
            + Window::ALL.len() * args.signers.len() * args.callers.len() * args.calls.len()
            + if args.land > 0 { args.signers.len() } else { 0 }
            + usize::from(args.in_flight > 0)
            + if args.history > 0 { args.callers.len() * args.calls.len() } else { 0 };
        let bar = show::progress(args.stores.len() * each_store)?;
        Ok(Self { each: Duration::from_secs(args.seconds.max(1)), args, bar })
    }

    async fn run(&self) -> Result<Report, Failure> {
        let mut report = Report::default();
        for kind in self.args.stores.iter().copied() {
            let databases = Databases::start(kind, self.args.postgres_url.as_deref()).await?;
            self.store(kind, &databases, &mut report).await?;
        }
        Ok(report)
    }

    async fn store(
        &self,
        kind: StoreKind,
        databases: &Databases,
        report: &mut Report,
    ) -> Result<(), Failure> {
        let store = kind.name();
        self.step(format!("{store}: raw limits"));
        let limits = raw::measure_admission(&databases.fresh("raw").await?, self.each).await?;
        report.raw_store.push(RawStore::new(store, &limits));
        self.bar.inc(1);
        for window in Window::ALL {
            for signers in self.args.signers.iter().copied() {
                for (call, callers) in self.ways() {
                    let figure = Figure { store, window, signers, call, callers, limits };
                    let name = format!("{window:?}-{signers}-{call:?}-{callers}");
                    self.step(format!("{store}: {name}"));
                    let url = databases.fresh(&name).await?;
                    let chain = self.chain(Blocks::EverySecond).await?;
                    let site = Site::start(&url, chain, signers, window.settings()).await?;
                    report.accepted.push(self.accepted(&site, figure, 0).await?);
                    self.bar.inc(1);
                }
            }
        }
        if self.args.land > 0 {
            for signers in self.args.signers.iter().copied() {
                self.step(format!("{store}: {} mined, {signers} signers", self.args.land));
                let url = databases.fresh(&format!("land-{signers}")).await?;
                let raw = self.chain(Blocks::EverySecond).await?;
                let raw = raw.raw(signers, self.args.land).await?;
                report.raw_chain.push(RawChain::new(store, signers, self.args.land, raw));
                report.landed.push(self.landed(store, &url, signers, raw.mined).await?);
                self.bar.inc(1);
            }
        }
        if self.args.in_flight > 0 {
            self.step(format!("{store}: {} in flight", self.args.in_flight));
            let url = databases.fresh("in-flight").await?;
            report.footprint.push(self.footprint(store, &url).await?);
            self.bar.inc(1);
        }
        if self.args.history > 0 {
            let url = databases.fresh("history").await?;
            self.with_history(store, &url, limits, report).await?;
        }
        Ok(())
    }

    fn step(&self, message: String) {
        self.bar.set_message(message);
        self.bar.tick();
    }

    async fn chain(&self, blocks: Blocks) -> Result<Chain, Failure> {
        Chain::start(self.args.chain, blocks).await
    }

    fn ways(&self) -> impl Iterator<Item = (Call, usize)> + '_ {
        let callers = &self.args.callers;
        self.args.calls.iter().flat_map(move |call| callers.iter().map(|count| (*call, *count)))
    }
}
