//! `stile rollout`: which signers are Stile's.
//!
//! These commands work on the store itself. Running nodes go by it at once: what counts is in the lane's
//! row when a nonce is bound.

mod show;

use std::collections::HashMap;

use clap::{Args, Subcommand};
use stile_domain::{Address, ChainId, Lane, LaneOwner, NodeId, Percent, parse_address};
use stile_store::OwnerChange;

use super::on_store::on_store;
use super::v1::percent;
use super::{ConfigFile, Failure, table};

#[derive(Debug, Subcommand)]
pub(super) enum RolloutCommand {
    /// Show the list, and each chain's share.
    Show(ShowArgs),
    /// Change them.
    Set(SetArgs),
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    file: ConfigFile,
}

#[derive(Debug, Args)]
#[group(id = "change", required = true, multiple = true)]
pub(super) struct SetArgs {
    /// Of the signers that are not on the list, those are Stile's whose number, a hash of the address
    /// from 0 to 99, is below this. `all` is as if nothing had ever been said.
    #[arg(long, value_name = "N|all", value_parser = share, group = "change")]
    percent: Option<Share>,
    /// Give this signer to Stile; may be given more than once. Refused for one that V1 has.
    #[arg(long, value_name = "ADDRESS", value_parser = address, group = "change")]
    add: Vec<Address>,
    /// Take this signer from Stile; may be given more than once. Nothing gets a nonce of it any more; what has
    /// one is seen through.
    #[arg(long, value_name = "ADDRESS", value_parser = address, group = "change")]
    remove: Vec<Address>,
    /// May be left out while there is one chain.
    #[arg(long)]
    chain_id: Option<u64>,
    #[command(flatten)]
    file: ConfigFile,
}

/// One `--percent`.
#[derive(Debug, Clone, Copy)]
enum Share {
    All,
    Of(Percent),
}

fn share(text: &str) -> Result<Share, String> {
    if text == "all" { Ok(Share::All) } else { percent(text).map(Share::Of) }
}

fn address(text: &str) -> Result<Address, String> {
    parse_address(text).map_err(|error| error.to_string())
}

pub(super) async fn rollout(
    command: RolloutCommand,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    match command {
        RolloutCommand::Show(args) => {
            let rollout =
                on_store(&args.file, environment, async |store| store.rollout().await).await?;
            let json = show::json(&rollout);
            table::print(&if args.json { table::json(&json) } else { show::shown(&json) })
        }
        RolloutCommand::Set(args) => set(&args, environment).await,
    }
}

async fn set(args: &SetArgs, environment: &HashMap<String, String>) -> Result<(), Failure> {
    let chain = chain(args, environment)?;
    let node = NodeId("rollout".to_owned());
    let lanes = |signers: &[Address]| -> Vec<Lane> {
        signers.iter().map(|signer| Lane::new(chain, *signer)).collect()
    };
    let (added, removed) = (lanes(&args.add), lanes(&args.remove));
    let (moved, add, remove) = on_store(&args.file, environment, async |store| {
        let moved = match args.percent {
            None => Vec::new(),
            Some(Share::All) => store.set_share(&node, chain, None).await?,
            Some(Share::Of(percent)) => store.set_share(&node, chain, Some(percent)).await?,
        };
        let from = [None, Some(LaneOwner::Stopped), Some(LaneOwner::Stile)];
        let add = store.set_owner(&node, &added, &from, LaneOwner::Stile).await?;
        let from = [None, Some(LaneOwner::Stopped), Some(LaneOwner::Stile)];
        let remove = store.set_owner(&node, &removed, &from, LaneOwner::Stopped).await?;
        Ok((moved, add, remove))
    })
    .await?;
    let mut said = Vec::new();
    if args.percent.is_some() {
        said.push(format!("{} lanes changed hands by the share", moved.len()));
    }
    let mut refused = Vec::new();
    let changes = added.iter().zip(add).map(|change| (change, "is Stile's"));
    let changes = changes.chain(removed.iter().zip(remove).map(|change| (change, "is stopped")));
    for ((lane, change), words) in changes {
        match change {
            OwnerChange::Done => said.push(format!("{} {words}", lane.signer)),
            _ => refused.push(format!(
                "{} is V1's, which goes on giving out its nonces: move it with stile import-v1 --signer {}",
                lane.signer, lane.signer
            )),
        }
    }
    if !said.is_empty() {
        table::print(&said.join("\n"))?;
    }
    if refused.is_empty() { Ok(()) } else { Err(refused.join("\n").into()) }
}

fn chain(args: &SetArgs, environment: &HashMap<String, String>) -> Result<ChainId, Failure> {
    let config = args.file.load(environment)?;
    let id = match (args.chain_id, &config.chains[..]) {
        (Some(id), _) => id,
        (None, [only]) => only.id,
        (None, _) => return Err("say with --chain-id which chain".into()),
    };
    Ok(ChainId::new(id)?)
}
