//! `stile signer`: the lanes of a running server.
//!
//! | file | what is in it |
//! |---|---|
//! | `show` | list, show |
//! | `doctor` | why a signer does not move |
//! | `care` | what can be done about it: repair, pause, resume, reconcile |
//! | `restored` | what waits because the database was restored |
//! | `history` | what happened to a signer |

mod care;
mod doctor;
mod history;
mod restored;
mod show;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use serde_json::{Map, Value};

use super::Failure;
use super::client::{ServerArgs, encoded};

#[derive(Debug, Subcommand)]
pub(super) enum SignerCommand {
    /// List the signers that the server serves.
    List(show::ListArgs),
    /// Show one signer.
    Show(Which),
    /// Say why a signer does not move, and what can be done about it.
    Doctor(Which),
    /// Mend a signer that does not move, or say what would be done.
    Repair(care::RepairArgs),
    /// Stop a signer: nothing gets a nonce until it is resumed. What has one is sent still.
    Pause(care::PauseArgs),
    /// Let a paused signer go on.
    Resume(care::ResumeArgs),
    /// Compare a signer's records with its chain.
    Reconcile(Which),
    /// Show what waits because the database was restored, or say what became of it.
    Restored(restored::RestoredArgs),
    /// Show what happened to a signer, newest first.
    History(history::HistoryArgs),
}

/// Which signer, on which server.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// The account.
    address: String,
    /// May be left out while there is one chain.
    #[arg(long)]
    chain_id: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

impl Which {
    fn path(&self, rest: &str) -> String {
        format!("/api/v1/signers/{}{rest}", encoded(&self.address))
    }

    /// What the server says to a question about the signer.
    async fn get(
        &self,
        rest: &str,
        more: &[(&str, String)],
        environment: &HashMap<String, String>,
    ) -> Result<Value, Failure> {
        let mut query = more.to_vec();
        query.extend(self.chain_id.map(|id| ("chainId", id.to_string())));
        Ok(self.server.client(environment)?.get(&self.path(rest), &query).await?)
    }

    /// What the server says to an order about the signer.
    async fn post(
        &self,
        rest: &str,
        mut body: Map<String, Value>,
        environment: &HashMap<String, String>,
    ) -> Result<Value, Failure> {
        body.extend(self.chain_id.map(|id| ("chainId".to_owned(), id.into())));
        Ok(self.server.client(environment)?.post(&self.path(rest), &body.into()).await?)
    }
}

pub(super) async fn signer(
    command: SignerCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        SignerCommand::List(args) => show::list(args, environment).await,
        SignerCommand::Show(which) => show::show(which, environment).await,
        SignerCommand::Doctor(which) => doctor::doctor(which, environment).await,
        SignerCommand::Repair(args) => care::repair(args, environment).await,
        SignerCommand::Pause(args) => care::pause(args, environment).await,
        SignerCommand::Resume(args) => care::resume(args, environment).await,
        SignerCommand::Reconcile(which) => care::reconcile(which, environment).await,
        SignerCommand::Restored(args) => restored::restored(args, environment).await,
        SignerCommand::History(args) => history::history(args, environment).await,
    }
}
