//! `stile bench`: measured next to the raw limits of the same database, in the same run.

mod abuse;
mod acquires;
mod allocate;
mod cluster;
mod failover;
mod http;
mod load;
mod nodes;
mod show;
mod stores;
mod table;
mod tx;

use clap::Subcommand;

use super::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum BenchCommand {
    /// Nonces handed out a second: in process and over HTTP, in both modes, for one lane and many.
    Allocate(allocate::AllocateArgs),
    /// Transactions accepted a second, one by one and many a call, and until the last is mined.
    Tx(tx::TxArgs),
    /// Transactions accepted a second by several nodes, and what they cost one PostgreSQL.
    Cluster(cluster::ClusterArgs),
    /// How long lanes stand still whose node is killed.
    Failover(failover::FailoverArgs),
    /// What other callers notice of idle streams, half-sent calls and wrong keys, all at once.
    Abuse(abuse::AbuseArgs),
    /// How often several nodes ask for lanes in vain, in both modes.
    Acquires(acquires::AcquiresArgs),
}

pub(super) async fn bench(command: BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Allocate(args) => allocate::run(args).await,
        BenchCommand::Tx(args) => tx::run(args).await,
        BenchCommand::Cluster(args) => cluster::run(args).await,
        BenchCommand::Failover(args) => failover::run(args).await,
        BenchCommand::Abuse(args) => abuse::run(args).await,
        BenchCommand::Acquires(args) => acquires::run(args).await,
    }
}
