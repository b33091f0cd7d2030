//! `stile dev`: everything on embedded defaults, and a first few nonces to look at.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stile_domain::{B256, ChainId, Lane, parse_address};
use stile_engine::NonceComponent;

use super::{Failure, logging, run};
use crate::config::Config;
use crate::wiring;

/// The accounts that every development chain knows.
const SIGNERS: [&str; 3] = [
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
];
const CHAIN: u64 = 31337;

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Ask this chain node where nonces start; without it they start at 0.
    #[arg(long, value_name = "URL")]
    rpc_url: Option<String>,
    /// Where the database is kept.
    #[arg(long, value_name = "DIRECTORY", default_value = ".stile")]
    data: PathBuf,
    /// Start over with an empty database.
    #[arg(long)]
    fresh: bool,
    /// Show what to try, then end instead of serving on.
    #[arg(long)]
    once: bool,
}

pub(super) async fn dev(
    args: DevArgs,
    environment: &HashMap<String, String>,
) -> Result<(), Failure> {
    let database = args.data.join("dev.db");
    if args.fresh {
        remove(&database)?;
    }
    std::fs::create_dir_all(&args.data)
        .map_err(|e| format!("cannot make {}: {e}", args.data.display()))?;
    let config = Config::parse("stile dev", &toml(&args, &database), std::iter::empty())?;
    logging::start(&config.log)?;
    let parts = wiring::parts(&config, environment)?;
    let running = run::start(parts, args.listen, true).await?;
    let address = running.server.address();
    println!("store    {}", database.display());
    println!("server   http://{address}   (only this machine can reach it)");
    for signer in SIGNERS {
        println!("signer   {signer}   chain {CHAIN}");
    }
    demonstrate(running.node.nonces()).await?;
    println!("{}", hints(address));
    if args.once {
        running.node.shutdown().await;
        return Ok(());
    }
    running.until_signal().await
}

/// Removes the database with everything that belongs to it, unless somebody is using it.
fn remove(database: &std::path::Path) -> Result<(), Failure> {
    if database.exists() {
        // Taking the server's lock proves that nobody serves it.
        drop(stile_store::sqlite::SqliteStore::open(database, true)?);
    }
    for suffix in ["", "-wal", "-shm", ".lock"] {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(format!("cannot remove {}: {error}", path.to_string_lossy()).into());
            }
            _ => {}
        }
    }
    Ok(())
}

fn toml(args: &DevArgs, database: &std::path::Path) -> String {
    use std::fmt::Write;
    let endpoints: Vec<&str> = args.rpc_url.as_deref().into_iter().collect();
    let mut text = format!(
        "[node]\nid = \"dev\"\n[log]\nlevel = \"warn\"\n[store]\nurl = {:?}\n\
         [nonce.chain_query]\nenabled = {}\n[[chain]]\nid = {CHAIN}\nendpoints = {endpoints:?}\n",
        format!("sqlite://{}", database.display()),
        args.rpc_url.is_some(),
    );
    for signer in SIGNERS {
        let _ = write!(text, "[[signer]]\naddress = \"{signer}\"\n");
    }
    text
}

/// Hands out a few nonces, marks some used and gives one back, so that there is something to see.
async fn demonstrate(nonces: &NonceComponent) -> Result<(), Failure> {
    const ROUNDS: u64 = 10;
    let bar = ProgressBar::new(ROUNDS * SIGNERS.len() as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} nonces handed out and marked")?,
    );
    let chain = ChainId::new(CHAIN)?;
    let mut shown = Vec::new();
    for signer in SIGNERS {
        let lane = Lane::new(chain, parse_address(signer)?);
        let mut given = Vec::new();
        for round in 0..ROUNDS {
            let hold = nonces.allocate(lane).await?;
            given.push(hold.nonce);
            if round == ROUNDS - 1 {
                nonces.mark_recyclable(&hold, "a demonstration gives this one back").await?;
            } else {
                nonces.mark_used(&hold, B256::repeat_byte(0x11)).await?;
            }
            bar.inc(1);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // A nonce that an earlier run gave back may come in the middle.
        if let Some((given_back, used)) = given.split_last()
            && let (Some(lowest), Some(highest)) = (used.iter().min(), used.iter().max())
        {
            shown.push(format!(
                "         {signer}: {lowest} to {highest}, and {given_back} given back"
            ));
        }
    }
    bar.finish_and_clear();
    println!("nonces   handed out and marked as used:");
    shown.iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn hints(address: SocketAddr) -> String {
    let signer = SIGNERS[0];
    format!(
        "\nTry next:\n\
         \x20 curl -s -X POST http://{address}/api/v1/nonces/{signer}/allocate\n\
         \x20 curl -s -X POST http://{address}/api/v1/nonces/{signer}/NONCE/used \\\n\
         \x20      -H 'content-type: application/json' -d '{{\"holdId\":\"HOLD_ID\",\"txHash\":\"0x{}\"}}'\n\
         \x20 curl -s http://{address}/api/v1/signers\n\
         \x20 curl -s http://{address}/metrics | grep ^stile_\n\
         Ctrl-C stops.",
        "11".repeat(32),
    )
}
