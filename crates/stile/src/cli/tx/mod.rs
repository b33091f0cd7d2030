//! `stile tx`: transactions of a running server.

mod amount;
mod replace;
mod restored;
mod send;
mod show;
mod watch;

use std::collections::HashMap;

use clap::Subcommand;
use serde_json::{Map, Value};

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
    /// Withdraw a transaction, if that can be had still.
    Cancel(replace::CancelArgs),
    /// Have a transaction mined sooner, at higher fees.
    SpeedUp(replace::SpeedUpArgs),
    /// Say what became of a transaction that waits because the database was restored.
    Restored(restored::RestoredArgs),
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
        TxCommand::Cancel(args) => replace::cancel(args, environment).await,
        TxCommand::SpeedUp(args) => replace::speed_up(args, environment).await,
        TxCommand::Restored(args) => restored::restored(args, environment).await,
    }
}

/// An object of the fields that are there.
fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let given = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(given.collect::<Map<_, _>>())
}
