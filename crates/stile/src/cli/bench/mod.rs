//! `stile bench`: measured next to the raw limits of the same database, in the same run.

mod allocate;
mod http;
mod load;
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
}

pub(super) async fn bench(command: BenchCommand) -> Result<(), Failure> {
    match command {
        BenchCommand::Allocate(args) => allocate::run(args).await,
        BenchCommand::Tx(args) => tx::run(args).await,
    }
}
