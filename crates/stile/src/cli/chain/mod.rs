//! `stile chain`: the chains of a running server, and nodes that are not configured yet.
//!
//! | file | what is in it |
//! |---|---|
//! | `show` | what is printed of a chain |
//! | `check` | trying a node |

mod check;
mod show;

use std::collections::HashMap;

use clap::{Args, Subcommand};

use super::client::ServerArgs;
use super::{Failure, table};

#[derive(Debug, Subcommand)]
pub(super) enum ChainCommand {
    /// Show the chains that the server follows, and what their endpoints can do.
    Show(ShowArgs),
    /// Try a node before it is configured: what it can do, what Stile does instead, and what would not
    /// work. Needs no server.
    Check(check::CheckArgs),
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Only this chain.
    chain_id: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(super) async fn chain(
    command: ChainCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        ChainCommand::Show(args) => {
            let client = args.server.client(environment)?;
            let path = match args.chain_id {
                Some(id) => format!("/api/v1/chains/{id}"),
                None => "/api/v1/chains".to_owned(),
            };
            let chains = client.get(&path, &[]).await?;
            table::print(&if args.server.json {
                table::json(&chains)
            } else {
                show::shown(&chains)
            })
        }
        ChainCommand::Check(args) => check::check(args).await,
    }
}
