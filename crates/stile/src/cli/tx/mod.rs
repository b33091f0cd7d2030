//! `stile tx`: transactions of a running server.

mod amount;
mod send;
mod show;
mod watch;

use std::collections::HashMap;

use clap::Subcommand;

use super::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum TxCommand {
    /// Hand over a transaction.
    Send(Box<send::SendArgs>),
    /// Show one transaction.
    Get(show::GetArgs),
    /// List transactions, newest first.
    List(show::ListArgs),
    /// Follow a transaction until it is done. Succeeds if it does.
    Watch(watch::WatchArgs),
}

pub(super) async fn tx(
    command: TxCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        TxCommand::Send(args) => send::send(*args, environment).await,
        TxCommand::Get(args) => show::get(args, environment).await,
        TxCommand::List(args) => show::list(args, environment).await,
        TxCommand::Watch(args) => watch::watch(args, environment).await,
    }
}
