//! `stile dev`: a chain, a store and three signers, without anything else, and a first few
//! transactions to look at.
//!
//! | file | what it is for |
//! |---|---|
//! | `place` | the files in the data directory: which belong together, and starting over |
//! | `chain` | the development chain, and where it listens |
//! | `settings` | the configuration that it all runs with |
//! | `show` | the first transactions |
//! | `hints` | what to try next |

mod chain;
mod hints;
mod place;
mod settings;
mod show;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use stile_devchain::DevChain;

use super::{Failure, logging, run};
use crate::wiring;
use place::Place;

/// The number of the chain, whether it is ours or a given one.
const CHAIN: u64 = 31337;

/// How many of the accounts that every development chain knows sign here.
const SIGNERS: usize = 3;

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Where the chain listens; without it 127.0.0.1:8545, or any free port if that is taken.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "rpc_url")]
    chain_listen: Option<SocketAddr>,
    /// Use this chain node (chain id 31337) instead of a chain of its own.
    #[arg(long, value_name = "URL")]
    rpc_url: Option<String>,
    /// Where chain and database are kept.
    #[arg(long, value_name = "DIRECTORY", default_value = ".stile")]
    data: PathBuf,
    /// Start over with an empty database, and with an empty chain unless one is given.
    #[arg(long)]
    fresh: bool,
    /// Send a few transactions, show what to try, then end instead of serving on.
    #[arg(long)]
    once: bool,
}

pub(super) async fn dev(
    args: DevArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let mut place = Place::new(&args.data, args.rpc_url.as_deref())?;
    if args.fresh {
        place.remove()?;
    }
    place.prepare(&args.data)?;
    logging::start(&settings::logging()?.log)?;
    let (chain, endpoint) = match (&args.rpc_url, place.chain()) {
        (None, Some(file)) => {
            let chain = chain::start(file, args.chain_listen).await?;
            let url = chain.url();
            (Some(chain), url)
        }
        (given, _) => (None, given.clone().unwrap_or_default()),
    };
    let served = serve(&args, &place, chain.as_ref(), &endpoint, environment).await;
    if let Some(chain) = chain {
        chain.stop().await;
    }
    served
}

async fn serve(
    args: &DevArgs,
    place: &Place,
    chain: Option<&DevChain>,
    endpoint: &str,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    place.check_store(chain)?;
    let config = settings::config(place, endpoint)?;
    let environment = settings::with_keys(environment);
    let parts = wiring::parts(&config, &environment)?;
    for chain in parts.managed.chains.iter() {
        // Rather now than after a long wait for transactions that nobody takes.
        chain.view().await?;
    }
    let running = run::start(parts, args.listen, true).await?;
    let address = running.server.address();
    println!("store    {}", place.store().display());
    println!("chain    {endpoint}   {}", chain::remark(args, chain));
    println!("server   http://{address}   ({})", reach(address, running.open));
    for signer in settings::signers() {
        println!("signer   {}   chain {CHAIN}", signer.address);
    }
    let shown = show::show(running.node.transactions()).await;
    if let Err(failure) = shown {
        running.node.shutdown().await;
        return Err(failure);
    }
    println!("{}", hints::hints(address, endpoint));
    if args.once {
        running.node.shutdown().await;
        return Ok(());
    }
    running.until_signal().await
}

/// Who can call the server. Where others reach it there is a key, or it would not have started.
fn reach(address: SocketAddr, open: bool) -> &'static str {
    match (address.ip().is_loopback(), open) {
        (true, true) => "only this machine can reach it",
        (true, false) => "only this machine can reach it, with an API key",
        (false, _) => "other machines can reach it, with an API key",
    }
}
