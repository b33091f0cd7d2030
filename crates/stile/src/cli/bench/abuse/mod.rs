//! `stile bench abuse`: what other callers notice of idle streams, half-sent calls and wrong keys.
//!
//! | file | what is in it |
//! |---|---|
//! | `attack` | those who take what they can |
//! | `others` | those who only want their answers |
//! | `report` | figures before, during and after |
//!
//! Attackers and others come from different addresses of this machine, as they would from the net, and
//! run in this process: what they take of the processor is taken from the server. So the ratio is an
//! upper limit of what the server adds.

mod attack;
mod others;
mod report;

use std::time::{Duration, Instant};

use clap::Args;
use serde_json::{Value, json};

use self::attack::Attack;
use self::report::{Phase, Report};
use super::nodes::{CHAIN_ID, Node, RECEIVER};
use super::{Failure, show};
use crate::cli::open_files;

#[derive(Debug, Args)]
pub(in crate::cli) struct AbuseArgs {
    /// Event streams that are opened and never read from.
    #[arg(long, default_value_t = 2_000)]
    streams: usize,
    /// Calls whose head is begun and never ended, at any time.
    #[arg(long, default_value_t = 300)]
    half_sent: usize,
    /// Calls a second with a key that nobody has.
    #[arg(long, default_value_t = 1_000)]
    wrong_keys: usize,
    /// Calls a second of everybody else, half of which take a nonce.
    #[arg(long, default_value_t = 200)]
    others: usize,
    /// How long each phase takes.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
}

/// How long sockets may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) async fn run(args: AbuseArgs) -> Result<(), Failure> {
    // Every connection is a file on this side, too.
    open_files::room_for(args.streams + args.half_sent + args.others + 64);
    let bar = show::progress(4)?;
    bar.set_message("starting");
    let directory = tempfile::Builder::new().prefix("stile-bench-").tempdir()?;
    let store = format!("sqlite://{}", directory.path().join("stile.db").display());
    let signer = RECEIVER;
    let node = Node::start("bench", &configuration(&store, signer)).await?;
    let others_key = key(&node, None, "others").await?;
    let streams_key = key(&node, Some(&others_key), "streams").await?;
    let measured = Duration::from_secs(args.seconds.max(1));
    let others = || others::run(&node, &others_key, signer, args.others, measured);

    // Whatever is made once is made now.
    others::run(&node, &others_key, signer, args.others, measured / 4).await?;
    let files = node.open_files();
    bar.set_message("others alone");
    let mut report = Report::new(&args);
    report.add(Phase::of("before", &node, files, others().await?));
    bar.inc(1);

    bar.set_message("the attack begins");
    let attack = Attack::begin(node.address, &streams_key, &args).await?;
    bar.inc(1);
    bar.set_message("others under attack");
    let seen = others().await?;
    report.add(Phase::of("during", &node, node.open_files(), seen));
    report.attack = Some(attack.end().await);
    bar.inc(1);

    bar.set_message("others after it");
    let until = Instant::now() + PATIENCE;
    let sockets = |files: Option<(usize, usize)>| files.map(|(_, sockets)| sockets);
    while sockets(node.open_files()) > sockets(files) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let files = node.open_files();
    report.add(Phase::of("after", &node, files, others().await?));
    bar.finish_and_clear();
    show::print(&report, args.json, Report::table)
}

fn configuration(store: &str, signer: &str) -> String {
    format!(
        "log.level = \"error\"\nstore.url = {store:?}\nnonce.chain_query.enabled = false\n\
         nonce.hold_timeout = \"1h\"\n[[chain]]\nid = {}\n[[signer]]\naddress = \"{signer}\"\n",
        CHAIN_ID
    )
}

/// Makes a key; with the first one the server asks for keys.
async fn key(node: &Node, admin: Option<&str>, name: &str) -> Result<String, Failure> {
    let mut connection = node.connect().await?;
    if let Some(admin) = admin {
        connection.use_key(admin)?;
    }
    let wanted = json!({ "name": name, "operations": ["admin"] });
    let (status, body) = connection.post("/api/v1/keys", wanted.to_string()).await?;
    let made: Value = serde_json::from_slice(&body)?;
    let token = made["token"].as_str().map(str::to_owned);
    token.ok_or_else(|| format!("no key was made: {status} {made}").into())
}
