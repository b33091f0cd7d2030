//! `stile dev`: everything on embedded defaults, and a first few nonces to look at.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use stile_domain::{B256, ChainId, Lane, Payload, U256, parse_address};
use stile_engine::{NonceComponent, Transactions, TxRequest};

use super::{Failure, logging, run};
use crate::config::Config;
use crate::wiring;

/// The accounts that every development chain knows.
const SIGNERS: [&str; 3] = [
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
];

/// Their keys, which everybody knows as well. Never to be used on a chain where anything is worth
/// anything.
const KEYS: [&str; 3] = [
    "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80",
    "0x59c6995e998f97a5a0044966f0945389dc9e86dae88c7a8412f4603b6b78690d",
    "0x5de4111afa1a4b94908f83103eb1f1706367c2e68ca870fc3fb9a804cdab365a",
];
const CHAIN: u64 = 31337;

/// How long the first transactions are waited for.
const MINING_PATIENCE: Duration = Duration::from_secs(15);

#[derive(Debug, Args)]
pub(super) struct DevArgs {
    /// Where to listen.
    #[arg(long, default_value = "127.0.0.1:7420")]
    listen: SocketAddr,
    /// Send to this chain node (chain id 31337). Without it nonces are handed out and nothing is
    /// sent.
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
    let mut environment = environment.clone();
    environment
        .extend(KEYS.iter().enumerate().map(|(n, key)| (key_variable(n), (*key).to_owned())));
    let parts = wiring::parts(&config, &environment)?;
    for chain in parts.managed.chains.iter() {
        // Rather now than after a long wait for transactions that nobody takes.
        chain.view().await?;
    }
    let running = run::start(parts, args.listen, true).await?;
    let address = running.server.address();
    println!("store    {}", database.display());
    println!("server   http://{address}   (only this machine can reach it)");
    for signer in SIGNERS {
        println!("signer   {signer}   chain {CHAIN}");
    }
    match args.rpc_url {
        Some(_) => send_some(running.node.transactions()).await?,
        None => demonstrate(running.node.nonces()).await?,
    }
    println!("{}", hints(address, args.rpc_url.is_some()));
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
         [nonce.chain_query]\nenabled = {}\n[confirmations]\nrequired = 1\n[[chain]]\nid = {CHAIN}\nendpoints = {endpoints:?}\n",
        format!("sqlite://{}", database.display()),
        args.rpc_url.is_some(),
    );
    for (n, signer) in SIGNERS.iter().enumerate() {
        // Without a chain to send to there is nothing to sign.
        let _ = match args.rpc_url {
            Some(_) => write!(text, "[[signer]]\nkey = \"env:{}\"\n", key_variable(n)),
            None => write!(text, "[[signer]]\naddress = \"{signer}\"\n"),
        };
    }
    text
}

fn key_variable(n: usize) -> String {
    format!("STILE_DEV_KEY_{n}")
}

/// Sends a few transactions, so that there is something to see.
async fn send_some(transactions: &Transactions) -> Result<(), Failure> {
    const ROUNDS: usize = 3;
    let chain = ChainId::new(CHAIN)?;
    let mut requests = Vec::new();
    for n in 0..SIGNERS.len() * ROUNDS {
        let to = parse_address(SIGNERS[(n + 1) % SIGNERS.len()])?;
        requests.push(TxRequest {
            tenant: String::new(),
            lane: Lane::new(chain, parse_address(SIGNERS[n % SIGNERS.len()])?),
            request_id: None,
            payload: Payload { to: Some(to), value: U256::from(1), ..Payload::default() },
            finality: None,
        });
    }
    let bar = ProgressBar::new(requests.len() as u64)
        .with_style(ProgressStyle::with_template("{bar:30} {pos}/{len} transactions mined")?);
    let mut sent = Vec::new();
    for accepted in transactions.send_all(requests).await {
        sent.push(accepted?.tx.id);
    }
    let until = Instant::now() + MINING_PATIENCE;
    let mut seen = Vec::new();
    while seen.len() < sent.len() && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(100)).await;
        seen.clear();
        for id in &sent {
            let tx = transactions.get(*id).await?;
            seen.extend(tx.filter(|tx| tx.receipt.is_some()));
        }
        bar.set_position(seen.len() as u64);
    }
    bar.finish_and_clear();
    println!("sent     {} transactions, {} of them mined:", sent.len(), seen.len());
    for tx in &seen {
        let (nonce, state) = (tx.nonce.unwrap_or_default(), tx.standing.state);
        let block = tx.receipt.as_ref().map_or(0, |receipt| receipt.block_number);
        println!("         {}   nonce {nonce}   block {block}   {state}", tx.lane.signer);
    }
    if seen.len() < sent.len() {
        println!("         the rest lands as soon as the chain makes blocks");
    }
    Ok(())
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

fn hints(address: SocketAddr, with_chain: bool) -> String {
    let signer = SIGNERS[0];
    let send = format!("  stile tx send --signer {signer} --to {} --value 1 --wait\n", SIGNERS[1]);
    let send = if with_chain { send } else { String::new() };
    format!(
        "\nTry next:\n{send}\
         \x20 curl -s -X POST http://{address}/api/v1/nonces/{signer}/allocate\n\
         \x20 curl -s -X POST http://{address}/api/v1/nonces/{signer}/NONCE/used \\\n\
         \x20      -H 'content-type: application/json' -d '{{\"holdId\":\"HOLD_ID\",\"txHash\":\"0x{}\"}}'\n\
         \x20 curl -s http://{address}/api/v1/signers\n\
         \x20 curl -s http://{address}/metrics | grep ^stile_\n\
         Ctrl-C stops.",
        "11".repeat(32),
    )
}
